//! Kueue's own definitions, read from its Go module.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::kueue_module;

/// Kueue's definitions, by kind.
pub fn definitions() -> BTreeMap<String, Value> {
    let folder = kueue_module::folder().join("config/components/crd/bases");
    let files = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no definitions in {}: {error}", folder.display()));
    files
        .map(|file| {
            let path = file.unwrap().path();
            let crd: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{} is not YAML: {error}", path.display()));
            (crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(), crd)
        })
        .collect()
}
