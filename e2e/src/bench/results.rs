//! `target/bench/results.json`: what every benchmark measured, by a name that stays the same.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One measured number, beside the one it is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The benchmark's name and the measure's, such as `harness/baseline/wall_s`.
    pub name: String,
    /// What `WhaleZEN` reached.
    pub value: f64,
    /// `s`, `MB`, `writes/workload`, ...
    pub unit: String,
    /// What the peer reached under the same conditions, if it ran.
    pub reference: Option<f64>,
    /// The peer and its version.
    pub reference_name: Option<String>,
}

/// Writes `new` into the list at `path`: a name that is there is replaced in its place, others
/// are appended, what earlier runs of other benchmarks wrote stays.
pub fn merge_into(path: &Path, new: &[Measurement]) -> Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(&merged(old, new))?;
    fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
}

fn merged(mut list: Vec<Measurement>, new: &[Measurement]) -> Vec<Measurement> {
    for measurement in new {
        match list.iter_mut().find(|old| old.name == measurement.name) {
            Some(old) => old.clone_from(measurement),
            None => list.push(measurement.clone()),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(name: &str, value: f64) -> Measurement {
        Measurement {
            name: name.to_owned(),
            value,
            unit: "s".to_owned(),
            reference: Some(295.0),
            reference_name: Some("Kueue".to_owned()),
        }
    }

    #[test]
    fn a_later_run_replaces_its_own_names_and_keeps_the_others() {
        let old = vec![measurement("a/wall_s", 1.0), measurement("b/wall_s", 2.0)];
        let list = merged(old, &[measurement("b/wall_s", 3.0), measurement("c/wall_s", 4.0)]);
        let seen: Vec<_> = list.iter().map(|m| (m.name.as_str(), m.value)).collect();
        assert_eq!(seen, [("a/wall_s", 1.0), ("b/wall_s", 3.0), ("c/wall_s", 4.0)]);
    }

    #[test]
    fn the_file_names_the_reference_in_camel_case() {
        let text = serde_json::to_string(&measurement("a", 1.0)).unwrap();
        assert!(text.contains(r#""referenceName":"Kueue""#), "{text}");
    }
}
