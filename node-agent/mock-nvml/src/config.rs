//! What a machine is: the TOML file that `WHALEZEN_MOCK_NVML` names.

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;
use whalezen_mig::Model;

use crate::{
    abi,
    machine::{fault::Fault, load::Load},
};

/// The variable that names the file.
pub const VARIABLE: &str = "WHALEZEN_MOCK_NVML";

/// The most GPUs that a machine may have.
const MOST_GPUS: usize = 64;

/// What a machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the machine's state is kept; relative to the file itself. Without it: beside the file, under its name
    /// with `.state.json` added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// Version of the driver.
    #[serde(default = "driver_version")]
    pub driver_version: String,
    /// Version of CUDA that the driver has, as `12.8`.
    #[serde(default)]
    pub cuda_version: CudaVersion,
    /// From what the UUIDs and serial numbers are made. Without it: from where the state is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether only root may change anything, as on a real machine.
    #[serde(default = "yes")]
    pub require_root: bool,
    /// Whether the driver resets an Ampere GPU by itself when the MIG mode is set and nobody uses the GPU. Where it
    /// cannot (a GPU passed through to a virtual machine), the mode waits for a reset or a reboot.
    #[serde(default)]
    pub reset_on_mode_change: bool,
    /// The GPUs, in the order of their indices.
    pub gpus: Vec<Group>,
    /// Which GPUs NVLinks connect. Without any: all GPUs of a model that has NVLinks to switches are connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<Vec<Island>>,
    /// How long calls take, in milliseconds, by the name of the function; `default` for all others.
    #[serde(default)]
    pub latency_ms: BTreeMap<String, u64>,
    /// Calls that fail or hang.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Xid errors to come.
    #[serde(default)]
    pub xids: Vec<ScheduledXid>,
}

/// Equal GPUs, which follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Which model.
    #[serde(serialize_with = "model_name", deserialize_with = "model")]
    pub model: Model,
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// Whether MIG is on at the first boot.
    #[serde(default)]
    pub mig: bool,
    /// The NUMA node they hang on.
    #[serde(default)]
    pub numa: u32,
    /// How busy each of them is whoever uses it.
    #[serde(default)]
    pub load: Load,
}

/// GPUs each of which reaches every other one over NVLink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Island {
    /// Their indices.
    pub gpus: Vec<usize>,
    /// Whether through switches. Without it: as the model has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<bool>,
}

/// An Xid error that will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduledXid {
    /// The GPU that it befalls.
    pub gpu: usize,
    /// Milliseconds after each boot.
    pub after_ms: u64,
    /// Its number. 79 is the GPU falling off the bus.
    pub code: u64,
}

/// A version of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaVersion {
    /// Before the point.
    pub major: u8,
    /// After it, one digit.
    pub minor: u8,
}

/// Why a configuration is none.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is not TOML, or says what is not known.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// It says what cannot be.
    #[error("{path}: {reason}")]
    Impossible {
        /// The file.
        path: PathBuf,
        /// What cannot be.
        reason: String,
    },
}

impl Config {
    /// Reads the file, and gives its text too: another text is another machine.
    pub fn read(path: &Path) -> Result<(Self, String), ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        let config: Self = toml::from_str(&text)
            .map_err(|source| ConfigError::Parse { path: path.into(), source: Box::new(source) })?;
        let itself = || (config.state_path(path) == path).then(|| "state: that is this file".to_owned());
        if let Some(reason) = config.impossible().or_else(itself) {
            return Err(ConfigError::Impossible { path: path.into(), reason });
        }
        Ok((config, text))
    }

    /// Where the state is kept of the machine that the file at `path` describes.
    pub fn state_path(&self, path: &Path) -> PathBuf {
        let beside = path.parent().unwrap_or(Path::new(""));
        if let Some(state) = &self.state {
            return beside.join(state);
        }
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".state.json");
        beside.join(name)
    }

    /// How many GPUs there are.
    pub fn count(&self) -> usize {
        self.gpus.iter().map(|group| group.count).fold(0, usize::saturating_add)
    }

    /// The group of each GPU, in order.
    pub fn each(&self) -> impl Iterator<Item = &Group> {
        self.gpus.iter().flat_map(|group| std::iter::repeat_n(group, group.count))
    }

    fn impossible(&self) -> Option<String> {
        let count = self.count();
        if count > MOST_GPUS {
            return Some(format!("{count} GPUs; at most {MOST_GPUS} are possible"));
        }
        if let Some(reason) = self.gpus.iter().find_map(|group| group.load.impossible()) {
            return Some(format!("load: {reason}"));
        }
        let mut connected = BTreeMap::new();
        for (at, island) in self.nvlink.iter().flatten().enumerate() {
            for &gpu in &island.gpus {
                if gpu >= count {
                    return Some(format!("nvlink: there is no GPU {gpu}"));
                }
                if let Some(other) = connected.insert(gpu, at) {
                    return Some(format!("nvlink: GPU {gpu} is in islands {other} and {at}"));
                }
                let model = self.each().nth(gpu).map(|group| group.model);
                if model.is_some_and(|model| crate::hardware::of(model).nvlinks == 0) {
                    return Some(format!("nvlink: GPU {gpu} has no NVLink"));
                }
            }
        }
        let missing = |gpu: usize| gpu >= count;
        if let Some(xid) = self.xids.iter().find(|xid| missing(xid.gpu)) {
            return Some(format!("xids: there is no GPU {}", xid.gpu));
        }
        let known = |name: &String| name == "default" || abi::functions().any(|function| function == name);
        if let Some(name) = self.latency_ms.keys().find(|name| !known(name)) {
            return Some(format!("latency_ms: no function is called {name}"));
        }
        let impossible = |fault: &Fault| fault.impossible(count, abi::functions());
        self.faults.iter().find_map(impossible).map(|reason| format!("faults: {reason}"))
    }
}

impl Default for CudaVersion {
    fn default() -> Self {
        Self { major: 12, minor: 8 }
    }
}

impl Serialize for CudaVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}.{}", self.major, self.minor))
    }
}

impl<'de> Deserialize<'de> for CudaVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = text.split_once('.').and_then(|(major, minor)| {
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok().filter(|minor| *minor < 10)? })
        });
        parsed.ok_or_else(|| D::Error::custom(format!("{text:?} is no version of CUDA such as \"12.8\"")))
    }
}

fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Model, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn model_name<S: Serializer>(model: &Model, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(model.short())
}

fn driver_version() -> String {
    "570.124.06".to_owned()
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}
