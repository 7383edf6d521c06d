//! The adapter against the mock of NVML, which refuses what the hardware refuses.

#![allow(missing_docs, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "it is a test")]

mod bench;

use std::time::Duration;

use whalezen_agent::device::{DeviceError, Devices, EventKind, Path};
use whalezen_mig::{Instance, Model};

use bench::Bench;

fn instance(word: &str) -> Instance {
    let (profile, start) = word.split_once('@').unwrap();
    Instance::new(profile.parse().unwrap(), start.parse().unwrap())
}

#[test]
fn every_model_has_the_profiles_that_its_driver_reports_and_no_table_is_needed() {
    for model in Model::ALL {
        let bench = Bench::new(&format!("gpus = [{{ model = \"{}\", mig = true }}]", model.short()));
        let gpu = bench.gpu(0);
        let mig = gpu.mig.unwrap();
        assert_eq!(gpu.model, model.product());
        assert_eq!(gpu.pci.map(|pci| Model::from_pci_id(pci.id)), Some(Some(model)));
        assert!(mig.enabled);
        let names = |geometry: &whalezen_mig::Geometry| {
            let named =
                geometry.profiles().iter().map(|p| (p.name.to_string(), p.memory_slices, p.starts.clone()));
            named.collect::<Vec<_>>()
        };
        assert_eq!(names(&mig.geometry), names(&model.geometry().unwrap()), "{}", model.short());
    }
}

#[test]
fn instances_are_made_at_their_place_seen_and_destroyed() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let gpu = bench.gpu(0).uuid;
    let big = bench.devices.create(&gpu, instance("3g.40gb@4")).unwrap();
    let small = bench.devices.create(&gpu, instance("1g.10gb@2")).unwrap();
    assert_eq!((big.size, big.computes.len()), (4, 1));
    assert!(big.device().unwrap().as_str().starts_with("MIG-"));

    let seen = bench.gpu(0).mig.unwrap().instances;
    assert_eq!(seen, [small.clone(), big.clone()]);

    bench.devices.destroy(&gpu, &big).unwrap();
    assert_eq!(bench.gpu(0).mig.unwrap().instances, [small]);
}

#[test]
fn what_has_no_room_or_no_place_is_said_and_leaves_nothing_behind() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let gpu = bench.gpu(0).uuid;
    bench.devices.create(&gpu, instance("4g.40gb@0")).unwrap();
    let before = bench.gpu(0);
    let refused = bench.devices.create(&gpu, instance("3g.40gb@0"));
    assert_eq!(refused, Err(DeviceError::NoRoom(instance("3g.40gb@0"))));
    let unknown = bench.devices.create(&gpu, instance("3g.71gb@4"));
    assert_eq!(unknown, Err(DeviceError::NoProfile("3g.71gb".parse().unwrap())));
    assert!(bench.devices.create(&gpu, instance("3g.40gb@1")).is_err());
    assert_eq!(bench.gpu(0), before);
}

#[test]
fn half_an_instance_is_taken_back_and_one_that_was_left_is_completed() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let gpu = bench.gpu(0).uuid;
    bench.fault("nvmlGpuInstanceCreateComputeInstance");
    assert!(bench.devices.create(&gpu, instance("3g.40gb@4")).is_err());
    assert_eq!(bench.gpu(0).mig.unwrap().instances, []);

    // As if the agent had been killed between the two: the taking back fails as well.
    bench.fault("nvmlGpuInstanceDestroy");
    assert!(bench.devices.create(&gpu, instance("3g.40gb@4")).is_err());
    bench.heal();
    let [left] = <[_; 1]>::try_from(bench.gpu(0).mig.unwrap().instances).unwrap();
    assert_eq!((left.computes.len(), left.device()), (0, None));
    let whole = bench.devices.complete(&gpu, &left).unwrap();
    assert!(whole.device().is_some());
    assert_eq!(bench.gpu(0).mig.unwrap().instances, [whole]);
}

#[test]
fn an_instance_that_is_not_the_one_that_was_seen_is_not_destroyed() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let gpu = bench.gpu(0).uuid;
    let first = bench.devices.create(&gpu, instance("3g.40gb@4")).unwrap();
    bench.devices.destroy(&gpu, &first).unwrap();
    let second = bench.devices.create(&gpu, instance("3g.40gb@4")).unwrap();
    assert_eq!(second.id, first.id, "numbers are used again");
    let changed = bench.devices.destroy(&gpu, &first);
    assert_eq!(changed, Err(DeviceError::Changed(first.instance)));
    assert_eq!(bench.gpu(0).mig.unwrap().instances, [second]);
}

#[test]
fn a_process_is_seen_in_its_instance_and_keeps_it() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let gpu = bench.gpu(0).uuid;
    let made = bench.devices.create(&gpu, instance("3g.40gb@4")).unwrap();
    bench.attach(made.id);
    let seen = bench.gpu(0);
    assert_eq!(seen.processes.iter().map(|process| process.instance).collect::<Vec<_>>(), [Some(made.id)]);
    assert!(matches!(bench.devices.destroy(&gpu, &made), Err(DeviceError::InUse(_))));
    assert_eq!(bench.gpu(0).mig.unwrap().instances, [made]);
}

#[test]
fn the_mode_changes_at_once_on_hopper_and_after_a_reset_on_ampere() {
    let bench = Bench::new(
        r#"gpus = [{ model = "H100-80" }, { model = "A100-40" }, { model = "H100-80", mig = true }]"#,
    );
    let [hopper, ampere, used] = [0, 1, 2].map(|index| bench.gpu(index).uuid);
    bench.devices.set_mig_mode(&hopper, true).unwrap();
    assert!(bench.gpu(0).mig.unwrap().enabled);

    let needed = bench.devices.set_mig_mode(&ampere, true);
    assert_eq!(needed, Err(DeviceError::ResetNeeded(ampere)));
    let mig = bench.gpu(1).mig.unwrap();
    assert_eq!((mig.enabled, mig.pending), (false, true));

    bench.devices.create(&used, instance("3g.40gb@4")).unwrap();
    assert!(matches!(bench.devices.set_mig_mode(&used, false), Err(DeviceError::InUse(_))));
}

#[test]
fn a_gpu_that_falls_off_the_bus_says_so_and_others_go_on() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", count = 2, mig = true }]"#);
    let gpus = bench.devices.system().unwrap().gpus;
    let (mut heard, mut turns) = (Vec::new(), 0);
    bench
        .devices
        .listen(Duration::from_millis(50), &mut |event| {
            if turns == 0 {
                bench.xid(79);
            }
            turns += 1;
            heard.extend(event);
            heard.is_empty() && turns < 100
        })
        .unwrap();
    assert_eq!((&heard[0].gpu, heard[0].kind), (&gpus[0], EventKind::Xid(79)));
    assert_eq!(bench.devices.gpu(&gpus[0]), Err(DeviceError::Lost(gpus[0].clone())));
    assert!(bench.devices.gpu(&gpus[1]).is_ok());
    assert!(matches!(bench.devices.gpu(&"GPU-0000".into()), Err(DeviceError::Gone(_))));
}

#[test]
fn gpus_are_linked_over_nvlink_and_pcie() {
    let bench = Bench::new(
        r#"
        gpus = [{ model = "A100-80", count = 3 }]
        nvlink = [{ gpus = [0, 1] }]
        "#,
    );
    bench.devices.system().unwrap();
    let links = bench.devices.links().unwrap();
    let nvlinks: Vec<bool> = links.iter().map(|link| link.nvlinks > 0).collect();
    assert_eq!(nvlinks, [true, false, false]);
    assert!(links.iter().all(|link| link.path <= Path::System));
}

#[test]
fn without_a_library_there_is_no_driver_and_one_that_was_reloaded_is_opened_again() {
    let none = whalezen_agent::nvml::Waiting::for_library(Some("/nowhere/libnvidia-ml.so.1".into()));
    assert!(matches!(none.system(), Err(DeviceError::NoDriver(_))));

    let bench = Bench::new(r#"gpus = [{ model = "H100-80" }]"#);
    let first = bench.devices.system().unwrap().gpus;
    bench.reboot();
    drop(bench.devices.system());
    assert_eq!(bench.devices.system().unwrap().gpus, first);
}
