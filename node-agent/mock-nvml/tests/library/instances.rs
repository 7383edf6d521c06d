//! What a machine is, and its instances.

use nvml_wrapper::error::NvmlError;
use whalezen_mock_nvml::{
    machine::{client::Place, load::Load},
    wave::Wave,
};

use crate::bench::{Bench, Raw};

#[test]
fn a_machine_is_what_its_file_says() {
    let bench = Bench::new(
        r#"
        driver_version = "580.65.06"
        cuda_version = "13.0"
        gpus = [{ model = "A100-40", count = 2 }, { model = "H200", mig = true, numa = 1 }]
        "#,
    );
    let nvml = bench.nvml();
    assert_eq!(nvml.device_count().unwrap(), 3);
    assert_eq!(nvml.sys_driver_version().unwrap(), "580.65.06");
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13_000);
    let names: Vec<_> = (0..3).map(|index| nvml.device_by_index(index).unwrap().name().unwrap()).collect();
    assert_eq!(names, ["NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA H200"]);
    let last = nvml.device_by_index(2).unwrap();
    assert_eq!(nvml.device_by_uuid(last.uuid().unwrap()).unwrap().index().unwrap(), 2);
    assert_eq!(nvml.device_by_pci_bus_id(last.pci_info().unwrap().bus_id).unwrap().index().unwrap(), 2);
    assert_eq!(last.memory_info().unwrap().total, 143_771 << 20);
    assert_eq!(last.mig_mode().unwrap().current, 1);
    assert!(matches!(nvml.device_by_index(3), Err(NvmlError::InvalidArg)));
    assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
}

#[test]
fn profiles_are_asked_by_the_headers_number_and_known_by_their_id() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80" }]"#);
    let nvml = bench.nvml();
    let raw = Raw::new(&nvml, 0);
    let found: Vec<_> =
        (0..18).map(|slot| raw.profile(slot).map(|info| (info.id, info.memorySizeMB))).collect();
    assert_eq!(found[0], Ok((19, 9_984)));
    assert_eq!(found[4], Ok((0, 81_152)));
    assert_eq!((found[5], found[17]), (Err(3), Err(2)));
    assert_eq!(raw.placements(15), Ok(vec![(0, 2), (2, 2), (4, 2), (6, 2)]));
    assert_eq!(raw.create(19, None), Err(3), "MIG is off");
}

#[test]
fn instances_are_made_used_and_unmade_as_on_hardware() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80" }]"#);
    let nvml = bench.nvml();
    let raw = Raw::new(&nvml, 0);
    assert_eq!(raw.set_mig(true), Ok(0));
    let big = raw.create(9, Some((4, 4))).unwrap();
    assert_eq!(raw.create(9, Some((4, 4))).map(drop), Err(23));
    assert_eq!(raw.remaining(19), Ok(4));
    let compute = raw.create_compute(big, 2).unwrap();
    let info = raw.info(big).unwrap();
    assert_eq!((info.id, info.profileId, info.placement.start, info.placement.size), (2, 9, 4, 4));

    let device = nvml.device_by_index(0).unwrap();
    let mig = device.mig_device_by_index(0).unwrap();
    let uuid = mig.uuid().unwrap();
    assert!(mig.mig_is_mig_device_handle().unwrap() && !device.mig_is_mig_device_handle().unwrap());
    assert_eq!(mig.mig_parent_device().unwrap().uuid().unwrap(), device.uuid().unwrap());
    assert_eq!(mig.attributes().unwrap().multiprocessor_count, 60);
    assert_eq!(mig.memory_info().unwrap().total, 40_448 << 20);
    assert_eq!(
        nvml.device_by_uuid(uuid.as_str()).unwrap().name().unwrap(),
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    );

    let me = std::process::id();
    let load = Load { memory_mib: Wave::Steady(1_000), ..Load::default() };
    bench.control.attach(me, 0, Some(Place { gi: 2, ci: 0 }), load).unwrap();
    assert_eq!(raw.destroy_compute(compute), Err(19));
    assert_eq!(raw.destroy(big), Err(19));
    let processes = mig.running_compute_processes().unwrap();
    assert_eq!((processes[0].pid, processes[0].gpu_instance_id), (me, Some(2)));
    assert_eq!(mig.memory_info().unwrap().used, 1_000 << 20);
    bench.control.detach(me, None, None).unwrap();
    assert_eq!(raw.destroy_compute(compute), Ok(()));
    assert_eq!(raw.destroy(big), Ok(()));
    assert_eq!(raw.info(big).map(drop), Err(6), "the handle is stale");

    let again = raw.create(9, Some((4, 4))).unwrap();
    raw.create_compute(again, 2).unwrap();
    assert_eq!(raw.info(again).unwrap().id, 2);
    assert_ne!(device.mig_device_by_index(0).unwrap().uuid().unwrap(), uuid);
    assert_eq!(raw.info(big).map(drop), Err(6), "the old handle is not the new instance");
}

#[test]
fn a_mode_that_waits_for_a_reset_says_so_and_is_pending() {
    let bench = Bench::new(r#"gpus = [{ model = "A100-80" }]"#);
    let nvml = bench.nvml();
    let (raw, gpu) = (Raw::new(&nvml, 0), nvml.device_by_index(0).unwrap());
    let mode = || gpu.mig_mode().map(|mode| (mode.current, mode.pending)).unwrap();
    assert_eq!(raw.set_mig(true), Ok(16));
    assert_eq!(mode(), (0, 1));
    bench.control.attach(std::process::id(), 0, None, Load::default()).unwrap();
    assert_eq!(raw.set_mig(true), Ok(19));
    assert!(bench.control.reset(0).is_err());
    bench.control.detach(std::process::id(), None, None).unwrap();
    bench.control.reset(0).unwrap();
    assert_eq!(mode(), (1, 1));
}
