//! What is said of a preemption, in Kueue's words: people search for them, and tools read the uids out of them.

use whalezen_core::{plan::Evict, preempt::Ground, workload::Workload};

use super::{jobs::serving, workload::WorkloadView, workload_target};
use crate::write::Note;

/// What stands for a uid that nobody knows.
const UNKNOWN: &str = "UNKNOWN";

/// The message of the conditions of a victim.
pub fn message(evict: &Evict, preemptor: Option<(&Workload, &WorkloadView)>) -> String {
    let due_to = match evict.ground {
        Ground::InClusterQueue => "prioritization in the ClusterQueue",
        Ground::InCohortReclamation => "reclamation within the cohort",
        Ground::InCohortFairSharing => "Fair Sharing within the cohort",
        Ground::InCohortReclaimWhileBorrowing => "reclamation within the cohort while borrowing",
    };
    format!(
        "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to {due_to}; preemptor path: {}; preemptee \
         path: {}",
        preemptor.map_or(UNKNOWN, |(workload, _)| &workload.uid),
        preemptor.and_then(|(_, view)| view.job.as_deref()).map_or(UNKNOWN, serving::object_uid),
        evict.preemptor_path,
        evict.path,
    )
}

/// What people are told: at the victim and at the preemptor.
pub fn notes(
    evict: &Evict,
    message: &str,
    preemptor: Option<(&Workload, &WorkloadView)>,
    victim: (&Workload, &WorkloadView),
) -> Vec<Note> {
    let priorities =
        |of: &Workload| format!("effective priority: {} (base: {}, boost: 0)", of.priority, of.priority);
    let of_preemptor = preemptor.map_or(String::new(), |of| format!("preemptor {}; ", priorities(of.0)));
    let both = format!("{of_preemptor}preemptee {}", priorities(victim.0));
    let note = |(about, view): (&Workload, &WorkloadView), reason: &'static str, message| Note {
        about: workload_target(&about.key.namespace, &about.key.name),
        uid: view.uid.clone(),
        warning: false,
        reason: reason.into(),
        message,
    };
    let mut notes = vec![
        note(victim, "EvictedDueToPreempted", message.to_owned()),
        note(victim, "Preempted", format!("{message}; {both}")),
    ];
    notes.extend(preemptor.map(|preemptor| {
        let (workload, uid, queue) = (&evict.workload, &victim.0.uid, &evict.cluster_queue);
        let message = format!("Preempted workload {workload} (UID: {uid}) in ClusterQueue {queue}; {both}");
        note(preemptor, "PreemptedWorkload", message)
    }));
    notes
}
