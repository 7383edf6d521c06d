//! From Rust types to the structural schemas that the API server accepts.
//!
//! `schemars` writes JSON Schema with references and nulls; a `CustomResourceDefinition` takes neither. The
//! way between is short: generate with references kept, add to Kubernetes' own types what their Go markers
//! say (`kubernetes`), put every reference in place, and write what is left in the API server's dialect
//! (`structural`).

mod kubernetes;
pub mod mark;
pub mod names;
mod structural;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of a whole object of type `T`, `apiVersion`, `kind` and `metadata` included.
pub fn root<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().with(|s| s.meta_schema = None).into_generator();
    let object = T::json_schema(&mut generator).to_value();
    let mut types = generator.take_definitions(true);
    kubernetes::complete(&mut types);
    let mut root = structural::write(object, &types);
    if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
        properties.extend(object_properties());
    }
    root
}

/// The fields that the API server itself gives every object.
fn object_properties() -> Map<String, Value> {
    let mut properties = Map::new();
    properties.insert(
        "apiVersion".into(),
        json!({ "type": "string", "description": "The group and version of this object's schema." }),
    );
    properties.insert(
        "kind".into(),
        json!({ "type": "string", "description": "The kind of thing that this object describes." }),
    );
    properties.insert("metadata".into(), json!({ "type": "object" }));
    properties
}
