//! From what is seen to what a pod can be given, and by which files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::unit::{Closeness, Inventory, Kept, Unit};
use crate::{
    device::{Gpu, Link, MigInstance, Path as PciePath, Uuid},
    view::{SeenGpu, View},
};

/// Files of the driver in `/dev` that every container with a GPU needs, as far as they are there.
const DRIVER: [&str; 4] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];

/// The device files of the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// Usually `/dev`.
    dev: PathBuf,
    /// By path of a capability, such as `gpu0/gi1/access`: the number of its file.
    capabilities: BTreeMap<String, u32>,
}

impl Files {
    /// The files in `dev`, usually `/dev`. `minors` is what the driver says in
    /// `/proc/driver/nvidia-caps/mig-minors`: a line for each part of a GPU that may be given away, with the number of
    /// the file that opens it. It is empty where the driver knows no MIG.
    pub fn new(dev: PathBuf, minors: &str) -> Self {
        let capabilities = minors.lines().filter_map(|line| {
            let (path, minor) = line.split_once(' ')?;
            Some((path.to_owned(), minor.trim().parse().ok()?))
        });
        Self { dev, capabilities: capabilities.collect() }
    }

    /// The files of a whole GPU.
    fn gpu(&self, gpu: &Gpu) -> Vec<PathBuf> {
        self.there(&[format!("nvidia{}", gpu.minor.unwrap_or(gpu.index))])
    }

    /// The files of an instance: those of the GPU, and one each that opens the GPU and the compute instance.
    fn instance(&self, gpu: &Gpu, instance: &MigInstance) -> Vec<PathBuf> {
        let minor = gpu.minor.unwrap_or(gpu.index);
        let own = format!("gpu{minor}/gi{}", instance.id);
        let computes = instance.computes.iter().map(|compute| format!("{own}/ci{}/access", compute.id));
        let capabilities = [format!("{own}/access")].into_iter().chain(computes);
        let mut names = vec![format!("nvidia{minor}")];
        names.extend(capabilities.filter_map(|path| {
            self.capabilities.get(&path).map(|minor| format!("nvidia-caps/nvidia-cap{minor}"))
        }));
        self.there(&names)
    }

    /// Those that exist: a container with one that does not would not start.
    fn there(&self, names: &[String]) -> Vec<PathBuf> {
        names.iter().map(|name| self.dev.join(name)).filter(|path| path.exists()).collect()
    }
}

/// What a pod can be given. A GPU in MIG mode, or about to be, is given in instances alone. An instance without a MIG
/// device of its own, half made or shared out by somebody else, is not given at all.
pub fn inventory(view: &View, files: &Files) -> Inventory {
    let mut units = Vec::new();
    for seen in &view.gpus {
        match &seen.gpu.mig {
            Some(mig) if mig.enabled => {
                units.extend(mig.instances.iter().filter_map(|instance| part(seen, instance, files)));
            }
            Some(mig) if mig.pending => {}
            _ => units.push(Unit { files: files.gpu(&seen.gpu), ..whole(seen) }),
        }
    }
    let leaving = view.withheld.iter().map(|id| (id.clone(), Kept::Leaving));
    // Those are withheld as well.
    let assigned = view.assigned.keys().map(|id| (id.clone(), Kept::Assigned));
    Inventory {
        units,
        links: Arc::new(links(&view.links)),
        kept: leaving.chain(assigned).collect(),
        driver_files: files.there(&DRIVER.map(str::to_owned)).into(),
    }
}

/// The `/proc` file of [`Files::new`].
pub fn mig_minors() -> &'static Path {
    Path::new("/proc/driver/nvidia-caps/mig-minors")
}

fn whole(seen: &SeenGpu) -> Unit {
    let gpu = &seen.gpu;
    Unit {
        id: gpu.uuid.clone(),
        gpu: gpu.uuid.clone(),
        index: gpu.index,
        instance: None,
        unhealthy: seen.trouble.as_ref().map(|trouble| trouble.reason.as_str().into()),
        numa: gpu.numa,
        files: Vec::new(),
    }
}

fn part(seen: &SeenGpu, instance: &MigInstance, files: &Files) -> Option<Unit> {
    let id = instance.device()?.clone();
    let files = files.instance(&seen.gpu, instance);
    Some(Unit { id, instance: Some(instance.instance), files, ..whole(seen) })
}

fn links(links: &[Link]) -> BTreeMap<(Uuid, Uuid), Closeness> {
    let mut close = BTreeMap::new();
    for Link { a, b, path, nvlinks } in links {
        let pcie = match path {
            PciePath::System => 0,
            PciePath::Node => 1,
            PciePath::HostBridge => 2,
            PciePath::MultipleSwitches => 3,
            PciePath::SingleSwitch => 4,
            PciePath::Internal => 5,
        };
        let closeness = Closeness { nvlinks: *nvlinks, pcie };
        close.insert((a.clone(), b.clone()), closeness);
        close.insert((b.clone(), a.clone()), closeness);
    }
    close
}
