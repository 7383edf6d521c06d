//! Changes to a schema.

use serde_json::{Value, json};

/// A schema that is changed. Fields are named by their path, with `[]` for the elements of a list; what is not there
/// is left alone.
pub(super) struct Edit<'a>(&'a mut Value);

impl<'a> Edit<'a> {
    /// Changes this one.
    pub(super) fn new(schema: &'a mut Value) -> Self {
        Self(schema)
    }

    /// The schema of a field; the empty path is the whole.
    fn at(&mut self, path: &str) -> Option<&mut Value> {
        let mut schema = &mut *self.0;
        for step in path.split('.').filter(|step| !step.is_empty()) {
            let name = step.trim_end_matches("[]");
            schema = schema.get_mut("properties")?.get_mut(name)?;
            if step.ends_with("[]") {
                schema = schema.get_mut("items")?;
            }
        }
        Some(schema)
    }

    /// Has a field say this.
    pub(super) fn set(&mut self, path: &str, keyword: &str, value: Value) {
        if let Some(Value::Object(schema)) = self.at(path) {
            schema.insert(keyword.to_owned(), value);
        }
    }

    /// Has a field no longer say these.
    pub(super) fn drop(&mut self, path: &str, keywords: &[&str]) {
        if let Some(Value::Object(schema)) = self.at(path) {
            schema.retain(|keyword, _| !keywords.contains(&keyword.as_str()));
        }
    }

    /// Gives a struct one more field.
    pub(super) fn add(&mut self, path: &str, field: &str, schema: Value) {
        if let Some(Value::Object(within)) = self.at(path)
            && let Value::Object(fields) = within.entry("properties").or_insert_with(|| json!({}))
        {
            fields.insert(field.to_owned(), schema);
        }
    }

    /// Takes a field away, and out of those that must be given. Gives its schema.
    pub(super) fn take(&mut self, path: &str, field: &str) -> Value {
        let Some(Value::Object(within)) = self.at(path) else { return Value::Null };
        if let Some(Value::Array(required)) = within.get_mut("required") {
            required.retain(|name| name != field);
            if required.is_empty() {
                within.remove("required");
            }
        }
        let fields = within.get_mut("properties").and_then(Value::as_object_mut);
        fields.and_then(|fields| fields.remove(field)).unwrap_or_default()
    }

    /// Calls a field by another name.
    pub(super) fn rename(&mut self, path: &str, from: &str, to: &str) {
        let schema = self.take(path, from);
        self.add(path, to, schema);
    }

    /// The CEL rules of a field, instead of those that it has.
    pub(super) fn rules(&mut self, path: &str, rules: &[(&str, &str)]) {
        let rules: Vec<Value> =
            rules.iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect();
        self.set(path, "x-kubernetes-validations", rules.into());
    }

    /// One more CEL rule of a field.
    pub(super) fn add_rule(&mut self, path: &str, rule: &str, message: &str) {
        self.with_rules(path, |rules| rules.push(json!({ "rule": rule, "message": message })));
    }

    /// Takes those CEL rules away in which a word is.
    pub(super) fn drop_rules(&mut self, path: &str, word: &str) {
        self.with_rules(path, |rules| {
            rules.retain(|rule| {
                !rule.get("rule").and_then(Value::as_str).is_some_and(|rule| rule.contains(word))
            });
        });
    }

    /// Says a word of a field's CEL rules in another way.
    pub(super) fn reword_rules(&mut self, path: &str, from: &str, to: &str) {
        self.with_rules(path, |rules| {
            for text in rules.iter_mut().filter_map(Value::as_object_mut).flat_map(|rule| rule.values_mut()) {
                if let Value::String(text) = text {
                    *text = text.replace(from, to);
                }
            }
        });
    }

    fn with_rules(&mut self, path: &str, change: impl FnOnce(&mut Vec<Value>)) {
        let rules = self.at(path).and_then(|schema| schema.get_mut("x-kubernetes-validations"));
        if let Some(Value::Array(rules)) = rules {
            change(rules);
        }
    }
}
