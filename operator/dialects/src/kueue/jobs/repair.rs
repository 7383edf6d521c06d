//! What comes of a job whose pods have hosts that fail: the pods of one host get another, and where there is none, or several
//! hosts fail, the job is stopped and queues again as a whole (KEP-2724).
//!
//! A host that fails is first named in the Workload's status (`unhealthyNodes`), by whoever notices it; what is named there
//! and is one of its hosts is replaced. So each step is one write here too.

use std::collections::BTreeSet;

use whalezen_core::{
    name::PodKey,
    workload::{Admission, Timestamp},
};
use whalezen_crds::kueue::constants::{condition as types, reason};

use super::{
    super::{
        admission::{self, Eviction},
        life::{self, Fate},
        workload_target,
    },
    Of, Step, write,
};
use crate::write::Note;

/// What is wrong with the hosts of a job that runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trouble {
    /// The hosts on which its pods cannot go on.
    pub failed: BTreeSet<String>,
    /// A pod that was bound to its host, and has not been let on it for too long.
    pub stuck: Option<Stuck>,
}

/// A pod that waits for room on the host to which it was bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The pod.
    pub pod: PodKey,
    /// The host, or what it was bound to instead.
    pub host: String,
    /// Since when it waits.
    pub since: Timestamp,
    /// What the scheduler says about it.
    pub message: String,
}

/// What is due, if anything is. `without` says what the Workload holds if its pods on a host are elsewhere.
pub fn next(
    of: Of<'_>,
    trouble: &Trouble,
    now: Timestamp,
    without: impl FnOnce(&str) -> Result<Admission, String>,
) -> Option<Step> {
    let named = &of.view.unhealthy;
    if of.view.deleting || of.view.unreadable || of.view.is(types::FINISHED) {
        return None;
    }
    let runs = of.admitted().filter(|_| !of.view.is(types::EVICTED));
    let has = |host: &str| runs.is_some_and(|given| given.pod_sets.iter().any(|set| set.is_on(host)));
    if named.iter().any(|host| !has(host)) {
        let hosts = named.iter().filter(|host| has(host));
        return Some(write(admission::name_unhealthy(of.key, of.view, hosts.map(String::as_str))));
    }
    let given = runs?;
    let evict = |message: &str| {
        let eviction = Eviction { reason: reason::evicted::NODE_FAILURES, message, ..Eviction::default() };
        match life::evict(of, given, &eviction, now) {
            Fate::Write(write, note) => Some(Step::Write(write, note)),
            Fate::Until(_) => None,
        }
    };
    if let Some(Stuck { pod, host, message, .. }) = &trouble.stuck {
        return evict(&format!(
            "Pod {pod} cannot be scheduled on {host}, which was chosen for it: {message}"
        ));
    }
    let failed: BTreeSet<&str> = named.iter().chain(&trouble.failed).map(String::as_str).collect();
    let mut hosts = failed.iter();
    let host = *hosts.next()?;
    if hosts.next().is_some() {
        let all = failed.into_iter().collect::<Vec<_>>().join(", ");
        return evict(&format!(
            "Workload eviction triggered due to multiple TAS assigned node failures, including: {all}"
        ));
    }
    if named.is_empty() {
        return Some(write(admission::name_unhealthy(of.key, of.view, failed.into_iter())));
    }
    match without(host) {
        Ok(moved) => {
            let note = Note {
                about: workload_target(&of.key.namespace, &of.key.name),
                uid: of.view.uid.clone(),
                warning: false,
                reason: "NodeReplaced".into(),
                message: format!("The pods of {host} get another host, because it fails"),
            };
            let write = admission::relocate(of.key, of.view, &moved, now);
            Some(Step::Move(Box::new(write), note, Box::new(moved)))
        }
        Err(why) => evict(&format!(
            "Workload was evicted as there was no replacement for unhealthy node(s): {host} ({why})"
        )),
    }
}
