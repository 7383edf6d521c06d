//! The `CustomResourceDefinition` around a kind's schema: names, scope, columns, subresources.

use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::schema;

/// What a kind adds to its types so that the API server can serve it.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Names that `kubectl get` accepts besides the plural.
    pub short_names: &'static [&'static str],
    /// The columns of `kubectl get`, after the name. None leaves the API server's single Age column.
    pub columns: &'static [Column],
    /// Fields that a field selector may name, as JSON paths.
    pub selectable: &'static [&'static str],
    /// Whether status is written through its own endpoint, so that the two writers cannot undo each other.
    pub status: bool,
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The `OpenAPI` type of the value: `string`, `integer` or `date`.
    pub kind: &'static str,
    /// Where the value stands in the object.
    pub path: &'static str,
    /// What the column shows.
    pub description: &'static str,
    /// Whether the column appears only in the wide output.
    pub wide: bool,
}

impl Column {
    /// A column that is always shown.
    pub const fn new(
        name: &'static str,
        kind: &'static str,
        path: &'static str,
        description: &'static str,
    ) -> Self {
        Self { name, kind, path, description, wide: false }
    }

    /// The same column, shown by `kubectl get -o wide` only.
    pub const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    fn json(&self) -> Value {
        without_empty(json!({
            "description": self.description,
            "jsonPath": self.path,
            "name": self.name,
            "priority": if self.wide { json!(1) } else { Value::Null },
            "type": self.kind,
        }))
    }
}

/// A kind of this crate.
pub trait CustomResource: Resource<DynamicType = (), Scope: Scope> + JsonSchema {
    /// How the API server serves the kind.
    const DEFINITION: Definition;
}

/// Where the objects of a kind live, as the definition spells it.
pub trait Scope {
    /// `Cluster` or `Namespaced`.
    const NAME: &'static str;
}

impl Scope for ClusterResourceScope {
    const NAME: &'static str = "Cluster";
}

impl Scope for NamespaceResourceScope {
    const NAME: &'static str = "Namespaced";
}

/// The definition of `K` as the API server takes it.
///
/// This is JSON and not k8s-openapi's struct because that one holds bounds as floating-point numbers.
pub fn crd_json<K: CustomResource>() -> Value {
    let definition = K::DEFINITION;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", K::plural(&()), K::group(&())) },
        "spec": {
            "group": K::group(&()),
            "names": without_empty(json!({
                "kind": K::kind(&()),
                "listKind": format!("{}List", K::kind(&())),
                "plural": K::plural(&()),
                "shortNames": definition.short_names,
                "singular": K::kind(&()).to_lowercase(),
            })),
            "scope": <K::Scope as Scope>::NAME,
            "versions": [version::<K>(&definition)],
        },
    })
}

fn version<K: CustomResource>(definition: &Definition) -> Value {
    let columns: Vec<Value> = definition.columns.iter().map(Column::json).collect();
    let fields: Vec<Value> = definition.selectable.iter().map(|path| json!({ "jsonPath": path })).collect();
    without_empty(json!({
        "additionalPrinterColumns": columns,
        "name": K::version(&()),
        "schema": { "openAPIV3Schema": schema::root::<K>() },
        "selectableFields": fields,
        "served": true,
        "storage": true,
        "subresources": if definition.status { json!({ "status": {} }) } else { Value::Null },
    }))
}

/// Drops keys that say nothing: the API server distinguishes none from empty.
fn without_empty(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
    }
    object
}

/// The name of a definition in JSON form: `<plural>.<group>`.
pub(crate) fn name(crd: &Value) -> String {
    crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}
