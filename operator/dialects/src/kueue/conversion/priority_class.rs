//! The priority class of a Workload: two fields in v1beta1, a reference in v1beta2.

use serde_json::{Value, json};

use super::keep::Kept;

/// What v1beta1 calls a kind of class, and its group and kind.
const SOURCES: [(&str, &str, &str); 2] = [
    ("kueue.x-k8s.io/workloadpriorityclass", "kueue.x-k8s.io", "WorkloadPriorityClass"),
    ("scheduling.k8s.io/priorityclass", "scheduling.k8s.io", "PriorityClass"),
];
const NAME: &str = "spec.priorityClassName";
const SOURCE: &str = "spec.priorityClassSource";
const REFERENCE: &str = "spec.priorityClassRef";

pub(super) fn to_v1beta2(object: &mut Value, returning: &Kept, leaving: &mut Kept) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let (name, source) = (spec.remove("priorityClassName"), spec.remove("priorityClassSource"));
    let named = text(name.as_ref());
    let known = SOURCES.iter().find(|(known, ..)| *known == text(source.as_ref()) && !named.is_empty());
    if let Some((_, group, kind)) = known {
        spec.insert("priorityClassRef".to_owned(), json!({ "group": group, "kind": kind, "name": named }));
        return;
    }
    // A name without a kind is no reference to anything, nor is a kind without a name.
    if let Some(name) = name {
        leaving.keep(NAME, name);
    }
    if let Some(source) = source.filter(|source| *source != "") {
        leaving.keep(SOURCE, source);
    }
    returning.put_back(object, REFERENCE);
}

pub(super) fn to_v1beta1(object: &mut Value, returning: &Kept, leaving: &mut Kept) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let reference = spec.remove("priorityClassRef");
    let (mut name, mut source) = (None, json!(""));
    match &reference {
        None => {
            name = returning.get(NAME).cloned();
            source = returning.get(SOURCE).cloned().unwrap_or(source);
        }
        Some(reference) => match source_of(reference) {
            Some(known) => {
                name = reference.get("name").cloned();
                source = json!(known);
            }
            None => leaving.keep(REFERENCE, reference.clone()),
        },
    }
    if let Some(name) = name {
        spec.insert("priorityClassName".to_owned(), name);
    }
    spec.insert("priorityClassSource".to_owned(), source);
}

fn source_of(reference: &Value) -> Option<&'static str> {
    let (group, kind) = (text(reference.get("group")), text(reference.get("kind")));
    SOURCES.iter().find(|(_, g, k)| (*g, *k) == (group, kind)).map(|(source, ..)| *source)
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
