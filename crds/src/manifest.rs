//! The generated files of `manifests/crds`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The first line of every generated file.
pub const HEAD: &str = "# Generated from the types in crds/ by `make crds`: edit those.\n";

/// Every file of `manifests/crds`: name to content. One file a kind, and a kustomization that lists them.
pub fn files() -> Result<BTreeMap<String, String>, serde_saphyr::ser::Error> {
    let mut files = BTreeMap::new();
    for crd in crate::all() {
        files.insert(file_name(&crd), yaml(&crd)?);
    }
    let resources: Vec<&String> = files.keys().collect();
    let kustomization = yaml(&json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }))?;
    files.insert("kustomization.yaml".to_owned(), kustomization);
    Ok(files)
}

/// `<group>_<plural>.yaml`, as the field names such files.
fn file_name(crd: &Value) -> String {
    let text = |path| crd.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{}_{}.yaml", text("/spec/group"), text("/spec/names/plural"))
}

fn yaml(object: &Value) -> Result<String, serde_saphyr::ser::Error> {
    Ok(format!("{HEAD}{}", serde_saphyr::to_string(&sorted(object.clone()))?))
}

/// Sorts keys, whatever order `serde_json` keeps them in: another crate of the workspace may turn its
/// insertion order on.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}
