//! What one version alone can say, kept in an annotation of the other.

use serde_json::{Map, Value, json};

/// Values by the path of the field that they were taken from, in which an element of a list stands by its name:
/// `spec.podSets[main].topologyRequest`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Kept(Map<String, Value>);

impl Kept {
    /// What an annotation holds, which is taken away. One that nobody understands held nothing.
    pub(super) fn from_annotation(object: &mut Value, annotation: &str) -> Self {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return Self::default() };
        let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
            return Self::default();
        };
        let text = annotations.remove(annotation);
        if text.is_some() && annotations.is_empty() {
            metadata.remove("annotations");
        }
        let kept = text.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
        Self(kept.unwrap_or_default())
    }

    /// Writes the annotation, if there is anything to keep.
    pub(super) fn annotate(self, object: &mut Value, annotation: &str) {
        if self.0.is_empty() {
            return;
        }
        if let Value::Object(object) = object
            && let Value::Object(metadata) = object.entry("metadata").or_insert_with(|| json!({}))
            && let Value::Object(annotations) = metadata.entry("annotations").or_insert_with(|| json!({}))
        {
            annotations.insert(annotation.to_owned(), Value::Object(self.0).to_string().into());
        }
    }

    /// What was at a path.
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.0.get(path)
    }

    /// Keeps a value.
    pub(super) fn keep(&mut self, path: &str, value: Value) {
        self.0.insert(path.to_owned(), value);
    }

    /// Takes a field out of an object, and keeps what it held. `[]` stands for every element of a list.
    pub(super) fn take(&mut self, object: &mut Value, path: &str) {
        each_parent(object, path, "", &mut |parent, field, path| {
            if let Some(value) = parent.remove(field) {
                self.0.insert(path, value);
            }
        });
    }

    /// The same, where one value need not be kept.
    pub(super) fn take_unless(&mut self, object: &mut Value, path: &str, usual: &Value) {
        self.take(object, path);
        if self.get(path) == Some(usual) {
            self.0.remove(path);
        }
    }

    /// Puts a field back, unless there is one or what it belonged to is gone.
    pub(super) fn put_back(&self, object: &mut Value, path: &str) {
        each_parent(object, path, "", &mut |parent, field, path| {
            if let Some(value) = self.0.get(&path) {
                parent.entry(field).or_insert_with(|| value.clone());
            }
        });
    }
}

/// Finds what a path may belong to. `found` is given the struct, the field's name in it, and the path by names.
fn each_parent(
    within: &mut Value,
    path: &str,
    above: &str,
    found: &mut impl FnMut(&mut Map<String, Value>, &str, String),
) {
    let Value::Object(fields) = within else { return };
    let Some((step, rest)) = path.split_once('.') else {
        return found(fields, path, format!("{above}{path}"));
    };
    let Some(list) = step.strip_suffix("[]") else {
        if let Some(field) = fields.get_mut(step) {
            each_parent(field, rest, &format!("{above}{step}."), found);
        }
        return;
    };
    for element in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        let name = element.get("name").and_then(Value::as_str).unwrap_or_default();
        let above = format!("{above}{list}[{name}].");
        each_parent(element, rest, &above, found);
    }
}
