//! What Go's markers say about Kubernetes' own types and k8s-openapi does not.
//!
//! The tables name types and not paths: a container is the same wherever it stands. Without these facts
//! server-side apply would replace a list of containers instead of merging it, and a port would have no
//! protocol.

use serde_json::{Map, Value, json};

use super::names;

/// Types under which descriptions are left out. A pod template's are in `kubectl explain pod` already, and
/// would make up nine tenths of the Workload's definition.
pub(super) const UNDESCRIBED: &[&str] = &["io.k8s.api.core.v1.PodTemplateSpec"];

const CORE: &str = "io.k8s.api.core.v1.";
const CONDITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const LABEL_SELECTOR: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// Lists whose elements have keys. Every other list is replaced as a whole.
const KEYED: &[(&str, &str, &[&str])] = &[
    ("Container", "env", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "env", &["name"]),
    ("EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "initContainers", &["name"]),
    ("PodSpec", "resourceClaims", &["name"]),
    ("PodSpec", "schedulingGates", &["name"]),
    ("PodSpec", "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("PodSpec", "volumes", &["name"]),
    ("ResourceRequirements", "claims", &["name"]),
];

/// Lists of values without duplicates.
const SETS: &[(&str, &str)] = &[("ContainerRestartRuleOnExitCodes", "values")];

/// Fields that the API server fills in. One that has a default is never required.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("AzureDiskVolumeSource", "fsType", "ext4"),
    ("ConfigMapEnvSource", "name", ""),
    ("ConfigMapKeySelector", "name", ""),
    ("ConfigMapProjection", "name", ""),
    ("ConfigMapVolumeSource", "name", ""),
    ("ContainerPort", "protocol", "TCP"),
    ("GRPCAction", "service", ""),
    ("ISCSIVolumeSource", "iscsiInterface", "default"),
    ("LocalObjectReference", "name", ""),
    ("RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("RBDVolumeSource", "pool", "rbd"),
    ("RBDVolumeSource", "user", "admin"),
    ("ScaleIOVolumeSource", "fsType", "xfs"),
    ("ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
    ("SecretEnvSource", "name", ""),
    ("SecretKeySelector", "name", ""),
    ("SecretProjection", "name", ""),
];

/// Fields that are false unless said otherwise.
const FALSE: &[(&str, &str)] = &[("AzureDiskVolumeSource", "readOnly"), ("FileKeySelector", "optional")];

/// Structs that are replaced as a whole.
const ATOMIC: &[&str] = &[
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "FileKeySelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ResourceFieldSelector",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
    "TypedLocalObjectReference",
];

/// The metadata that a template can have.
const TEMPLATE_META: &[&str] = &["annotations", "finalizers", "labels", "name", "namespace"];

/// Adds to the schemas of Kubernetes' types, by name, what they lack.
pub(super) fn complete(types: &mut Map<String, Value>) {
    for (name, schema) in &mut *types {
        if name.starts_with("io.k8s.") && name != OBJECT_META {
            atomic_lists(schema);
        }
    }
    for (name, list, keys) in KEYED {
        set(types, name, list, "x-kubernetes-list-type", json!("map"));
        set(types, name, list, "x-kubernetes-list-map-keys", json!(keys));
    }
    for (name, list) in SETS {
        set(types, name, list, "x-kubernetes-list-type", json!("set"));
    }
    for (name, field, value) in DEFAULTS {
        set(types, name, field, "default", json!(value));
        optional(types, name, field);
    }
    for (name, field) in FALSE {
        set(types, name, field, "default", json!(false));
    }
    for name in ATOMIC {
        extend(types.get_mut(&format!("{CORE}{name}")), &json!({ "x-kubernetes-map-type": "atomic" }));
    }
    set(types, "PodSpec", "nodeSelector", "x-kubernetes-map-type", json!("atomic"));
    extend(types.get_mut(LABEL_SELECTOR), &json!({ "x-kubernetes-map-type": "atomic" }));

    let either = json!([{ "type": "integer" }, { "type": "string" }]);
    extend(types.get_mut(INT_OR_STRING), &json!({ "anyOf": either }));
    extend(types.get_mut(QUANTITY), &json!({ "anyOf": either, "pattern": names::QUANTITY }));
    if let Some(Value::Object(properties)) = types.get_mut(OBJECT_META).and_then(|t| t.get_mut("properties"))
    {
        properties.retain(|name, _| TEMPLATE_META.contains(&name.as_str()));
    }
    condition(types.get_mut(CONDITION));
}

fn condition(schema: Option<&mut Value>) {
    let Some(fields) = schema.and_then(|schema| schema.get_mut("properties")) else { return };
    extend(fields.get_mut("message"), &json!({ "maxLength": 32768 }));
    extend(fields.get_mut("observedGeneration"), &json!({ "minimum": 0 }));
    let reason = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
    extend(fields.get_mut("reason"), &json!({ "minLength": 1, "maxLength": 1024, "pattern": reason }));
    extend(fields.get_mut("status"), &json!({ "enum": ["True", "False", "Unknown"] }));
    extend(fields.get_mut("type"), &json!({ "maxLength": 316, "pattern": names::QUALIFIED }));
}

fn atomic_lists(schema: &mut Value) {
    let Some(Value::Object(fields)) = schema.get_mut("properties") else { return };
    for field in fields.values_mut().filter(|field| field.get("items").is_some()) {
        extend(Some(field), &json!({ "x-kubernetes-list-type": "atomic" }));
    }
}

fn set(types: &mut Map<String, Value>, name: &str, field: &str, keyword: &str, value: Value) {
    let schema = types.get_mut(&format!("{CORE}{name}"));
    if let Some(Value::Object(field)) =
        schema.and_then(|t| t.get_mut("properties")).and_then(|p| p.get_mut(field))
    {
        field.insert(keyword.to_owned(), value);
    }
}

fn optional(types: &mut Map<String, Value>, name: &str, field: &str) {
    let schema = types.get_mut(&format!("{CORE}{name}"));
    if let Some(Value::Array(required)) = schema.and_then(|t| t.get_mut("required")) {
        required.retain(|name| name != field);
    }
}

fn extend(schema: Option<&mut Value>, keywords: &Value) {
    if let (Some(Value::Object(schema)), Value::Object(keywords)) = (schema, keywords) {
        schema.extend(keywords.clone());
    }
}
