//! What is told of shares, and of what `LocalQueues` consumed.

use serde_json::{Value, json};
use whalezen_core::{consumption::Rules, name::LocalQueueKey, plan::FairStrategy, workload::Timestamp};
use whalezen_dialects::kueue::{objects::Objects, settings::Settings};

use crate::{
    object::{Object, cluster_queue, cohort, flavor, local_queue, namespace, workload},
    seen::{NOW, see},
};

fn objects(settings: Settings, all: impl IntoIterator<Item = Object>) -> Objects {
    let mut objects = Objects::new(settings);
    for object in [namespace("ns"), flavor("a100")].into_iter().chain(all) {
        see(&mut objects, &object);
    }
    objects.state.settle();
    objects
}

fn remembering() -> Settings {
    let rules = Rules { half_life: 600_000, sampling: 300_000, weights: [].into() };
    Settings { admission_fair_sharing: Some(rules), ..Settings::default() }
}

fn lq() -> LocalQueueKey {
    LocalQueueKey::new("ns", "lq")
}

fn at(objects: &mut Objects, seconds: i64) -> Timestamp {
    let now = Timestamp(NOW.0 + seconds * 1000);
    objects.state.settle();
    objects.state.account(now);
    now
}

/// What is written about what the LocalQueue consumed, and the write is done.
fn written(objects: &mut Objects, now: Timestamp) -> Option<Value> {
    let body = objects.local_queue_status(&lq(), now)?.body;
    objects.local_queue_status_written(&lq(), &body);
    Some(body["status"]["fairSharing"].clone())
}

fn told(amounts: &Value, at: &str) -> Value {
    json!({
        "weightedShare": 0,
        "admissionFairSharingStatus": { "consumedResources": amounts, "lastUpdate": at },
    })
}

#[test]
fn what_a_local_queue_consumed_is_told_when_it_changed() {
    let scope = json!({ "admissionMode": "UsageBasedAdmissionFairSharing" });
    let queue = cluster_queue("cq", 8).put("/spec/admissionScope", scope);
    let mut objects = objects(remembering(), [queue, local_queue("lq", "cq")]);
    let now = at(&mut objects, 0);
    let nothing = told(&json!({ "nvidia.com/gpu": "0" }), "2026-01-01T00:00:10Z");
    assert_eq!(written(&mut objects, now), Some(nothing));
    let now = at(&mut objects, 300);
    assert_eq!(written(&mut objects, now), None, "still nothing");
    see(&mut objects, &workload("train").admitted("a100"));
    let now = at(&mut objects, 301);
    let before = written(&mut objects, now).unwrap();
    assert_eq!(before["admissionFairSharingStatus"]["lastUpdate"], "2026-01-01T00:00:10Z", "the counts did");
    let now = at(&mut objects, 600);
    let amount = json!({ "nvidia.com/gpu": "585786437n" });
    assert_eq!(written(&mut objects, now), Some(told(&amount, "2026-01-01T00:10:10Z")));
    assert_eq!(written(&mut objects, now), None);
}

#[test]
fn what_the_status_says_is_where_it_goes_on_after_a_restart() {
    let shown = told(&json!({ "nvidia.com/gpu": "5500m", "odd": "-1" }), "2020-01-01T00:00:00Z");
    let queue = local_queue("lq", "cq").put("/status/fairSharing", shown);
    let mut objects = objects(remembering(), [cluster_queue("cq", 8), queue]);
    assert!((objects.state.rank(&lq()).as_f64() - 5.5).abs() < 1e-9);
    let now = at(&mut objects, 0);
    let all = json!({ "nvidia.com/gpu": "5500m", "odd": null });
    assert_eq!(written(&mut objects, now), Some(told(&all, "2026-01-01T00:00:10Z")));
    assert_eq!(written(&mut objects, now), None);
    let now = at(&mut objects, 600);
    let half = json!({ "nvidia.com/gpu": "2750m", "odd": null });
    assert_eq!(written(&mut objects, now), Some(told(&half, "2026-01-01T00:10:10Z")));
}

#[test]
fn with_a_half_life_of_nothing_what_was_told_is_taken_back() {
    let mut settings = remembering();
    settings.admission_fair_sharing.as_mut().unwrap().half_life = 0;
    let shown = told(&json!({ "nvidia.com/gpu": "5" }), "2020-01-01T00:00:00Z");
    let queue = local_queue("lq", "cq").put("/status/fairSharing", shown);
    let mut objects = objects(settings, [cluster_queue("cq", 8), queue]);
    let now = at(&mut objects, 0);
    let nothing = told(&json!({ "nvidia.com/gpu": null }), "2026-01-01T00:00:10Z");
    assert_eq!(written(&mut objects, now), Some(nothing));
    let now = at(&mut objects, 300);
    assert_eq!(written(&mut objects, now), None);
}

#[test]
fn where_nothing_is_remembered_nothing_is_told() {
    let mut objects = objects(Settings::default(), [cluster_queue("cq", 8), local_queue("lq", "cq")]);
    let now = at(&mut objects, 0);
    assert_eq!(written(&mut objects, now), Some(Value::Null));
}

fn fair() -> Settings {
    Settings { fair_sharing: Some(vec![FairStrategy::LessThanInitialShare]), ..Settings::default() }
}

/// Two ClusterQueues with 4 and 8 GPUs in the cohort `team`. The first holds 6.
fn borrowing(settings: Settings, weight: &str) -> Objects {
    let queue = |name: &str, gpus| cluster_queue(name, gpus).put("/spec/cohortName", json!("team"));
    let borrower = queue("cq", 4).put("/spec/fairSharing/weight", json!(weight));
    let mut holder = workload("train").admitted("a100");
    let usage = "/status/admission/podSetAssignments/0/resourceUsage";
    *holder.0.pointer_mut(usage).unwrap() = json!({ "nvidia.com/gpu": "6" });
    let all = [borrower, queue("other", 8), cohort("team").put("/spec/parentName", json!("all")), holder];
    objects(settings, all.into_iter().chain([local_queue("lq", "cq")]))
}

#[test]
fn shares_are_told_of_cluster_queues_and_cohorts_where_quota_is_shared_fairly() {
    // 2 of 12 GPUs are borrowed: 167 thousandths.
    for (weight, share) in [("1", 167), ("2", 84), ("0", i64::MAX)] {
        let mut objects = borrowing(fair(), weight);
        let status = objects.queue_status(&"cq".into(), NOW).unwrap().body;
        assert_eq!(status["status"]["fairSharing"], json!({ "weightedShare": share }), "weight {weight}");
        let write = objects.cohort_status(&"team".into()).unwrap();
        assert_eq!(write.body, json!({ "status": { "fairSharing": { "weightedShare": 0 } } }));
        assert_eq!(
            (write.target.plural, write.target.name.as_str(), write.status),
            ("cohorts", "team", true)
        );
        objects.cohort_status_written(&"team".into(), &write.body);
        assert_eq!(objects.cohort_status(&"team".into()), None);
        assert!(objects.state.take_changed().cohorts.contains(&"team".into()));
        see(&mut objects, &workload("train").version(2));
        objects.state.settle();
        assert!(objects.state.take_changed().cohorts.contains(&"team".into()), "less is used below it");
    }
}

#[test]
fn elsewhere_a_share_that_is_shown_is_taken_away() {
    let share = json!({ "weightedShare": 7 });
    let mut objects = borrowing(Settings::default(), "1");
    assert_eq!(objects.cohort_status(&"team".into()), None);
    see(&mut objects, &cohort("team").put("/status/fairSharing", share.clone()));
    see(&mut objects, &cluster_queue("cq", 4).put("/status/fairSharing", share));
    objects.state.settle();
    let write = objects.cohort_status(&"team".into()).unwrap();
    assert_eq!(write.body, json!({ "status": { "fairSharing": null } }));
    objects.cohort_status_written(&"team".into(), &write.body);
    assert_eq!(objects.cohort_status(&"team".into()), None);
    let status = objects.queue_status(&"cq".into(), NOW).unwrap().body;
    assert_eq!(status["status"]["fairSharing"], Value::Null);
}
