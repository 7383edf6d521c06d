//! The rules about a Workload's spec and status together are worded otherwise than Kueue's, and mean the same.

use cel::{Context, Program, Value as Answer};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use super::module;

struct Rule(Program);

impl Rule {
    /// Whether it allows the change.
    fn allows(&self, old: &Value, new: &Value) -> bool {
        let mut context = Context::default();
        context.add_variable("oldSelf", old).unwrap();
        context.add_variable("self", new).unwrap();
        match self.0.execute(&context) {
            Ok(Answer::Bool(allowed)) => allowed,
            other => panic!("it gives {other:?} for {old} and {new}"),
        }
    }
}

/// The rules of a definition's root in a version, in their order.
fn rules(crd: &Value, version: &str) -> Vec<Rule> {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let version = versions.iter().find(|one| one["name"] == version).unwrap();
    let rules = version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"].as_array().unwrap();
    rules.iter().map(|rule| Rule(Program::compile(rule["rule"].as_str().unwrap()).unwrap())).collect()
}

/// An object with those of the fields that are there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect())
}

fn maybe<T: std::fmt::Debug + Clone>(values: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![Just(None), values.prop_map(Some)]
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    proptest::sample::select(values).prop_map(Value::from)
}

fn class() -> impl Strategy<Value = Value> {
    let group = one_of(&["scheduling.k8s.io", "kueue.x-k8s.io"]);
    let kind = one_of(&["PriorityClass", "WorkloadPriorityClass"]);
    (group, kind, one_of(&["high", "low"]))
        .prop_map(|(group, kind, name)| json!({ "group": group, "kind": kind, "name": name }))
}

const SOURCES: &[&str] = &["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""];

fn conditions() -> impl Strategy<Value = Value> {
    let status = || maybe(one_of(&["True", "False"]));
    (status(), status()).prop_map(|(reserved, admitted)| {
        let condition = |name: &str, status: Option<Value>| Some(json!({ "type": name, "status": status? }));
        [condition("QuotaReserved", reserved), condition("Admitted", admitted)]
            .into_iter()
            .flatten()
            .collect()
    })
}

prop_compose! {
    fn workload()(
        class in maybe(class()),
        // As v1beta1 has it.
        old_class in (maybe(one_of(&["high", "low"])), maybe(one_of(SOURCES))),
        queue in maybe(one_of(&["one", "two"])),
        seconds in maybe((0..3_i64).prop_map(Value::from)),
        pod_sets in 1..3_usize,
        status in maybe((maybe(conditions()), maybe(1..3_usize))),
    ) -> Value {
        let spec = object([
            ("podSets", Some(json!(vec!["set"; pod_sets]))),
            ("priorityClassRef", class),
            ("queueName", queue),
            ("maximumExecutionTimeSeconds", seconds),
            ("priorityClassName", old_class.0),
            ("priorityClassSource", old_class.1),
        ]);
        let status = status.map(|(conditions, assignments)| {
            let admission = assignments.map(|count| json!({ "podSetAssignments": vec!["set"; count] }));
            object([("conditions", conditions), ("admission", admission)])
        });
        object([("spec", Some(spec)), ("status", status)])
    }
}

#[test]
fn each_of_our_rules_allows_what_kueues_allows() {
    let crds = whalezen_crds::kueue::v1beta2::crds();
    let ours = rules(crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "Workload").unwrap(), "v1beta2");
    let theirs = rules(&module::definitions()["Workload"], "v1beta2");
    assert_eq!(theirs.len(), ours.len());

    let mut runner = TestRunner::new(Config { cases: 2_000, ..Config::default() });
    let compared = runner.run(&(workload(), workload()), |(old, new)| {
        let both = theirs
            .iter()
            .zip(&ours)
            .map(|(theirs, ours)| (theirs.allows(&old, &new), ours.allows(&old, &new)));
        for (rule, (theirs, ours)) in both.enumerate() {
            prop_assert_eq!(theirs, ours, "rule {}", rule);
        }
        Ok(())
    });

    compared.unwrap();
}

#[test]
fn our_rules_of_v1beta1_together_allow_what_kueues_allow() {
    let crds = whalezen_crds::kueue::crds();
    let ours = rules(crds.iter().find(|crd| crd["spec"]["names"]["kind"] == "Workload").unwrap(), "v1beta1");
    let theirs = rules(&module::definitions()["Workload"], "v1beta1");
    assert_eq!(theirs.len(), ours.len());

    let mut runner = TestRunner::new(Config { cases: 2_000, ..Config::default() });
    let allow = |rules: &[Rule], old: &Value, new: &Value| rules.iter().all(|rule| rule.allows(old, new));
    let compared = runner.run(&(workload(), workload()), |(old, new)| {
        prop_assert_eq!(allow(&theirs, &old, &new), allow(&ours, &old, &new));
        Ok(())
    });

    compared.unwrap();
}
