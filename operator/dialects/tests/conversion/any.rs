//! Any object that a schema allows.

use serde_json::{Map, Value, json};

/// Numbers from a seed (`SplitMix64`).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn heads(&mut self) -> bool {
        self.below(2) == 0
    }

    fn word(&mut self) -> String {
        let words = ["a", "b", "train", "main", "r1-n1", "r1-n2", "gpu", "x9"];
        words[usize::try_from(self.below(8)).unwrap()].to_owned()
    }
}

/// A value that the schema allows, with about half of what may be left out.
pub fn value(schema: &Value, field: &str, dice: &mut Dice) -> Value {
    if let Some(special) = special(field, dice) {
        return special;
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[usize::try_from(dice.below(values.len() as u64)).unwrap()].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(format!("{}Gi", dice.below(9)));
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, dice),
        Some("array") => list(schema, dice),
        Some("integer") => json!(1 + dice.below(40)),
        Some("boolean") => json!(dice.heads()),
        Some("string") if schema["format"] == "date-time" => json!("2026-11-30T12:00:00Z"),
        _ => json!(dice.word()),
    }
}

/// What the schema's own words do not say enough about.
fn special(field: &str, dice: &mut Dice) -> Option<Value> {
    Some(match field {
        "template" => json!({ "spec": { "containers": [{ "name": "main", "image": dice.word() }] } }),
        "clusterSource" if dice.heads() => {
            json!({ "kubeConfig": { "location": dice.word(), "locationType": "Path" } })
        }
        "clusterSource" => json!({ "clusterProfileRef": { "name": dice.word() } }),
        "priorityClassRef" if dice.heads() => {
            json!({ "group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": dice.word() })
        }
        "priorityClassRef" => {
            json!({ "group": "scheduling.k8s.io", "kind": "PriorityClass", "name": dice.word() })
        }
        "priority" => json!(1),
        // Free text in v1beta1, of which only these words mean anything.
        "delayedTopologyRequest" => json!("Pending"),
        "admissionMode" => json!("NoAdmissionFairSharing"),
        _ => return None,
    })
}

fn object(schema: &Value, dice: &mut Dice) -> Value {
    let mut made = Map::new();
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        for _ in 0..dice.below(3) {
            made.insert(dice.word(), value(values, "", dice));
        }
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let must = required.contains(&json!(name)) || field.get("default").is_some();
        if must || dice.heads() {
            made.insert(name.clone(), value(field, name, dice));
        }
    }
    made.into()
}

fn list(schema: &Value, dice: &mut Dice) -> Value {
    let least = schema["minItems"].as_u64().unwrap_or_default();
    let mut made: Vec<Value> = Vec::new();
    for _ in 0..least + dice.below(3) {
        let element = value(&schema["items"], "", dice);
        let same =
            |other: &Value| *other == element || (element.is_object() && other["name"] == element["name"]);
        if !made.iter().any(same) || (made.len() as u64) < least {
            made.push(element);
        }
    }
    made.into()
}

/// The fields of an object that its schema does not know: what the API server would throw away.
pub fn unknown(schema: &Value, object: &Value, path: &str) -> Vec<String> {
    match object {
        Value::Object(fields) => {
            let open = schema.get("properties").is_none();
            let each = fields.iter().flat_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => unknown(schema, value, &path),
                    None if open => vec![],
                    None => vec![path],
                }
            });
            each.collect()
        }
        Value::Array(elements) => elements
            .iter()
            .flat_map(|element| unknown(&schema["items"], element, &format!("{path}[]")))
            .collect(),
        _ => vec![],
    }
}
