//! A definition taken apart: one fact for each thing it says, by the path where it says it. Words, meant for
//! people, are no facts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Path and keyword to value.
pub type Facts = BTreeMap<String, Value>;

/// What a definition says of the version that is compared.
pub fn facts(crd: &Value, version: &str) -> Facts {
    let mut facts = Facts::new();
    let spec = &crd["spec"];
    facts.insert("group".into(), spec["group"].clone());
    facts.insert("scope".into(), spec["scope"].clone());
    for (key, value) in spec["names"].as_object().unwrap() {
        facts.insert(format!("names {key}"), value.clone());
    }
    let versions = spec["versions"].as_array().unwrap();
    let version = versions.iter().find(|v| v["name"] == version).expect("the version is served");
    for (key, value) in version.as_object().unwrap() {
        match key.as_str() {
            "schema" => schema(&value["openAPIV3Schema"], "", &mut facts),
            "additionalPrinterColumns" => {
                facts.insert("columns".into(), value.as_array().unwrap().iter().map(wordless).collect());
            }
            "deprecationWarning" => {}
            _ => drop(facts.insert(key.clone(), value.clone())),
        }
    }
    facts
}

/// What a schema says, fields below it included. Keywords that nobody thought of here count too.
fn schema(schema: &Value, path: &str, facts: &mut Facts) {
    for (keyword, value) in schema.as_object().expect("a schema is an object") {
        let fact = match keyword.as_str() {
            "description" => continue,
            "properties" => {
                for (name, field) in value.as_object().unwrap() {
                    self::schema(field, &format!("{path}.{name}"), facts);
                }
                continue;
            }
            "items" => {
                self::schema(value, &format!("{path}[]"), facts);
                continue;
            }
            "additionalProperties" if value.is_object() => {
                self::schema(value, &format!("{path}{{}}"), facts);
                continue;
            }
            "required" | "enum" => sorted(value.as_array().unwrap().clone()),
            "x-kubernetes-validations" => sorted(value.as_array().unwrap().iter().map(wordless).collect()),
            _ => value.clone(),
        };
        facts.insert(format!("{path} {keyword}"), fact);
    }
}

/// Sets have no order.
fn sorted(mut values: Vec<Value>) -> Value {
    values.sort_by_key(Value::to_string);
    Value::Array(values)
}

/// A rule without its message, a column without its description.
fn wordless(value: &Value) -> Value {
    let keep = |(key, _): &(&String, &Value)| !matches!(key.as_str(), "message" | "description");
    let fields = value.as_object().unwrap().iter().filter(keep);
    json!(fields.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
}

#[test]
fn a_schema_comes_apart_into_one_fact_for_each_keyword() {
    let mut found = Facts::new();
    let list = json!({
        "type": "object",
        "required": ["b", "a"],
        "description": "words",
        "properties": { "a": { "items": { "type": "string", "x-kubernetes-new": 1 } } },
        "x-kubernetes-validations": [{ "rule": "true", "message": "words" }],
    });

    schema(&list, "", &mut found);

    let expected = [
        (" required", json!(["a", "b"])),
        (" type", json!("object")),
        (" x-kubernetes-validations", json!([{ "rule": "true" }])),
        (".a[] type", json!("string")),
        (".a[] x-kubernetes-new", json!(1)),
    ];
    assert_eq!(found, expected.map(|(path, value)| (path.to_owned(), value)).into());
}
