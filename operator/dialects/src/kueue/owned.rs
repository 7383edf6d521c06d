//! What the field manager of admissions owns of a Workload's status.
//!
//! It is `kueue-admission`, Kueue's own: whoever clears a reservation (Kueue's harness does, and so would a Kueue that
//! takes over) removes exactly what that manager owns. A server-side apply takes away what it does not name any more,
//! so each names all of it: what a transition changes, and the rest as it was seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};
use whalezen_core::{
    name::WorkloadKey,
    workload::{Admission, Timestamp},
};
use whalezen_crds::kueue::{
    constants::{condition as types, reason},
    v1beta2::{AdmissionCheckState, CheckState, RequeueState, WorkloadSchedulingStatsEviction},
};

use super::{
    conditions::{self, Saying},
    jobs::lost::PODS_LOST,
    topology,
    workload::{WorkloadView, quantities},
    workload_target,
};
use crate::write::{Verb, Write};

/// The field manager of admissions.
pub const ADMISSION_MANAGER: &str = "kueue-admission";

/// The condition types that it owns.
const CONDITIONS: [&str; 10] = [
    types::QUOTA_RESERVED,
    types::BLOCKED_ON_PREEMPTION_GATES,
    types::EVICTED,
    types::ADMITTED,
    types::PREEMPTED,
    types::REQUEUED,
    types::DEACTIVATION_TARGET,
    types::FINISHED,
    types::PODS_READY,
    PODS_LOST,
];

/// What is said of pods that are not ready when they are first waited for.
const NOT_READY: &str = "Not all pods are ready or succeeded";

/// All of it, on its way from how it was seen to how it is to be.
pub(super) struct Owned<'a> {
    view: &'a WorkloadView,
    now: Timestamp,
    pub(super) conditions: Vec<Condition>,
    /// What the workload holds, if it is to go on holding it.
    pub(super) admission: Option<&'a Admission>,
    /// What its pods request, told while it holds nothing.
    pub(super) requests: Option<Value>,
    pub(super) requeue: RequeueState,
    pub(super) past_seconds: Option<i32>,
    pub(super) checks: Vec<AdmissionCheckState>,
    evictions: Vec<WorkloadSchedulingStatsEviction>,
}

impl<'a> Owned<'a> {
    /// As it was seen, but for the admission: who wants the workload to keep it says so.
    pub(super) fn seen(view: &'a WorkloadView, now: Timestamp) -> Self {
        let own = |condition: &&Condition| CONDITIONS.contains(&condition.type_.as_str());
        Self {
            view,
            now,
            conditions: view.conditions.iter().filter(own).cloned().collect(),
            admission: None,
            requests: None,
            requeue: view.requeue.clone(),
            past_seconds: view.past_seconds,
            checks: view.checks.clone(),
            evictions: view.evictions.clone(),
        }
    }

    /// The same, and it keeps what it holds.
    pub(super) fn holding(view: &'a WorkloadView, given: Option<&'a Admission>, now: Timestamp) -> Self {
        Self { admission: given, ..Self::seen(view, now) }
    }

    /// Sets a condition.
    pub(super) fn say(&mut self, type_: &str, status: bool, reason: &str, message: &str) {
        let saying = Saying { type_, status, reason, message, generation: self.view.generation };
        conditions::set(&mut self.conditions, saying, self.now);
    }

    /// Takes a condition away.
    pub(super) fn forget(&mut self, type_: &str) {
        self.conditions.retain(|condition| condition.type_ != type_);
    }

    /// It holds no quota and so has no leave to run any more; the time that it had is added up.
    pub(super) fn not_admitted(&mut self, granular: bool) {
        let since = conditions::find(&self.conditions, types::ADMITTED)
            .filter(|condition| condition.status == "True")
            .map(|condition| conditions::timestamp(&condition.last_transition_time));
        let Some(since) = since else { return };
        let seconds = i32::try_from(self.now.0.saturating_sub(since.0).max(0) / 1000).unwrap_or(i32::MAX);
        self.past_seconds = Some(self.past_seconds.unwrap_or_default().saturating_add(seconds));
        let passed = self.checks.iter().all(|check| check.state == CheckState::Ready);
        let (reason, message) = if granular || passed {
            (reason::admitted::NO_RESERVATION, "The workload has no reservation")
        } else {
            let message = "The workload has no reservation and not all checks ready";
            ("NoReservationUnsatisfiedChecks", message)
        };
        self.say(types::ADMITTED, false, reason, message);
    }

    /// Pods of it are waited for from the start.
    pub(super) fn wait_for_pods(&mut self) {
        self.say(types::PODS_READY, false, reason::pods_ready::WAIT_FOR_START, NOT_READY);
    }

    /// It was told to stop once more, for this reason and what is behind it. What its checks answered counts no longer.
    pub(super) fn count_eviction(&mut self, reason: &str, cause: &str) {
        let known = self.evictions.iter_mut().find(|of| of.reason == reason && of.underlying_cause == cause);
        match known {
            Some(known) => known.count = known.count.saturating_add(1),
            None => self.evictions.push(WorkloadSchedulingStatsEviction {
                reason: reason.to_owned(),
                underlying_cause: cause.to_owned(),
                count: 1,
            }),
        }
        for check in self.checks.iter_mut().filter(|check| check.state != CheckState::Pending) {
            let retries = check.retry_count.unwrap_or_default();
            *check = AdmissionCheckState {
                name: check.name.clone(),
                state: CheckState::Pending,
                last_transition_time: conditions::time(self.now),
                message: format!("Reset to Pending after eviction. Previously: {:?}", check.state),
                requeue_after_seconds: check.requeue_after_seconds,
                retry_count: (check.state == CheckState::Retry).then(|| retries.saturating_add(1)),
                pod_set_updates: Vec::new(),
            };
        }
    }

    /// The apply, on the condition that the object is still as it was seen.
    pub(super) fn write(self, key: &WorkloadKey) -> Write {
        let mut status = Map::from_iter([("conditions".to_owned(), json!(self.conditions))]);
        let mut put = |field: &str, value: Value| {
            status.insert(field.to_owned(), value);
        };
        if let Some(given) = self.admission {
            put("admission", admission(given));
        }
        if let Some(requests) = self.requests {
            put("resourceRequests", requests);
        }
        if self.requeue != RequeueState::default() {
            put("requeueState", json!(self.requeue));
        }
        if let Some(seconds) = self.past_seconds {
            put("accumulatedPastExecutionTimeSeconds", json!(seconds));
        }
        if !self.checks.is_empty() {
            put("admissionChecks", json!(self.checks));
        }
        if !self.evictions.is_empty() {
            put("schedulingStats", json!({ "evictions": self.evictions }));
        }
        apply(key, self.view, ADMISSION_MANAGER, &Value::Object(status))
    }
}

/// An apply to the status by this field manager, on the condition that the object is still as it was seen.
pub(super) fn apply(key: &WorkloadKey, view: &WorkloadView, manager: &'static str, status: &Value) -> Write {
    let target = workload_target(&key.namespace, &key.name);
    let body = json!({
        "apiVersion": target.api_version(),
        "kind": target.kind,
        "metadata": {
            "namespace": key.namespace,
            "name": key.name,
            "uid": view.uid,
            "resourceVersion": view.version.to_string(),
        },
        "status": status,
    });
    Write { target, status: true, verb: Verb::Apply { manager }, body }
}

fn admission(given: &Admission) -> Value {
    let assignments: Vec<Value> = given
        .pod_sets
        .iter()
        .map(|set| {
            let mut assignment = json!({
                "name": set.name,
                "flavors": set.flavors,
                "resourceUsage": quantities(&set.usage),
                "count": set.count,
            });
            if let Some((placement, fields)) = set.placement.as_ref().zip(assignment.as_object_mut()) {
                fields.insert("topologyAssignment".to_owned(), json!(topology::written(placement)));
            }
            assignment
        })
        .collect();
    json!({ "clusterQueue": given.cluster_queue, "podSetAssignments": assignments })
}
