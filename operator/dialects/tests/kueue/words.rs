//! The word for why a workload waits: Kueue's coarse ones, or its granular ones where the administrator wants them.

use whalezen_core::verdict::{Reason, Verdict};
use whalezen_crds::kueue::v1beta2 as kueue;
use whalezen_dialects::kueue::{objects::Objects, reasons::word, settings::Settings};

use crate::{
    object::{Object, cluster_queue, flavor, job, local_queue, namespace, workload},
    seen::{NOW, see},
};

#[test]
fn coarse_words_are_those_that_kueue_writes() {
    for (reason, message, coarse) in [
        (Reason::WaitingForQuota, "couldn't assign flavors", "Pending"),
        (Reason::ExceedsMaxQuota, "couldn't assign flavors", "Pending"),
        (Reason::NoMatchingFlavor, "couldn't assign flavors", "Pending"),
        (Reason::PendingEvaluation, "waits behind a", "Pending"),
        (Reason::Misconfigured, "The workload namespace doesn't match ClusterQueue selector", "Pending"),
        (Reason::Misconfigured, "LocalQueue lq doesn't exist", "Inadmissible"),
        (Reason::Misconfigured, "ClusterQueue cq doesn't exist", "Inadmissible"),
        (Reason::Suspended, "ClusterQueue cq is inactive", "Inadmissible"),
        (Reason::WaitingForPodsReady, "", "Waiting"),
        (Reason::AdmissionGated, "", "AdmissionGated"),
        (Reason::Deactivated, "The workload is deactivated", "Pending"),
    ] {
        let verdict = Verdict::new(reason, message);
        assert_eq!(word(&verdict, false), coarse, "{message}");
        assert_eq!(word(&verdict, true), reason.as_str());
    }
}

/// A world in which `train` does not fit, and what it was told.
fn waiting(settings: Settings, train: &Object) -> Objects {
    let mut objects = Objects::new(settings);
    let all =
        [namespace("ns"), flavor("a100"), cluster_queue("cq", 1), local_queue("lq", "cq"), job("train")];
    for object in all.iter().chain([train]) {
        see(&mut objects, object);
    }
    objects.state.settle();
    let plan = whalezen_core::plan::plan(&objects.state, NOW, &whalezen_core::plan::Policy::default());
    objects.state.follow(&plan, NOW, &whalezen_core::plan::Policy::default());
    objects
}

/// The reasons that are written, each after the one before was seen.
fn written(objects: &mut Objects) -> Vec<String> {
    let mut words = Vec::new();
    for report in objects.state.take_reports(10) {
        if let Some((write, _)) = objects.report(&report, NOW) {
            let mut answer = workload("train").version(9).0;
            answer["status"] = write.body["status"].clone();
            let answer: kueue::Workload = serde_json::from_value(answer).unwrap();
            let conditions = answer.status.as_ref().map(|status| status.conditions.clone()).unwrap();
            words.extend(conditions.into_iter().map(|condition| condition.reason));
            objects.confirm_workload(&answer);
        }
    }
    words
}

#[test]
fn a_coarse_word_is_written_once() {
    let mut objects = waiting(Settings::default(), &workload("train").version(8));
    assert_eq!(written(&mut objects), ["Pending"]);
    assert_eq!(written(&mut objects), Vec::<String>::new());
}

#[test]
fn the_next_leader_does_not_write_what_stands_there() {
    let mut objects = waiting(Settings::default(), &workload("train").version(8));
    let report = objects.state.take_reports(10).remove(0);
    let told =
        workload("train").version(8).condition("QuotaReserved", false, "Pending", &report.verdict.message);
    let mut next = waiting(Settings::default(), &told);
    assert_eq!(written(&mut next), Vec::<String>::new());
    let granular = Settings { granular_reasons: true, ..Settings::default() };
    assert_eq!(written(&mut waiting(granular, &told)), [report.verdict.reason.as_str()]);
}
