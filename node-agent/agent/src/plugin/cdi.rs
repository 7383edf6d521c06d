//! The Container Device Interface: a file that tells container runtimes what to do for a container that is to have a
//! device (<https://github.com/cncf-tags/container-device-interface>, version 0.3.0 of the format, which all runtimes
//! read that read any).
//!
//! Devices are in it from when they are there until they are not, whoever may have them: a container that is started
//! again is given its devices by name again, without anybody being asked.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::unit::{Inventory, Unit};
use crate::device::Uuid;

/// The kind of all of our devices: a vendor, and a class of it. Not NVIDIA's `nvidia.com/gpu`: of one device of two
/// files a runtime gives neither.
pub const KIND: &str = "scheduling.gen.io/gpu";

/// The file's name in the folder of CDI files.
const FILE: &str = "whalezen.json";

/// The name by which a runtime is asked for a device.
pub fn qualified(id: &Uuid) -> String {
    format!("{KIND}={id}")
}

/// The whole file.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
    /// For a container that has any of the devices.
    #[serde(skip_serializing_if = "Edits::is_empty")]
    container_edits: Edits,
}

#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Clone, PartialEq, Eq, Serialize, Debug, Default)]
#[serde(rename_all = "camelCase")]
struct Edits {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device_nodes: Vec<Node>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
struct Node {
    path: PathBuf,
}

impl Edits {
    fn is_empty(&self) -> bool {
        self.env.is_empty() && self.device_nodes.is_empty()
    }
}

/// What the file says of these devices.
pub fn spec(inventory: &Inventory) -> Spec {
    let mut units = inventory.units.iter().collect::<Vec<_>>();
    units.sort_by(|a, b| super::offer::place(a).cmp(&super::offer::place(b)));
    Spec {
        cdi_version: "0.3.0",
        kind: KIND,
        devices: units.into_iter().map(device).collect(),
        container_edits: Edits { env: Vec::new(), device_nodes: nodes(&inventory.driver_files) },
    }
}

/// A device has to change something of a container, or runtimes refuse the file: so there is a variable, of a name of
/// its own, in case there is no device file. [`super::allocation::VISIBLE_DEVICES`] cannot be set here: of several
/// devices only the last one's would be left.
fn device(unit: &Unit) -> Device {
    let index = unit.index;
    let place =
        unit.instance.map_or_else(|| index.to_string(), |instance| format!("{index}_{}", instance.start));
    Device {
        name: unit.id.to_string(),
        container_edits: Edits {
            env: vec![format!("WHALEZEN_DEVICE_{place}={}", unit.id)],
            device_nodes: nodes(&unit.files),
        },
    }
}

fn nodes(files: &[PathBuf]) -> Vec<Node> {
    files.iter().map(|path| Node { path: path.clone() }).collect()
}

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the CDI file {path}: {error}")]
pub struct WriteError {
    path: PathBuf,
    error: io::Error,
}

/// The file in its folder.
#[derive(Debug)]
pub struct File {
    folder: PathBuf,
    written: Option<Spec>,
}

impl File {
    /// The file in this folder, usually `/var/run/cdi`. The folder is made if it is not there.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, written: None }
    }

    /// Writes what is not written yet. A reader sees the old file or the new one, never half of one. Without devices
    /// there is no file: runtimes refuse one that names none.
    pub fn write(&mut self, spec: Spec) -> Result<(), WriteError> {
        let path = self.folder.join(FILE);
        if self.written.as_ref() == Some(&spec) && (path.exists() || spec.devices.is_empty()) {
            return Ok(());
        }
        self.replace(&path, &spec).map_err(|error| WriteError { path, error })?;
        self.written = Some(spec);
        Ok(())
    }

    fn replace(&self, path: &Path, spec: &Spec) -> io::Result<()> {
        if spec.devices.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        fs::create_dir_all(&self.folder)?;
        // Runtimes read what ends in .json or .yaml.
        let new = self.folder.join(format!(".{FILE}.new"));
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(spec)?)?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}
