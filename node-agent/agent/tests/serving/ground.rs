//! Nodes to test on.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use whalezen_agent::{
    device::{Compute, Gpu, Link, Mig, MigInstance, Path as PciePath, Uuid},
    plugin::{
        inventory::{self, Files},
        unit::Inventory,
    },
    view::{SeenGpu, Trouble, View},
};
use whalezen_mig::{Instance, Model, ProfileName};

/// The UUID of GPU `index`.
pub fn gpu_id(index: u32) -> Uuid {
    Uuid::from(format!("GPU-{index:08}-0000-0000-0000-000000000000"))
}

/// The UUID of the instance of GPU `index` that starts at `start`.
pub fn mig_id(index: u32, start: u8) -> Uuid {
    Uuid::from(format!("MIG-{index:08}-{start:04}-0000-0000-000000000000"))
}

/// A profile by its name.
pub fn profile(name: &str) -> ProfileName {
    name.parse().unwrap()
}

/// An H100 that is not in MIG mode. Each four of them are next to a NUMA node.
pub fn gpu(index: u32) -> SeenGpu {
    let gpu = Gpu {
        uuid: gpu_id(index),
        index,
        minor: Some(index),
        model: Model::H100_80.product().to_owned(),
        pci: None,
        numa: Some(index / 4),
        memory: 80 << 30,
        mig: Some(Mig {
            enabled: false,
            pending: false,
            geometry: Model::H100_80.geometry().unwrap(),
            instances: Vec::new(),
        }),
        processes: Vec::new(),
    };
    SeenGpu { gpu, trouble: None }
}

/// An H100 with these instances, of which each has a compute instance as large as itself.
pub fn mig(index: u32, instances: &[(&str, u8)]) -> SeenGpu {
    let mut seen = gpu(index);
    let mig = seen.gpu.mig.as_mut().unwrap();
    (mig.enabled, mig.pending) = (true, true);
    for &(name, start) in instances {
        let profile = profile(name);
        let compute = Compute { id: 0, slices: profile.slices(), uuid: Some(mig_id(index, start)) };
        mig.instances.push(MigInstance {
            id: u32::from(start) + 7,
            instance: Instance::new(profile, start),
            size: 1,
            computes: vec![compute],
        });
    }
    seen
}

/// The same with something wrong.
pub fn broken(mut seen: SeenGpu) -> SeenGpu {
    seen.trouble = Some(Trouble { reason: "Xid79".into(), message: "the GPU has fallen off the bus".into() });
    seen
}

/// These GPUs, far from each other.
pub fn node(gpus: Vec<SeenGpu>) -> View {
    View { gpus, ..View::default() }
}

/// Whole GPUs in NVLink islands of these sizes: eight links between those of an island, PCIe within a NUMA node.
pub fn islands(sizes: &[u32]) -> View {
    let mut island = BTreeMap::new();
    let mut next = 0;
    for (number, size) in sizes.iter().enumerate() {
        for index in next..next + size {
            island.insert(index, number);
        }
        next += size;
    }
    let pairs = (0..next).flat_map(|a| (a + 1..next).map(move |b| (a, b)));
    let links = pairs.map(|(a, b)| Link {
        a: gpu_id(a),
        b: gpu_id(b),
        path: if a / 4 == b / 4 { PciePath::Node } else { PciePath::System },
        nvlinks: if island[&a] == island[&b] { 8 } else { 0 },
    });
    View { links: links.collect(), ..node((0..next).map(gpu).collect()) }
}

/// What can be given, without device files.
pub fn inventory(view: &View) -> Inventory {
    inventory::inventory(view, &Files::new(PathBuf::from("/nowhere"), ""))
}

/// A folder of its own, removed at the end. The name is short: the path of a socket has 107 bytes at most.
pub struct Folder(PathBuf);

impl Folder {
    /// Makes it.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wz-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Device files of two GPUs and of the driver, and what opens three instances of the second GPU.
    pub fn device_files(&self) -> Files {
        let dev = self.path().join("dev");
        std::fs::create_dir_all(dev.join("nvidia-caps")).unwrap();
        for name in ["nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"] {
            std::fs::write(dev.join(name), "").unwrap();
        }
        for minor in [12, 13, 21, 22] {
            std::fs::write(dev.join(format!("nvidia-caps/nvidia-cap{minor}")), "").unwrap();
        }
        let minors = "config 1\nmonitor 2\ngpu1/gi7/access 12\ngpu1/gi7/ci0/access 13\n\
                      gpu1/gi8/access 21\ngpu1/gi8/ci0/access 22\ngpu1/gi9/access 99\nnonsense\n\n";
        Files::new(dev, minors)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
