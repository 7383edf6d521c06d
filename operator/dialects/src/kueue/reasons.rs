//! The word for why a workload waits, in the reason of `QuotaReserved=False`.
//!
//! Kueue 0.19 has two sets of them: coarse ones, and behind its gate `UnadmittedWorkloadsObservability`, which is off,
//! granular ones. The core's reasons are the granular ones.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use whalezen_core::verdict::{Reason, Verdict};
use whalezen_crds::kueue::constants::condition as types;

use super::conditions;

/// It waits.
const PENDING: &str = "Pending";
/// Nothing can be tried: its queue is missing or inactive.
const INADMISSIBLE: &str = "Inadmissible";
/// It waits for the pods of others to be ready.
const WAITING: &str = "Waiting";

/// The word for a verdict.
pub fn word(verdict: &Verdict, granular: bool) -> &'static str {
    match verdict.reason {
        reason if granular => reason.as_str(),
        reason @ (Reason::AdmissionGated | Reason::OnHold) => reason.as_str(),
        Reason::WaitingForPodsReady => WAITING,
        Reason::Suspended => INADMISSIBLE,
        Reason::Misconfigured if is_about_a_missing_queue(&verdict.message) => INADMISSIBLE,
        _ => PENDING,
    }
}

/// Of what is misconfigured, Kueue's controller tells only that a queue is missing; its scheduler tells the rest.
fn is_about_a_missing_queue(message: &str) -> bool {
    let name = message.strip_prefix("LocalQueue ").or_else(|| message.strip_prefix("ClusterQueue "));
    name.and_then(|name| name.strip_suffix(" doesn't exist")).is_some_and(|name| !name.contains(' '))
}

/// Whether a waiting workload was told a word that stands for several reasons.
pub fn is_coarse(of: &[Condition]) -> bool {
    conditions::find(of, types::QUOTA_RESERVED).is_some_and(|condition| {
        condition.status == "False" && [PENDING, INADMISSIBLE, WAITING].contains(&&*condition.reason)
    })
}
