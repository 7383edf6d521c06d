//! What goes wrong: on purpose, with nonsense, and when the machine is started anew.

use std::{
    fs,
    time::{Duration, Instant},
};

use nvml_wrapper::error::NvmlError;
use whalezen_mock_nvml::{
    control::{Control, ControlError},
    machine::fault::Fault,
    refusal::Refusal,
};

use crate::bench::{Bench, Raw, nvml};

#[test]
fn a_fault_befalls_the_calls_it_names_and_is_taken_back() {
    let bench = Bench::new(
        r#"
        gpus = [{ model = "A30", count = 2, mig = true }]
        [[faults]]
        function = "nvmlDeviceCreateGpuInstance*"
        gpu = 1
        after = 1
        times = 1
        returns = "INSUFFICIENT_RESOURCES"
        "#,
    );
    let nvml = bench.nvml();
    let makes = |gpu: u32| (0..3).map(|_| Raw::new(&nvml, gpu).create(14, None).is_ok()).collect::<Vec<_>>();
    assert_eq!(makes(0), [true, true, true]);
    assert_eq!(makes(1), [true, false, true]);

    let hang = Fault {
        function: "nvmlDeviceGetName".to_owned(),
        gpu: None,
        after: 0,
        times: None,
        returns: None,
        hang_ms: 300,
        seen: 0,
    };
    bench.control.inject(hang.clone()).unwrap();
    let begun = Instant::now();
    assert_eq!(nvml.device_by_index(0).unwrap().name().unwrap(), "NVIDIA A30");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(bench.control.heal().unwrap(), 2);
    let nothing = bench.control.inject(Fault { hang_ms: 0, ..hang.clone() });
    assert!(matches!(nothing, Err(ControlError::Impossible(_))));
    assert!(matches!(bench.control.inject(Fault { gpu: Some(2), ..hang }), Err(ControlError::Impossible(_))));
}

#[test]
fn a_gpu_that_falls_off_the_bus_refuses_everything_until_it_is_reset() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", count = 2 }]"#);
    let nvml = bench.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let uuid = gpu.uuid().unwrap();
    bench.control.befall(0, 79, None).unwrap();
    assert!(matches!(gpu.memory_info(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(0), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_uuid(uuid.as_str()), Err(NvmlError::GpuLost)));
    assert_eq!(Raw::new(&nvml, 1).set_mig(true), Ok(0));
    assert_eq!(nvml.device_count().unwrap(), 2);
    bench.control.reset(0).unwrap();
    assert_eq!(gpu.uuid().unwrap(), uuid);
}

#[test]
fn after_a_reboot_nvml_must_be_initialised_again_and_the_layout_is_gone() {
    let bench = Bench::new(r#"gpus = [{ model = "A100-80", mig = true }]"#);
    let before = bench.nvml();
    Raw::new(&before, 0).create(0, None).unwrap();
    let uuid = before.device_by_index(0).unwrap().uuid().unwrap();
    bench.control.reboot().unwrap();
    assert!(matches!(before.device_count(), Err(NvmlError::Uninitialized)));
    drop(before);
    let after = bench.nvml();
    assert_eq!(after.device_by_index(0).unwrap().uuid().unwrap(), uuid);
    assert_eq!(Raw::new(&after, 0).instances(0).unwrap().len(), 0);
    assert_eq!(Raw::new(&after, 0).remaining(0), Ok(1));
}

#[test]
fn another_text_is_another_machine_and_no_uuid_comes_back() {
    let bench = Bench::new(r#"gpus = [{ model = "A30", mig = true }]"#);
    let config = bench.folder.join("machine.toml");
    let made = || {
        let nvml = bench.nvml();
        let raw = Raw::new(&nvml, 0);
        raw.create_compute(raw.create(0, None).unwrap(), 3).unwrap();
        nvml.device_by_index(0).unwrap().mig_device_by_index(0).unwrap().uuid().unwrap()
    };
    let first = made();
    fs::write(&config, "require_root = false\ngpus = [{ model = \"A30\", count = 2, mig = true }]").unwrap();
    let nvml = bench.nvml();
    assert_eq!(nvml.device_count().unwrap(), 2);
    drop(nvml);
    assert_ne!(made(), first);
}

#[test]
fn machines_of_one_description_in_two_places_have_different_uuids_unless_a_seed_says_otherwise() {
    let uuid = |bench: &Bench| bench.control.machine().unwrap().gpus[0].uuid.clone();
    let other = |bench: &Bench, text: &str| {
        let folder = bench.folder.join("other");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("machine.toml"), text).unwrap();
        Control::open(&folder.join("machine.toml")).unwrap().machine().unwrap().gpus[0].uuid.clone()
    };
    let (plain, seeded) = ("gpus = [{ model = \"A30\" }]", "seed = 5\ngpus = [{ model = \"A30\" }]");
    let bench = Bench::new(plain);
    assert_ne!(other(&bench, plain), uuid(&bench));
    drop(bench);
    let bench = Bench::new(seeded);
    assert_eq!(other(&bench, seeded), uuid(&bench));
}

#[test]
fn nonsense_in_the_file_is_no_driver_and_in_a_call_no_argument() {
    let bench = Bench::new(r#"gpus = [{ model = "A30" }]"#);
    let config = bench.folder.join("machine.toml");
    let good = fs::read_to_string(&config).unwrap();
    for text in [
        "gpus = [{ model = \"T4\" }]",
        "gpus = [{ model = \"A30\", cout = 3 }]",
        "gpus = [{ model = \"A30\", count = 65 }]",
        "gpus = [{ model = \"A30\", count = 18446744073709551615 }, { model = \"A30\" }]",
        "gpus = []\nnvlink = [{ gpus = [0] }]",
        "gpus = []\nxids = [{ gpu = 0, after_ms = 0, code = 79 }]",
        "gpus = []\nfaults = [{ function = \"nvmlDeviceGetName\" }]",
        "gpus = []\nfaults = [{ function = \"nvmlNone\", returns = \"IN_USE\" }]",
        "gpus = []\nfaults = [{ function = \"*\", gpu = 0, returns = \"IN_USE\" }]",
        "gpus = []\nlatency_ms = { nvmlNone = 1 }",
        "gpus = [{ model = \"A30\", load = { utilization = 101 } }]",
        "gpus = [{ model = \"A30\", load = { utilization = -1 } }]",
        "gpus = []\nstate = \"machine.toml\"",
        "gpus = []\ncuda_version = \"12\"",
        "gpus = []\nfaults = [{ function = \"*\", returns = \"SUCCESS\" }]",
        "\0",
        "",
    ] {
        fs::write(&config, text).unwrap();
        assert!(matches!(nvml(), Err(NvmlError::DriverNotLoaded)), "{text}");
    }
    fs::remove_file(&config).unwrap();
    assert!(matches!(nvml(), Err(NvmlError::DriverNotLoaded)));
    fs::write(&config, good).unwrap();
    let nvml = bench.nvml();
    Raw::new(&nvml, 0).refuses_nonsense();
}

#[test]
fn a_machine_without_gpus_is_one_and_a_broken_state_is_made_anew() {
    let bench = Bench::new("gpus = []");
    assert_eq!(bench.nvml().device_count().unwrap(), 0);
    fs::write(bench.folder.join("machine.toml.state.json"), "{").unwrap();
    assert_eq!(bench.nvml().device_count().unwrap(), 0);
}

#[test]
fn a_machine_whose_host_was_started_anew_is_started_anew_too() {
    let bench = Bench::new(r#"gpus = [{ model = "A100-40", mig = true }]"#);
    let nvml = bench.nvml();
    Raw::new(&nvml, 0).create(0, None).unwrap();
    drop(nvml);
    let state = bench.folder.join("machine.toml.state.json");
    let mut machine = bench.control.machine().unwrap().as_ref().clone();
    machine.booted = u64::MAX;
    fs::write(&state, serde_json::to_vec(&machine).unwrap()).unwrap();
    let nvml = bench.nvml();
    assert_eq!(Raw::new(&nvml, 0).instances(0).unwrap().len(), 0);
    assert_eq!(bench.control.machine().unwrap().boot, 2);
}

#[test]
fn a_call_takes_its_time() {
    let bench = Bench::new(
        r#"
        gpus = [{ model = "A30" }]
        latency_ms = { nvmlDeviceGetCount_v2 = 50, default = 1 }
        "#,
    );
    let nvml = bench.nvml();
    let begun = Instant::now();
    assert_eq!(nvml.device_count().unwrap(), 1);
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn what_a_machine_refuses_from_outside_has_the_same_names() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let me = std::process::id();
    let refused = |outcome: Result<(), ControlError>| match outcome {
        Err(ControlError::Refused(refusal)) => Some(refusal),
        _ => None,
    };
    let load = whalezen_mock_nvml::machine::load::Load::default();
    assert_eq!(refused(bench.control.attach(me, 0, None, load)), Some(Refusal::NotSupported));
    assert_eq!(refused(bench.control.attach(me, 1, None, load)), Some(Refusal::InvalidArgument));
    let nowhere = Some(whalezen_mock_nvml::machine::client::Place { gi: 1, ci: 0 });
    assert_eq!(refused(bench.control.attach(me, 0, nowhere, load)), Some(Refusal::NotFound));
    assert!(matches!(bench.control.attach(u32::MAX, 0, None, load), Err(ControlError::NoProcess(_))));
}
