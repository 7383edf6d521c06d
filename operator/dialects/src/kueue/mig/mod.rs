//! Workloads that ask for MIG instances: the second phase of their admission.
//!
//! Quota is not a device. Who was given quota for `nvidia.com/mig-3g.40gb` may run when a node shows that it has one to
//! give. Until then an admission check of its own stands before it ([`CHECK`]): it is there wherever agents say what GPUs
//! their nodes have, and nobody has to configure it. While it is pending
//!
//! 1. instances are chosen ([`whalezen_core::mig`]), all on one node, and written into that node's `GPUNode` with the
//!    Workload's name on them. That is the reservation: one object has all of a node, and is written on the condition that
//!    it is as it was seen, so no instance is ever promised twice;
//! 2. the agent makes the layout. When its status shows the instances, and the node's allocatable that the device plugin
//!    offers them, the check is ready, and its pods are told to go to that node;
//! 3. if that takes too long, the Workload gives its quota back and is tried again later, each time after a longer pause.
//!
//! Claims of a Workload that holds no quota any more are taken out ([`tidy`]). A GPU on which nobody has a claim is not
//! named any more, and has its policy's default again.
//!
//! As with provisioning there is one step at a time, each one write, from what is seen: a restart changes nothing.

mod claims;
mod ground;
pub mod known;

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use whalezen_core::{
    mig::instances_of,
    name::HostName,
    quantity::{Amount, Amounts},
    state::State,
    topology::{HOST, Node},
    workload::{Admission, PodSet, PodSetAssignment, Timestamp, Workload, total},
};
use whalezen_crds::kueue::{
    constants::condition as types,
    v1beta2::{AdmissionCheckState, CheckState, PodSetUpdate},
};
use whalezen_mig::Counts;

use self::{
    claims::stands,
    known::{NodeView, uid},
};
pub use self::{
    claims::{reported, target, tidy},
    ground::Ground,
};
use super::{conditions, jobs::Of, life::later, workload::WorkloadView, workload_target};
use crate::write::{Note, Verb, Write};

/// The name of the check, in the Workload's status.
pub const CHECK: &str = "mig.scheduling.gen.io";

/// How long a layout is waited for. A GPU is divided in seconds; the rest is for who has to go first.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// The first pause before it is tried again, and the longest.
const PAUSES: (i32, i32) = (60, 1800);

/// The next thing to do for a Workload that waits for instances.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Nothing, until something changes or, if there is one, this moment comes.
    Until(Option<Timestamp>),
    /// This write to the Workload, and then what to say about it.
    Write(Box<Write>, Vec<Note>),
    /// This write to a `GPUNode`, and then what to say about it.
    Layout {
        /// The node's name.
        node: String,
        /// The write.
        write: Box<Write>,
        /// What to say.
        note: Note,
    },
}

/// What a Workload needs of a node.
#[derive(Debug)]
struct Need<'a> {
    instances: Counts,
    /// All that its pods request there.
    amounts: Amounts,
    sets: Vec<(&'a PodSet, &'a PodSetAssignment)>,
}

impl<'a> Need<'a> {
    /// `None` if it needs no instances, or its pods have their places already.
    fn of(sets: &'a [PodSet], given: &'a Admission) -> Option<Self> {
        let mut need = Self { instances: Counts::default(), amounts: Amounts::new(), sets: Vec::new() };
        for pods in sets {
            let given = given.pod_sets.iter().find(|set| set.name == pods.name);
            let Some(given) = given.filter(|set| set.count > 0 && set.placement.is_none()) else { continue };
            let instances = instances_of(pods.of_its_node());
            if instances.is_empty() {
                continue;
            }
            for (profile, count) in instances.iter() {
                need.instances.add(profile, count.saturating_mul(given.count));
            }
            for (resource, amount) in total(pods.of_its_node(), given.count)? {
                *need.amounts.entry(resource).or_insert(Amount::ZERO) += amount;
            }
            need.sets.push((pods, given));
        }
        (!need.sets.is_empty()).then_some(need)
    }

    /// That of a Workload that holds quota.
    fn of_holder(workload: &'a Workload) -> Option<Self> {
        Self::of(workload.pod_sets.as_deref().ok()?, workload.admission()?)
    }
}

/// Whether a Workload has to wait for instances with what it is given. Who runs already, or was told before, is not told
/// anew because agents came or went; `layouts` is whether there are any.
pub fn is_demanded(workload: &Workload, view: &WorkloadView, given: &Admission, layouts: bool) -> bool {
    let has = view.checks.iter().any(|check| check.name == CHECK);
    let sets = workload.pod_sets.as_deref().unwrap_or_default();
    (has || (layouts && !view.is(types::ADMITTED))) && Need::of(sets, given).is_some()
}

/// Whether a Workload waits for instances.
pub fn is_waiting(view: &WorkloadView) -> bool {
    pending(view).is_some()
}

fn pending(view: &WorkloadView) -> Option<&AdmissionCheckState> {
    view.checks.iter().find(|check| check.name == CHECK && check.state == CheckState::Pending)
}

/// The next step for a Workload.
pub fn next(of: Of<'_>, ground: &mut Ground<'_>, now: Timestamp) -> Step {
    const REST: Step = Step::Until(None);
    let stopped = of.view.is(types::EVICTED) || of.view.is(types::FINISHED) || !of.view.active;
    let holds = of.workload.admission().is_some() && !stopped;
    let Some(check) = pending(of.view).filter(|_| holds) else { return REST };
    let Some(need) = Need::of_holder(of.workload) else {
        return answer(of, check, CheckState::Ready, "no MIG instance is needed", Vec::new(), now);
    };
    let reserved = conditions::find(&of.view.conditions, types::QUOTA_RESERVED);
    let since = [Some(&check.last_transition_time), reserved.map(|reserved| &reserved.last_transition_time)];
    let since = since.into_iter().flatten().map(conditions::timestamp).max().unwrap_or(now);
    let end = later(since, TIMEOUT);
    let (known, state) = (ground.known, ground.state);
    let home = known.nodes_of(&of.view.uid).next();
    let standing = home.filter(|view| stands(view, of, known));
    if let Some(node) = standing.and_then(|view| shown(view, of, &need, state)) {
        let host = node.labels.get(HOST).cloned().unwrap_or_else(|| node.name.to_string());
        let update = |(pods, _): &(&PodSet, _)| PodSetUpdate {
            name: pods.name.to_string(),
            node_selector: BTreeMap::from([(HOST.to_owned(), host.clone())]),
            ..PodSetUpdate::default()
        };
        let message = format!("node {} has {}", node.name, need.instances);
        return answer(of, check, CheckState::Ready, &message, need.sets.iter().map(update).collect(), now);
    }
    let message = match (standing, home) {
        (Some(view), _) => format!("{} is being made on node {}", need.instances, view.name),
        // That goes before another claim is made.
        (None, Some(view)) => format!("what was reserved on node {} cannot be had", view.name),
        (None, None) => match ground.place(of, &need) {
            Some(step) => return step,
            None => format!("no node can be given {} beside what is in use or promised", need.instances),
        },
    };
    if now >= end {
        let message = format!("{message}, for {} s", TIMEOUT.as_secs());
        return answer(of, check, CheckState::Retry, &message, Vec::new(), now);
    }
    if check.message != message {
        return answer(of, check, CheckState::Pending, &message, Vec::new(), now);
    }
    Step::Until(Some(end))
}

/// The node, if everything that a Workload claims on it is there, and is offered to pods: beside what others claim that is
/// there, and what is used without a claim.
fn shown<'a>(view: &NodeView, of: Of<'_>, need: &Need<'_>, state: &'a State) -> Option<&'a Node> {
    let node = state.node(&HostName::from(view.name.as_str()))?;
    let all_there = view
        .claims()
        .filter(|claim| uid(claim.by) == of.view.uid)
        .all(|claim| view.shows(claim.gpu, claim.instance));
    let offered = |profile: whalezen_mig::ProfileName| {
        let claims = view.claims().filter(|claim| claim.instance.profile == profile);
        let claimed = claims.filter(|claim| view.shows(claim.gpu, claim.instance)).count() as u64;
        let offered = node.allocatable.get(&profile.resource().as_str().into());
        offered.is_some_and(|Amount(offered)| {
            u64::try_from(*offered).is_ok_and(|offered| offered >= claimed + view.used_unclaimed(profile))
        })
    };
    (all_there && need.instances.iter().all(|(profile, _)| offered(profile))).then_some(node)
}

/// The write that has the check say this.
fn answer(
    of: Of<'_>,
    check: &AdmissionCheckState,
    state: CheckState,
    message: &str,
    updates: Vec<PodSetUpdate>,
    now: Timestamp,
) -> Step {
    let mut checks = of.view.checks.clone();
    let Some(answered) = checks.iter_mut().find(|known| known.name == CHECK) else {
        return Step::Until(None);
    };
    let mut notes = Vec::new();
    if state != check.state {
        answered.last_transition_time = conditions::time(now);
        let said = format!(
            "Admission check {CHECK} updated state from {:?} to {state:?} with message: {message}",
            check.state
        );
        notes.push(note(of, "AdmissionCheckUpdated", said));
    }
    if state == CheckState::Retry {
        let doublings = u32::try_from(check.retry_count.unwrap_or_default()).unwrap_or_default();
        let factor = 2_i32.checked_pow(doublings).unwrap_or(i32::MAX);
        answered.requeue_after_seconds = Some(PAUSES.0.saturating_mul(factor).min(PAUSES.1));
    }
    (answered.state, answered.message, answered.pod_set_updates) = (state, message.to_owned(), updates);
    // Not an apply: others answer checks as well.
    let body = json!({
        "metadata": { "uid": of.view.uid, "resourceVersion": of.view.version.to_string() },
        "status": { "admissionChecks": checks },
    });
    let target = workload_target(&of.key.namespace, &of.key.name);
    Step::Write(Box::new(Write { target, status: true, verb: Verb::Merge, body }), notes)
}

fn note(of: Of<'_>, reason: &'static str, message: String) -> Note {
    let about = workload_target(&of.key.namespace, &of.key.name);
    Note { about, uid: of.view.uid.clone(), warning: false, reason: reason.into(), message }
}
