//! Kueue's configuration file: `config.kueue.x-k8s.io`, `v1beta2` and `v1beta1`, as it lies in the `ConfigMap`
//! `kueue-manager-config`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`fields`] | every field, and whether it is honoured, ignored or refused |
//! | [`gates`] | the same for every feature gate |
//! | `file` | the file as it is written |
//! | `meaning` | what the honoured fields mean, with Kueue's defaults and checks |
//! | `duration` | durations as Go writes them |
//!
//! A file that would make Kueue admit other workloads than this operator is refused, with all that is wrong with it;
//! what is ignored is warned of. Nothing that Kueue would refuse is accepted.

mod duration;
pub mod fields;
mod file;
pub mod gates;
mod meaning;
mod walk;

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use whalezen_core::labels::Selector;

use self::{file::File, gates::Gates};
use super::settings::{ManagedNamespaces, Settings};

/// Everything that a file decides.
#[derive(Clone, PartialEq, Debug)]
pub struct Configuration {
    /// What happens to workloads.
    pub settings: Settings,
    /// The rate of API requests.
    pub rate: Rate,
    /// Which metrics there are.
    pub metrics: Exposed,
    /// What is in the file without effect, and why.
    pub warnings: Vec<String>,
}

impl Configuration {
    /// What holds without a file. `namespace` is the operator's own, in which no job is managed.
    pub fn without_file(namespace: &str) -> Self {
        let managed_namespaces = ManagedNamespaces(meaning::managed_by_default(namespace));
        Self {
            settings: Settings { managed_namespaces, ..Settings::kueue() },
            rate: Rate::default(),
            metrics: Exposed::default(),
            warnings: vec![],
        }
    }
}

/// `clientConnection`: how many API requests may be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// In a second, in the long run; `None`: as many as there are.
    pub qps: Option<u32>,
    /// At once.
    pub burst: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self { qps: Some(300), burst: 500 }
    }
}

/// `metrics`: the groups of metrics that can be switched on and off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exposed {
    /// The resources of `ClusterQueues`.
    pub cluster_queue_resources: bool,
    /// `LocalQueues`, those with such labels; `None`: none.
    pub local_queues: Option<Selector>,
    /// Cohorts.
    pub cohorts: bool,
    /// Who is not admitted and why (the gate `UnadmittedWorkloadsObservability`).
    pub unadmitted: bool,
}

impl Default for Exposed {
    fn default() -> Self {
        Self {
            cluster_queue_resources: false,
            local_queues: Some(Selector::All(vec![])),
            cohorts: true,
            unadmitted: false,
        }
    }
}

/// A version of the file's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// `v1beta1`: some sections have a switch.
    V1Beta1,
    /// `v1beta2`.
    V1Beta2,
}

/// Something in the file that keeps the operator from starting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The field; empty for the file as a whole.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub message: String,
}

impl Problem {
    fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// What is ignored, by the reason.
#[derive(Debug, Default)]
struct Warnings(BTreeMap<String, Vec<String>>);

impl Warnings {
    fn add(&mut self, why: &str, path: String) {
        self.0.entry(why.to_owned()).or_default().push(path);
    }

    fn into_texts(self) -> Vec<String> {
        self.0.into_iter().map(|(why, paths)| format!("{} without effect: {why}", paths.join(", "))).collect()
    }
}

/// The file's kind and version, which stand before everything else.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: String,
    kind: String,
}

/// Reads a file. `namespace` is the operator's own, in which no job is managed.
pub fn read(text: &str, namespace: &str) -> Result<Configuration, Vec<Problem>> {
    let malformed = |error: serde_saphyr::Error| vec![Problem::new("", error.to_string())];
    let head: Head = serde_saphyr::from_str(text).map_err(malformed)?;
    let version = version(&head)?;
    let tree: serde_json::Value = serde_saphyr::from_str(text).map_err(malformed)?;
    let mut warnings = Warnings::default();
    let mut problems = walk::walk(&tree, version, &mut warnings);
    let file: File = serde_saphyr::from_str(text).map_err(|error| {
        problems.push(Problem::new("", error.to_string()));
        problems.clone()
    })?;
    let meant = meaning::of(file, version, namespace, &mut problems, &mut warnings);
    if problems.is_empty() {
        Ok(Configuration { warnings: warnings.into_texts(), ..meant })
    } else {
        Err(problems)
    }
}

fn version(head: &Head) -> Result<Version, Vec<Problem>> {
    const GROUP: &str = "config.kueue.x-k8s.io";
    if head.kind != "Configuration" {
        return Err(vec![Problem::new("kind", format!("{:?} is not \"Configuration\"", head.kind))]);
    }
    match head.api_version.split_once('/') {
        Some((GROUP, "v1beta2")) => Ok(Version::V1Beta2),
        Some((GROUP, "v1beta1")) => Ok(Version::V1Beta1),
        _ => {
            let message =
                format!("{:?} is neither \"{GROUP}/v1beta2\" nor \"{GROUP}/v1beta1\"", head.api_version);
            Err(vec![Problem::new("apiVersion", message)])
        }
    }
}
