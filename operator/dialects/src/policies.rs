//! `SchedulingPolicies`: the brakes that people put on preemption, and the circuit breaker's own state.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde_json::{Value, json};
use whalezen_core::{
    brakes::{Brakes, Limit, Past},
    workload::Timestamp,
};
use whalezen_crds::scheduling::v1alpha1::{
    RESET_ANNOTATION, SchedulingPolicy, SchedulingPolicySpec, TRIPPED,
};

use crate::{
    kueue::conditions::{self, Saying},
    write::{Note, Target, Verb, Write},
};

/// Every policy that was seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Policies(BTreeMap<String, View>);

/// What is kept of a policy.
#[derive(Clone, PartialEq, Debug)]
struct View {
    uid: String,
    generation: Option<i64>,
    spec: SchedulingPolicySpec,
    conditions: Vec<Condition>,
    /// When its circuit breaker tripped, and what is said about it, unless it was reset since.
    tripped: Option<(Timestamp, String)>,
    /// When a person last reset it.
    reset: Option<Timestamp>,
}

impl View {
    /// The circuit breaker as a limit: when that is reached, it trips.
    fn breaker(&self, name: &str) -> Option<Limit> {
        let breaker = self.spec.circuit_breaker.as_ref()?;
        Some(Limit {
            policy: name.into(),
            by_queue: false,
            evictions: u32::try_from(breaker.evictions).unwrap_or_default(),
            within: i64::from(breaker.window_seconds) * 1000,
            since: self.reset,
        })
    }
}

/// The address of a policy.
pub fn target(name: &str) -> Target {
    Target {
        group: "scheduling.gen.io",
        version: "v1alpha1",
        kind: "SchedulingPolicy",
        plural: "schedulingpolicies",
        namespace: None,
        name: name.to_owned(),
    }
}

impl Policies {
    /// A policy was seen. That its breaker tripped is remembered by its object, and by this process until the object
    /// shows it.
    pub fn apply(&mut self, object: &SchedulingPolicy) {
        let name = object.name_any();
        let conditions = object.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
        let shown = conditions::find(&conditions, TRIPPED)
            .filter(|condition| condition.status == "True")
            .map(|c| (conditions::timestamp(&c.last_transition_time), c.message.clone()));
        let known = self.0.get(&name).and_then(|view| view.tripped.clone());
        let reset = object.annotations().get(RESET_ANNOTATION).and_then(|text| text.parse().ok());
        let reset = reset.map(|moment: jiff::Timestamp| Timestamp(moment.as_millisecond()));
        let tripped = known.or(shown).filter(|(at, _)| reset.is_none_or(|reset| reset < *at));
        let view = View {
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation,
            spec: object.spec.clone(),
            conditions,
            tripped,
            reset,
        };
        self.0.insert(name, view);
    }

    /// A policy is gone, and its brakes with it.
    pub fn delete(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The names of all policies.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The brakes of all policies together.
    pub fn brakes(&self) -> Brakes {
        let mut brakes = Brakes::default();
        for (name, view) in &self.0 {
            let frozen = match &view.tripped {
                _ if view.spec.freeze => Some(format!("SchedulingPolicy {name} freezes it")),
                Some((_, message)) if view.spec.circuit_breaker.is_some() => Some(message.clone()),
                _ => None,
            };
            brakes.frozen = brakes.frozen.or(frozen);
            let limits = &view.spec.eviction_limits;
            let limit = |evictions: Option<i32>, by_queue| {
                let (policy, evictions) =
                    (name.as_str().into(), u32::try_from(evictions?).unwrap_or_default());
                Some(Limit { policy, by_queue, evictions, within: Brakes::MEMORY, since: None })
            };
            brakes.limits.extend(limit(limits.per_hour, false));
            brakes.limits.extend(limit(limits.per_cluster_queue_per_hour, true));
            // So that one plan alone is no storm.
            brakes.limits.extend(view.breaker(name));
        }
        brakes
    }

    /// Trips the breakers for which there were too many evictions, and says so. To be called after each plan that
    /// evicts.
    pub fn trip<'a>(&mut self, past: &(impl Iterator<Item = &'a Past> + Clone), now: Timestamp) -> Vec<Note> {
        let mut notes = Vec::new();
        for (name, view) in &mut self.0 {
            let Some(breaker) = view.breaker(name).filter(|_| view.tripped.is_none()) else { continue };
            let count = past.clone().filter(|past| breaker.counts(past.at, now)).count();
            if count < usize::try_from(breaker.evictions).unwrap_or(usize::MAX) {
                continue;
            }
            let message = format!(
                "the circuit breaker of SchedulingPolicy {name} tripped, for {count} were preempted in {} s; \
                 annotate it with {RESET_ANNOTATION} and the present time to go on",
                breaker.within / 1000
            );
            view.tripped = Some((now, message.clone()));
            let (about, uid) = (target(name), view.uid.clone());
            notes.push(Note { about, uid, warning: true, reason: "CircuitBreakerTripped".into(), message });
        }
        notes
    }

    /// A policy's status was written.
    pub fn written(&mut self, name: &str, body: &Value) {
        let conditions = body.pointer("/status/conditions").cloned();
        if let (Some(view), Some(conditions)) = (self.0.get_mut(name), conditions) {
            view.conditions = serde_json::from_value(conditions).unwrap_or_default();
        }
    }

    /// The status of a policy, if its object does not show it.
    pub fn status(&self, name: &str, now: Timestamp) -> Option<Write> {
        let view = self.0.get(name)?;
        view.spec.circuit_breaker.as_ref()?;
        let mut conditions = view.conditions.clone();
        let (reason, message) = match &view.tripped {
            Some((_, message)) => ("EvictionStorm", message.as_str()),
            None if view.reset.is_some() => ("Reset", "a person reset it"),
            None => ("Closed", "there were not too many evictions"),
        };
        let (status, generation) = (view.tripped.is_some(), view.generation);
        let at = view.tripped.as_ref().map_or(now, |(at, _)| *at);
        let saying = Saying { type_: TRIPPED, status, reason, message, generation };
        if !conditions::set(&mut conditions, saying, at) {
            return None;
        }
        let body = json!({ "status": { "conditions": conditions } });
        Some(Write { target: target(name), status: true, verb: Verb::Merge, body })
    }
}
