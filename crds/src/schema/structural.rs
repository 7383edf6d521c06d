//! The last step: JSON Schema as `schemars` writes it becomes what the API server calls structural.
//!
//! References are put in place, since a definition may hold none. `Option` leaves no trace, since an absent
//! field is how Kubernetes writes "none": fields are never nullable. An enum of documented variants becomes a
//! list of values, with the variants' docs at the end of the description.

use serde_json::{Map, Value, json};

use super::kubernetes::UNDESCRIBED;

/// Writes `schema` without references to `types`.
pub(super) fn write(schema: Value, types: &Map<String, Value>) -> Value {
    Writer { types, describe: true }.write(schema)
}

#[derive(Clone, Copy)]
struct Writer<'a> {
    types: &'a Map<String, Value>,
    describe: bool,
}

impl Writer<'_> {
    fn write(mut self, schema: Value) -> Value {
        // `true`, which accepts anything, and every other schema that is not an object.
        let Value::Object(mut schema) = schema else { return json!({}) };
        let describe = self.describe;
        self.resolve(&mut schema);
        drop_null(&mut schema);
        self.resolve(&mut schema);
        list_variants(&mut schema);
        schema.remove("title");
        match schema.get_mut("description") {
            Some(Value::String(text)) if describe => *text = reflow(text),
            _ => drop(schema.remove("description")),
        }
        tidy_required(&mut schema);
        for (keyword, value) in &mut schema {
            match keyword.as_str() {
                "properties" => {
                    if let Value::Object(properties) = value {
                        properties.values_mut().for_each(|schema| *schema = self.write(schema.take()));
                    }
                }
                "items" | "additionalProperties" => *value = self.write(value.take()),
                _ => {}
            }
        }
        Value::Object(schema)
    }

    /// Puts what a reference refers to in its place.
    fn resolve(&mut self, schema: &mut Map<String, Value>) {
        while let Some(name) = reference(schema) {
            self.describe &= !UNDESCRIBED.contains(&name.as_str());
            underlay(schema, self.types.get(&name));
        }
    }
}

/// Takes the reference out of a schema and returns the name of the type that it refers to.
fn reference(schema: &mut Map<String, Value>) -> Option<String> {
    match schema.remove("$ref")? {
        Value::String(path) => Some(path.trim_start_matches("#/$defs/").to_owned()),
        _ => None,
    }
}

/// Adds what `below` says wherever `schema` says nothing: a field's own words precede those of its type.
fn underlay(schema: &mut Map<String, Value>, below: Option<&Value>) {
    let Some(Value::Object(below)) = below else { return };
    for (keyword, value) in below {
        schema.entry(keyword).or_insert_with(|| value.clone());
    }
}

/// Undoes what `schemars` does for an `Option`.
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [kind] = types.as_mut_slice() {
            let kind = kind.take();
            schema.insert("type".into(), kind);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        let before = alternatives.len();
        alternatives.retain(|schema| schema.get("type").is_none_or(|kind| kind != "null"));
        let optional = alternatives.len() < before;
        if let ([only], true) = (alternatives.as_slice(), optional) {
            let only = only.clone();
            schema.remove("anyOf");
            underlay(schema, Some(&only));
        }
    }
}

/// Turns alternatives that are constants into one list of values.
fn list_variants(schema: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return };
    let Some(values) = variants.iter().map(|v| v.get("const").cloned()).collect::<Option<Vec<_>>>() else {
        return;
    };
    let text =
        |schema: &Value, keyword| schema.get(keyword).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut lines: Vec<String> =
        schema.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
    lines.extend(
        variants
            .iter()
            .map(|v| format!("- {}: {}", text(v, "const"), text(v, "description").replace('\n', " "))),
    );
    schema.remove("oneOf");
    schema.insert("type".into(), json!("string"));
    schema.insert("enum".into(), Value::Array(values));
    schema.insert("description".into(), json!(lines.join("\n")));
}

/// Sorts the required fields, which are a set, and drops an empty list, which the API server refuses.
fn tidy_required(schema: &mut Map<String, Value>) {
    let Some(Value::Array(required)) = schema.get_mut("required") else { return };
    required.sort_by_key(|name| name.as_str().map(str::to_owned));
    if required.is_empty() {
        schema.remove("required");
    }
}

/// Joins the lines of a paragraph, which source code breaks and a terminal breaks elsewhere. List items keep
/// their lines.
fn reflow(text: &str) -> String {
    let mut flowed = String::with_capacity(text.len());
    for line in text.lines() {
        let starts = line.is_empty() || line.starts_with("- ") || flowed.is_empty() || flowed.ends_with('\n');
        if !starts {
            flowed.push(' ');
        } else if !flowed.is_empty() {
            flowed.push('\n');
        }
        flowed.push_str(line.trim());
    }
    flowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(schema: Value) -> Value {
        let types = json!({
            "Name": { "type": "string", "maxLength": 3, "description": "of the type" },
            "io.k8s.api.core.v1.PodTemplateSpec": {
                "type": "object",
                "description": "of the type",
                "properties": { "metadata": { "type": "object", "description": "of a part" } },
            },
        });
        write(schema, types.as_object().unwrap())
    }

    #[test]
    fn an_option_is_its_type_and_no_more() {
        let plain = json!({ "type": "string" });
        assert_eq!(written(json!({ "type": ["string", "null"] })), plain);
        assert_eq!(written(json!({ "anyOf": [plain, { "type": "null" }] })), plain);
        let either = json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] });
        assert_eq!(written(either.clone()), either, "alternatives that are no Option stay");
    }

    #[test]
    fn a_field_speaks_before_its_type() {
        let field = json!({ "anyOf": [{ "$ref": "#/$defs/Name" }, { "type": "null" }], "description": "of the field" });
        assert_eq!(
            written(field),
            json!({ "type": "string", "maxLength": 3, "description": "of the field" })
        );
    }

    #[test]
    fn documented_variants_become_values_and_a_list_below_the_description() {
        let variants = json!({
            "description": "What to do.",
            "oneOf": [
                { "type": "string", "const": "Wait", "description": "Do\nnothing." },
                { "type": "string", "const": "Go", "description": "Begin." },
            ],
        });
        assert_eq!(
            written(variants),
            json!({
                "type": "string",
                "enum": ["Wait", "Go"],
                "description": "What to do.\n- Wait: Do nothing.\n- Go: Begin.",
            })
        );
    }

    #[test]
    fn lines_of_a_paragraph_are_joined_and_paragraphs_and_items_are_not() {
        assert_eq!(reflow("One\ntwo.\n\nThree:\n- a\n  b\n- c"), "One two.\n\nThree:\n- a b\n- c");
    }

    #[test]
    fn a_pod_template_keeps_the_words_of_its_field_only() {
        let field =
            json!({ "$ref": "#/$defs/io.k8s.api.core.v1.PodTemplateSpec", "description": "of the field" });
        assert_eq!(
            written(field),
            json!({
                "type": "object",
                "description": "of the field",
                "properties": { "metadata": { "type": "object" } },
            })
        );
    }

    #[test]
    fn required_fields_are_sorted_and_never_an_empty_list() {
        assert_eq!(written(json!({ "required": ["b", "a"] })), json!({ "required": ["a", "b"] }));
        assert_eq!(written(json!({ "required": [] })), json!({}));
    }
}
