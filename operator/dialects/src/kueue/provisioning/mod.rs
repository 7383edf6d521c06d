//! Admission checks that the cluster autoscaler answers (`kueue.x-k8s.io/provisioning-request`).
//!
//! A Workload that holds quota and has such a check gets a `ProvisioningRequest`, with a `PodTemplate` for each of its pod
//! sets; the autoscaler's answer becomes the check's. A failure, or capacity that was not used in time, is tried again
//! as often as the check's `ProvisioningRequestConfig` says, each attempt a request of its own; between two attempts the
//! Workload gives its quota back. Once the Workload stops or is over, its requests go.
//!
//! As with jobs there is one step at a time, each one write, from what is seen: a restart changes nothing.

pub mod build;
pub mod known;
pub mod request;

use std::collections::BTreeSet;

use serde_json::json;
use whalezen_core::{
    name::{ResourceName, WorkloadKey},
    workload::{Admission, Timestamp},
};
use whalezen_crds::kueue::{
    constants::condition as types,
    v1beta2::{AdmissionCheckState, CheckState, PodSetUpdate, ProvisioningRequestConfigSpec},
};

use self::request::{Request, condition};
use super::{conditions, jobs::Of, pods::Pods, workload::WorkloadView, workload_target};
use crate::write::{Note, Verb, Write};

/// What tells the autoscaler's scheduler which request a pod uses, and of which class that is.
const CONSUMES: &str = "autoscaling.x-k8s.io/consume-provisioning-request";
const CLASS: &str = "autoscaling.x-k8s.io/provisioning-class-name";

/// A check of a Workload that the autoscaler answers.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// Its name.
    pub name: &'a str,
    /// How to ask; none if there is no such configuration.
    pub config: Option<&'a ProvisioningRequestConfigSpec>,
}

/// The next thing to do for a Workload's checks.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Nothing, until something changes.
    Rest,
    /// This write, and then what to say about it.
    Write(Box<Write>, Vec<Note>),
    /// The request of this name is to be made for this check, from the whole Workload ([`build::requested`]).
    Ask {
        /// The check.
        check: String,
        /// The request's name.
        request: String,
    },
}

/// The next step for a Workload with these checks and these requests of its own.
pub fn next(of: Of<'_>, checks: &[Check<'_>], requests: &[&Request], now: Timestamp) -> Step {
    let over = of.view.is(types::FINISHED) || of.view.is(types::EVICTED);
    let Some(given) = of.workload.admission().filter(|_| !over) else {
        return if over { delete_one(of.key, requests.iter().copied()) } else { Step::Rest };
    };
    let Ok(pods) = &of.view.pods else { return Step::Rest };
    let asked: Vec<Asked<'_>> =
        checks.iter().map(|check| Asked::of(*check, of, given, pods, requests)).collect();
    if let Some(step) = answer(of, &asked, now) {
        return step;
    }
    let used: BTreeSet<&str> = asked.iter().filter_map(|asked| Some(asked.last?.0.name.as_str())).collect();
    let unused = requests.iter().copied().filter(|request| !used.contains(request.name.as_str()));
    match delete_one(of.key, unused) {
        Step::Rest => {}
        step => return step,
    }
    for asked in &asked {
        if let Some(attempt) = asked.next_attempt(of.view) {
            let check = asked.check.name.to_owned();
            return Step::Ask { request: request::name(&of.key.name, &check, attempt), check };
        }
    }
    Step::Rest
}

/// Whether any pods that hold quota use what the autoscaler provides.
fn is_needed(config: &ProvisioningRequestConfigSpec, given: &Admission, pods: &[Pods]) -> bool {
    let count = |name: &str| given.pod_sets.iter().find(|set| &*set.name == name).map_or(0, |set| set.count);
    pods.iter().any(|set| set.count > 0 && uses(config, set) && count(&set.name) > 0)
}

/// Whether pods use what the autoscaler provides.
fn uses(config: &ProvisioningRequestConfigSpec, pods: &Pods) -> bool {
    let init = pods.template.init.iter().map(|init| &init.asks);
    let asks = pods.template.containers.iter().chain(init).flat_map(|asks| [&asks.requests, &asks.limits]);
    let managed =
        |name: &ResourceName| config.managed_resources.iter().any(|managed| managed == name.as_str());
    config.managed_resources.is_empty() || asks.flat_map(|amounts| amounts.keys()).any(managed)
}

/// A check and what was asked for it.
struct Asked<'a> {
    check: Check<'a>,
    state: Option<&'a AdmissionCheckState>,
    needed: bool,
    /// The last request that asks as the configuration has it now, and which attempt it is.
    last: Option<(&'a Request, u32)>,
}

impl<'a> Asked<'a> {
    fn of(check: Check<'a>, of: Of<'a>, given: &Admission, pods: &[Pods], requests: &[&'a Request]) -> Self {
        let needed = check.config.is_some_and(|config| is_needed(config, given, pods));
        let fits = |request: &&Request| check.config.is_some_and(|config| request.agrees_with(config));
        let attempts = requests.iter().copied().filter(|request| needed && fits(request));
        let attempts =
            attempts.filter_map(|request| Some((request, request.attempt(&of.key.name, check.name)?)));
        Self {
            check,
            state: of.view.checks.iter().find(|state| state.name == check.name),
            needed,
            last: attempts.max_by_key(|(_, attempt)| *attempt),
        }
    }

    /// Which attempt is to be made, if one is.
    fn next_attempt(&self, view: &WorkloadView) -> Option<u32> {
        let state = self.state.filter(|state| self.needed && state.state != CheckState::Ready)?;
        let retries = u32::try_from(state.retry_count.unwrap_or_default()).unwrap_or_default();
        match self.last {
            None => Some(retries.saturating_add(1)),
            Some((request, attempt)) => {
                let expired = request.is(condition::BOOKING_EXPIRED) && !view.is(types::ADMITTED);
                let again = request.is(condition::FAILED) || expired;
                (again && state.state == CheckState::Pending).then(|| attempt.saturating_add(1))
            }
        }
    }

    /// How the check stands by what is known.
    fn answered(&self, view: &WorkloadView) -> Option<AdmissionCheckState> {
        let mut state = self.state?.clone();
        let Some(config) = self.check.config else {
            (state.state, state.message) = (CheckState::Pending, "the check is not active".into());
            return Some(state);
        };
        if !self.needed {
            if state.state != CheckState::Ready {
                state.state = CheckState::Ready;
                state.message = "the provisioning request is not needed".into();
                state.pod_set_updates = Vec::new();
            }
            return Some(state);
        }
        let (request, attempt) = self.last?;
        let said = |condition| request.message(condition).unwrap_or_default();
        if request.is(condition::FAILED) {
            try_again(&mut state, config, attempt, "failure", said(condition::FAILED));
        } else if request.is(condition::CAPACITY_REVOKED) {
            if view.active {
                (state.state, state.message) =
                    (CheckState::Rejected, said(condition::CAPACITY_REVOKED).to_owned());
            }
        } else if request.is(condition::BOOKING_EXPIRED) {
            if !view.is(types::ADMITTED) {
                try_again(&mut state, config, attempt, "booking expired", said(condition::BOOKING_EXPIRED));
            }
        } else if request.is(condition::PROVISIONED) {
            if state.state != CheckState::Ready {
                (state.state, state.message) = (CheckState::Ready, said(condition::PROVISIONED).to_owned());
                state.pod_set_updates = updates(request, config, view);
            }
        } else if request.is(condition::ACCEPTED) {
            // When the nodes are to be there.
            if let Some(eta) = request.message(condition::PROVISIONED) {
                (state.state, state.message) = (CheckState::Pending, eta.to_owned());
            }
        } else {
            (state.state, state.message) = (CheckState::Pending, String::new());
        }
        Some(state)
    }
}

/// An attempt came to nothing: there is another one, or no more.
fn try_again(
    state: &mut AdmissionCheckState,
    config: &ProvisioningRequestConfigSpec,
    attempt: u32,
    after: &str,
    message: &str,
) {
    let retry = &config.retry_strategy;
    if i64::from(attempt) > i64::from(retry.backoff_limit_count) {
        (state.state, state.message) = (CheckState::Rejected, message.to_owned());
        return;
    }
    state.message = format!("Retrying after {after}: {message}");
    let retries = state.retry_count.unwrap_or_default();
    // An attempt that was counted already says nothing new.
    if i64::from(attempt) > i64::from(retries) {
        let doublings = u32::try_from(retries).unwrap_or_default();
        let factor = 2_i32.checked_pow(doublings).unwrap_or(i32::MAX);
        let pause = retry.backoff_base_seconds.saturating_mul(factor).min(retry.backoff_max_seconds);
        state.state = CheckState::Retry;
        state.requeue_after_seconds = Some(pause.max(0));
    }
}

/// What is added to the pods so that they use what was provided.
fn updates(
    request: &Request,
    config: &ProvisioningRequestConfigSpec,
    view: &WorkloadView,
) -> Vec<PodSetUpdate> {
    let pods = view.pods.as_deref().unwrap_or_default();
    let wanted = config.pod_set_updates.iter().flat_map(|updates| &updates.node_selector);
    let selector = wanted.filter_map(|wanted| {
        let value = request.details.get(&wanted.value_from_provisioning_class_detail)?;
        Some((wanted.key.clone(), value.clone()))
    });
    let update = PodSetUpdate {
        annotations: [(CONSUMES, &request.name), (CLASS, &request.class)]
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .into(),
        node_selector: selector.collect(),
        ..PodSetUpdate::default()
    };
    let of_template = |template: &String| {
        pods.iter().find(|set| request::template_name(&request.name, &set.name) == *template)
    };
    let sets = request.templates.iter().filter_map(of_template);
    sets.map(|set| PodSetUpdate { name: set.name.to_string(), ..update.clone() }).collect()
}

/// The write that brings the checks to what is known, if they say anything else.
fn answer(of: Of<'_>, asked: &[Asked<'_>], now: Timestamp) -> Option<Step> {
    let mut checks = of.view.checks.clone();
    let mut notes = Vec::new();
    for mut state in asked.iter().filter_map(|asked| asked.answered(of.view)) {
        let Some(known) = checks.iter_mut().find(|known| known.name == state.name) else { continue };
        if known.state != state.state {
            state.last_transition_time = conditions::time(now);
            notes.push(changed(of, known, &state));
        }
        *known = state;
    }
    (checks != of.view.checks).then(|| Step::Write(Box::new(patch(of, &checks)), notes))
}

/// What to write and to say because the API server would not have a request: the check says why, unless it does already.
pub fn not_asked(of: Of<'_>, check: &str, request: &str, problem: &str) -> Option<(Write, Note)> {
    let message = format!("Error creating ProvisioningRequest {request:?}: {problem}");
    let mut checks = of.view.checks.clone();
    let state = checks.iter_mut().find(|state| state.name == check && state.message != message)?;
    state.message.clone_from(&message);
    let about = workload_target(&of.key.namespace, &of.key.name);
    let note =
        Note { about, uid: of.view.uid.clone(), warning: true, reason: "FailedCreate".into(), message };
    Some((patch(of, &checks), note))
}

/// The patch of a Workload's checks. It is not an apply: others answer checks as well.
fn patch(of: Of<'_>, checks: &[AdmissionCheckState]) -> Write {
    let body = json!({
        "metadata": { "uid": of.view.uid, "resourceVersion": of.view.version.to_string() },
        "status": { "admissionChecks": checks },
    });
    let target = workload_target(&of.key.namespace, &of.key.name);
    Write { target, status: true, verb: Verb::Merge, body }
}

fn changed(of: Of<'_>, before: &AdmissionCheckState, after: &AdmissionCheckState) -> Note {
    let mut message =
        format!("Admission check {} updated state from {:?} to {:?}", after.name, before.state, after.state);
    if !after.message.is_empty() {
        message.push_str(" with message: ");
        message.push_str(&after.message);
    }
    Note {
        about: workload_target(&of.key.namespace, &of.key.name),
        uid: of.view.uid.clone(),
        warning: false,
        reason: "AdmissionCheckUpdated".into(),
        message,
    }
}

/// The deletion of the first of these that is not on its way out.
fn delete_one<'a>(workload: &WorkloadKey, mut requests: impl Iterator<Item = &'a Request>) -> Step {
    requests.find(|request| !request.deleting).map_or(Step::Rest, |request| {
        let target = request::target(workload, &request.name);
        let body = json!({ "uid": request.uid });
        Step::Write(Box::new(Write { target, status: false, verb: Verb::Delete, body }), Vec::new())
    })
}
