//! A ClusterQueue in both versions.

use serde_json::{Map, Value, json};

use super::{keep::Kept, rename};

/// Words of v1beta1 for what both versions have another word for.
const OLD_WORDS: [(&str, &str, &str); 2] =
    [("whenCanBorrow", "Borrow", "MayStopSearch"), ("whenCanPreempt", "Preempt", "MayStopSearch")];
const CHECKS: &str = "spec.admissionChecks";
const STRATEGY: &str = "spec.admissionChecksStrategy";

pub(super) fn to_v1beta2(object: &mut Value, leaving: &mut Kept) {
    rename(object, "spec", "cohort", "cohortName");
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    for (field, old, word) in OLD_WORDS {
        if let Some(value) = fungibility(spec, field).filter(|value| **value == old) {
            leaving.keep(&fungibility_path(field), value.clone());
            *value = json!(word);
        }
    }
    // In v1beta2 a strategy has rules.
    if spec.get("admissionChecksStrategy").is_some_and(says_nothing)
        && let Some(strategy) = spec.remove("admissionChecksStrategy")
    {
        leaving.keep(STRATEGY, strategy);
    }
    let Some(checks) = spec.remove("admissionChecks") else { return };
    // The list goes before the other form, as in Kueue.
    if let Some(rules) = checks.as_array().filter(|checks| !checks.is_empty()) {
        let rules: Vec<Value> = rules.iter().map(|name| json!({ "name": name })).collect();
        let rules = json!({ "admissionChecks": rules });
        if let Some(unused) = spec.insert("admissionChecksStrategy".to_owned(), rules) {
            leaving.keep(STRATEGY, unused);
        }
    }
    leaving.keep(CHECKS, checks);
}

pub(super) fn to_v1beta1(object: &mut Value, returning: &Kept) {
    rename(object, "spec", "cohortName", "cohort");
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    for (field, old, word) in OLD_WORDS {
        let was_old = returning.get(&fungibility_path(field)).is_some_and(|kept| *kept == old);
        if let Some(value) = fungibility(spec, field).filter(|value| was_old && **value == word) {
            *value = json!(old);
        }
    }
    if let Some(strategy) = returning.get(STRATEGY).filter(|strategy| says_nothing(strategy)) {
        spec.entry("admissionChecksStrategy").or_insert_with(|| strategy.clone());
    }
    // Whoever wrote a list reads a list, unless somebody wrote since what a list cannot say.
    let Some(Value::Array(kept)) = returning.get(CHECKS) else { return };
    if kept.is_empty() {
        spec.insert("admissionChecks".to_owned(), json!([]));
    } else if names(spec).as_ref() == Some(kept) {
        match returning.get(STRATEGY) {
            Some(unused) => spec.insert("admissionChecksStrategy".to_owned(), unused.clone()),
            None => spec.remove("admissionChecksStrategy"),
        };
        spec.insert("admissionChecks".to_owned(), json!(kept));
    }
}

fn fungibility<'a>(spec: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Value> {
    spec.get_mut("flavorFungibility")?.get_mut(field)
}

fn fungibility_path(field: &str) -> String {
    format!("spec.flavorFungibility.{field}")
}

fn says_nothing(strategy: &Value) -> bool {
    strategy.get("admissionChecks").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// The names of the checks, if a list of names says all about them.
fn names(spec: &Map<String, Value>) -> Option<Vec<Value>> {
    let rules = spec.get("admissionChecksStrategy")?.get("admissionChecks")?.as_array()?;
    let name = |rule: &Value| {
        let onto = rule.get("onFlavors").and_then(Value::as_array);
        rule.get("name").filter(|_| onto.is_none_or(Vec::is_empty)).cloned()
    };
    rules.iter().map(name).collect()
}
