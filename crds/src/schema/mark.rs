//! Marks on fields and types, for use as `#[schemars(transform = …)]`: what Kubernetes adds to JSON Schema.

use schemars::Schema;
use serde_json::{Value, json};

/// A list in which `keys` identify an element: server-side apply merges element by element.
pub fn map_list(keys: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        schema.insert("x-kubernetes-list-type".into(), json!("map"));
        schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
    }
}

/// A list without duplicates, merged element by element.
pub fn set_list(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".into(), json!("set"));
}

/// A list that has one owner and is replaced as a whole.
pub fn atomic_list(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".into(), json!("atomic"));
}

/// A map that has one owner and is replaced as a whole.
pub fn atomic_map(schema: &mut Schema) {
    schema.insert("x-kubernetes-map-type".into(), json!("atomic"));
}

/// A map of at most `max` entries.
pub fn max_properties(max: u32) -> impl FnMut(&mut Schema) {
    move |schema| {
        schema.insert("maxProperties".into(), json!(max));
    }
}

/// CEL rules that the API server checks on every write, each with the sentence that a violation shows.
pub fn rules(rules: &'static [(&'static str, &'static str)]) -> impl FnMut(&mut Schema) {
    move |schema| {
        for (rule, message) in rules {
            push_rule(schema, rule, message);
        }
    }
}

/// A value that cannot change once it is set.
pub fn immutable(schema: &mut Schema) {
    push_rule(schema, "self == oldSelf", "the field cannot be changed");
}

/// A struct of which exactly one of `fields` is set.
pub fn exactly_one_of(fields: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        let has: Vec<String> = fields.iter().map(|field| format!("has(self.{field})")).collect();
        let rule = format!("[{}].filter(x,x==true).size() == 1", has.join(","));
        push_rule(schema, &rule, &format!("exactly one of {} must be set", fields.join(" and ")));
    }
}

/// A field with a Rust default that the API server must not fill in.
pub fn undefaulted(schema: &mut Schema) {
    schema.remove("default");
}

/// A field that the API server fills with an empty object, whose own fields then get their defaults.
pub fn default_empty(schema: &mut Schema) {
    schema.insert("default".into(), json!({}));
}

/// A string of at most `max` characters, on top of its list of values.
pub fn max_length(max: u32) -> impl FnMut(&mut Schema) {
    move |schema| {
        schema.insert("maxLength".into(), json!(max));
    }
}

fn push_rule(schema: &mut Schema, rule: &str, message: &str) {
    let rules =
        schema.ensure_object().entry("x-kubernetes-validations").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(rules) = rules {
        rules.push(json!({ "rule": rule, "message": message }));
    }
}
