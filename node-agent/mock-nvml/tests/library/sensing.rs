//! Load, memory, counters, links and events.

use std::{sync::mpsc, thread, time::Duration};

use nvml_wrapper::{
    Device, GpmSample, Nvml,
    bitmasks::event::EventTypes,
    enum_wrappers::device::{EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor, TopologyLevel},
    enums::{device::SampleValue, event::XidError, gpm::GpmMetricId},
    error::NvmlError,
    gpm::gpm_metrics_get,
    structs::device::FieldId,
    sys_exports::field_id,
};
use whalezen_mock_nvml::{
    machine::{client::Place, load::Load},
    wave::Wave,
};

use crate::bench::{Bench, Raw};

const BUSY: Load = Load {
    utilization: Wave::Steady(80),
    memory_bandwidth: Wave::Steady(40),
    memory_mib: Wave::Steady(2_048),
    pcie_tx_kib: Wave::Steady(5_120),
    pcie_rx_kib: Wave::Steady(1_024),
    nvlink_tx_kib: Wave::Steady(18_432),
    nvlink_rx_kib: Wave::Steady(9_216),
};

#[test]
fn a_gpu_is_as_busy_as_its_file_and_its_processes_make_it() {
    let bench = Bench::new(
        r#"
        [[gpus]]
        model = "H100-80"
        load = { utilization = 10, memory_mib = 1024 }
        "#,
    );
    let nvml = bench.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let idle = gpu.utilization_rates().unwrap();
    assert_eq!((idle.gpu, idle.memory), (10, 0));
    let (cool, drawn) = (gpu.temperature(TemperatureSensor::Gpu).unwrap(), gpu.power_usage().unwrap());

    bench.control.attach(std::process::id(), 0, None, BUSY).unwrap();
    let busy = gpu.utilization_rates().unwrap();
    assert_eq!((busy.gpu, busy.memory), (90, 40));
    let memory = gpu.memory_info().unwrap();
    assert_eq!(memory.used, 3_072 << 20);
    assert_eq!(memory.free + memory.used + memory.reserved, memory.total);
    assert!(gpu.temperature(TemperatureSensor::Gpu).unwrap() > cool && gpu.power_usage().unwrap() > drawn);
    assert_eq!(gpu.pcie_throughput(PcieUtilCounter::Send).unwrap(), 5_120);
    let process = &gpu.running_compute_processes().unwrap()[0];
    assert_eq!((process.pid, process.gpu_instance_id), (std::process::id(), None));
    let samples = gpu.process_utilization_stats(None).unwrap();
    assert_eq!((samples[0].pid, samples[0].sm_util), (std::process::id(), 80));
    assert!(gpu.total_energy_consumption().unwrap() <= gpu.total_energy_consumption().unwrap());
}

#[test]
fn a_dead_process_uses_nothing_and_what_it_did_stays_counted() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80" }]"#);
    let nvml = bench.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let mut child = bench.process("processes::waits").spawn().unwrap();
    bench.control.attach(child.id(), 0, None, BUSY).unwrap();
    let sent = || value(&gpu, field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES);
    let mut before = sent();
    while before == 0 {
        before = sent();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(gpu.utilization_rates().unwrap().gpu, 0);
    assert!(gpu.running_compute_processes().unwrap().is_empty());
    assert!(sent() >= before);
    bench.control.attach(std::process::id(), 0, None, Load::default()).unwrap();
    assert_eq!(bench.control.machine().unwrap().clients.len(), 1, "the dead one is forgotten");
    assert!(sent() >= before);
}

fn value(gpu: &Device<'_>, field: u32) -> u64 {
    let sample = gpu.field_values_for(&[FieldId(field)]).unwrap().remove(0).unwrap();
    match sample.value.unwrap() {
        SampleValue::U64(value) => value,
        SampleValue::U32(value) => value.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_are_answered_one_by_one() {
    let bench = Bench::new(r#"gpus = [{ model = "A100-40" }, { model = "H100-80" }]"#);
    let nvml = bench.nvml();
    let gpu = nvml.device_by_index(0).unwrap();
    let fields = [field_id::NVML_FI_DEV_MEMORY_TEMP, 9_999, field_id::NVML_FI_DEV_NVLINK_LINK_COUNT];
    let found = gpu.field_values_for(&fields.map(FieldId)).unwrap();
    let found: Vec<_> = found.into_iter().map(|sample| sample.unwrap().value.is_ok()).collect();
    assert_eq!(found, [true, false, true]);
    let resetless = field_id::NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED;
    assert_eq!(value(&gpu, resetless), 0);
    assert_eq!(value(&nvml.device_by_index(1).unwrap(), resetless), 1);
}

/// The metrics between two samples that `take` takes, not in the same millisecond.
fn between<'a>(
    nvml: &'a Nvml,
    take: impl Fn() -> Result<GpmSample<'a>, NvmlError>,
    metrics: &[GpmMetricId],
) -> Vec<Result<f64, NvmlError>> {
    let first = take().unwrap();
    loop {
        match gpm_metrics_get(nvml, &first, &take().unwrap(), metrics) {
            Err(NvmlError::InvalidArg) => {}
            found => return found.unwrap().into_iter().map(|one| one.map(|one| one.value)).collect(),
        }
    }
}

#[test]
fn gpm_tells_how_busy_a_gpu_and_each_instance_is_while_mig_is_on() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }, { model = "A100-80" }]"#);
    let nvml = bench.nvml();
    let raw = Raw::new(&nvml, 0);
    let gpu = nvml.device_by_index(0).unwrap();
    let busy = raw.create(9, Some((0, 4))).unwrap();
    raw.create_compute(busy, 2).unwrap();
    let idle = raw.create(9, Some((4, 4))).unwrap();
    raw.create_compute(idle, 2).unwrap();
    let (busy, idle) = (raw.info(busy).unwrap().id, raw.info(idle).unwrap().id);
    bench.control.attach(std::process::id(), 0, Some(Place { gi: busy, ci: 0 }), BUSY).unwrap();

    assert!(matches!(gpu.utilization_rates(), Err(NvmlError::NotSupported)));
    let metrics =
        [GpmMetricId::SmUtil, GpmMetricId::DramBwUtil, GpmMetricId::PcieTxPerSec, GpmMetricId::Fp16Util];
    let found = between(&nvml, || gpu.gpm_mig_sample(busy), &metrics);
    let values: Vec<_> = found[..3].iter().map(|value| *value.as_ref().unwrap()).collect();
    assert_eq!(values, [80.0, 40.0, 5.0]);
    assert!(matches!(found[3], Err(NvmlError::NotSupported)));
    let resting = *between(&nvml, || gpu.gpm_mig_sample(idle), &metrics[..1])[0].as_ref().unwrap();
    assert!(resting.abs() < f64::EPSILON, "{resting}");
    // Three of seven compute slices are busy for 80 % of the time.
    let whole = *between(&nvml, || gpu.gpm_sample(), &metrics[..1])[0].as_ref().unwrap();
    assert!((33.0..=35.0).contains(&whole), "{whole}");

    assert!(matches!(gpu.gpm_mig_sample(13), Err(NvmlError::NotFound)));
    let ampere = nvml.device_by_index(1).unwrap();
    assert!(!ampere.gpm_support().unwrap() && gpu.gpm_support().unwrap());
    assert!(matches!(ampere.gpm_sample(), Err(NvmlError::NotSupported)));
}

#[test]
fn links_and_nearness_are_as_the_file_says() {
    let bench = Bench::new(
        r#"
        gpus = [{ model = "A30", count = 2 }, { model = "A30", count = 3, numa = 1 }]
        nvlink = [{ gpus = [0, 1] }, { gpus = [2, 3, 4], switched = true }]
        "#,
    );
    let nvml = bench.nvml();
    let gpus: Vec<_> = (0..5).map(|index| nvml.device_by_index(index).unwrap()).collect();
    let bus = |gpu: &Device<'_>| gpu.pci_info().unwrap().bus_id;
    let link = gpus[0].link_wrapper_for(3);
    assert!(link.is_active().unwrap());
    assert_eq!(link.remote_pci_info().unwrap().bus_id, bus(&gpus[1]));
    assert!(matches!(gpus[0].link_wrapper_for(4).is_active(), Err(NvmlError::InvalidArg)));
    let far = gpus[2].link_wrapper_for(0).remote_pci_info().unwrap().bus_id;
    assert!(gpus.iter().all(|gpu| bus(gpu) != far), "a switch");

    let near = |other: u32| gpus[0].topology_common_ancestor(nvml.device_by_index(other).unwrap()).unwrap();
    assert_eq!([near(1), near(2)], [TopologyLevel::Single, TopologyLevel::System]);
    let near: Vec<_> = gpus[2].topology_nearest_gpus(TopologyLevel::Node).unwrap();
    assert_eq!(near.iter().map(|gpu| gpu.index().unwrap()).collect::<Vec<_>>(), [4]);
}

#[test]
fn who_waits_for_an_xid_is_told_which_and_where() {
    let bench = Bench::new(
        r#"
        gpus = [{ model = "H100-80", count = 2 }]
        "#,
    );
    let nvml = bench.nvml();
    let gpu = nvml.device_by_index(1).unwrap();
    bench.control.befall(1, 31, None).unwrap();
    thread::sleep(Duration::from_millis(2));
    let set = nvml.create_event_set().unwrap();
    let types = EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR;
    let set = gpu.register_events(types, set).unwrap();
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)), "what was before does not count");
    bench.control.befall(0, 13, None).unwrap();
    bench.control.correct(1, 3).unwrap();
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)), "another GPU, another type");

    let (told, hears) = mpsc::channel();
    let set = thread::scope(|scope| {
        let uuid = gpu.uuid().unwrap();
        let waiting = scope.spawn(move || {
            told.send(()).unwrap();
            let event = set.wait(60_000).unwrap();
            assert!(event.event_type.contains(EventTypes::CRITICAL_XID_ERROR));
            assert!(matches!(event.event_data, Some(XidError::Value(48))));
            assert_eq!(event.device.uuid().unwrap(), uuid);
            set
        });
        hears.recv().unwrap();
        bench.control.befall(1, 48, None).unwrap();
        waiting.join().unwrap()
    });
    let double = set.wait(0).unwrap();
    assert!(double.event_type.contains(EventTypes::DOUBLE_BIT_ECC_ERROR));
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)), "each is told once");
    let errors = |kind| gpu.total_ecc_errors(kind, EccCounter::Volatile).unwrap();
    assert_eq!((errors(MemoryError::Corrected), errors(MemoryError::Uncorrected)), (3, 1));
}
