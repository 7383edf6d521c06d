//! The load of GPUs as NVML tells it, against the mock of NVML. One test, because a process sees one machine.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]

use std::{
    fs,
    time::{Duration, Instant},
};

use whalezen_agent::{
    device::{Activity, Devices, Load, Uuid},
    nvml::Library,
};
use whalezen_mig::Instance;
use whalezen_mock_nvml::{config::VARIABLE, control};

const MACHINE: &str = r#"
require_root = false
gpus = [
    { model = "H100-80", count = 2, load = { utilization = 40, memory_bandwidth = 30, memory_mib = 1024, pcie_tx_kib = 2048, nvlink_tx_kib = 4096 } },
    { model = "A100-80", count = 1, load = { utilization = 70, memory_bandwidth = 20, memory_mib = 2048, pcie_tx_kib = 1000 } },
]
"#;

/// Reads until something can be said of activity, which takes a second read some time after the first.
fn read(library: &Library, gpu: &Uuid, said: impl Fn(&Load) -> bool) -> Load {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let load = library.load(gpu).unwrap();
        if said(&load) {
            return load;
        }
        assert!(Instant::now() < until, "{load:?}");
        std::thread::yield_now();
    }
}

#[test]
#[allow(unsafe_code, reason = "the environment is set before there is another thread that reads it")]
fn load_is_that_of_the_gpu_and_of_each_instance_with_what_its_generation_counts() {
    let folder = std::env::temp_dir().join(format!("wz-load-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let config = folder.join("machine.toml");
    fs::write(&config, MACHINE).unwrap();
    // SAFETY: this test is the only one of its process.
    unsafe { std::env::set_var(VARIABLE, &config) };
    let library = Library::open(Some(&control::library().unwrap())).unwrap();
    let [hopper, divided, ampere] = <[Uuid; 3]>::try_from(library.system().unwrap().gpus).unwrap();

    let load = read(&library, &hopper, |load| load.activity.is_some_and(|activity| activity.sm.is_some()));
    assert_eq!((load.gpu_percent, load.memory_percent), (Some(40), Some(30)));
    assert!(load.power_mw.is_some() && load.temperature_c.is_some());
    assert!(load.memory_used.unwrap() >= 1024 << 20 && load.memory_free.unwrap() > 70 << 30);
    let expected = Activity {
        graphics: load.activity.unwrap().graphics,
        sm: Some(4000),
        tensor: None,
        dram: Some(3000),
        pcie_tx: Some(2 << 20),
        pcie_rx: Some(0),
        nvlink_tx: Some(4 << 20),
        nvlink_rx: Some(0),
    };
    assert_eq!(load.activity.unwrap(), expected);
    assert_eq!((load.pcie_tx_kbps, load.pcie_rx_kbps), (None, None), "asked for once");

    let load = library.load(&ampere).unwrap();
    assert_eq!((load.gpu_percent, load.activity, load.pcie_tx_kbps), (Some(70), None, Some(1000)));

    library.set_mig_mode(&divided, true).unwrap();
    let half = Instance::new("3g.40gb".parse().unwrap(), 4);
    let made = library.create(&divided, half).unwrap();
    let of_instance = |load: &Load| load.instances.first().and_then(|instance| instance.activity).is_some();
    let load = read(&library, &divided, of_instance);
    assert_eq!(load.gpu_percent, None, "a GPU in MIG mode does not tell it");
    let instance = &load.instances[0];
    assert_eq!((Some(&instance.uuid), instance.gpu_instance), (made.device(), made.id));
    assert!(instance.memory_free.unwrap() > 30 << 30);
    library.destroy(&divided, &made).unwrap();
    assert_eq!(library.load(&divided).unwrap().instances, []);
    let _ = fs::remove_dir_all(&folder);
}
