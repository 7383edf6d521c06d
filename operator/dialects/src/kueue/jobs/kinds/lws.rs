//! `LeaderWorkerSet`: groups of a leader and its workers, each of which is queued by itself.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;

use super::{By, Factor, Groups, JobKind, Place, Ranks, Serves, Shown, count};

/// The label by which a worker says which it is.
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// The label by which a pod says in which group it is.
const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// The label by which a pod says of which set it is.
const NAME: &str = "leaderworkerset.sigs.k8s.io/name";
/// The annotation by which a worker says who leads it.
const LEADER_NAME: &str = "leaderworkerset.sigs.k8s.io/leader-name";
/// So many groups a set has at most, as in Kueue.
const MOST_GROUPS: i64 = 1_000_000;

/// `LeaderWorkerSet`.
pub static LEADER_WORKER_SET: JobKind = JobKind {
    framework: "leaderworkerset.x-k8s.io/leaderworkerset",
    group: "leaderworkerset.x-k8s.io",
    version: "v1",
    kind: "LeaderWorkerSet",
    plural: "leaderworkersets",
    suspend: "",
    pods: &[Place::Led {
        leader: "/spec/leaderWorkerTemplate/leaderTemplate",
        workers: "/spec/leaderWorkerTemplate/workerTemplate",
        size: &[Factor::Smallest(&["/spec/leaderWorkerTemplate/size"])],
    }],
    ranks: Ranks::by(WORKER_INDEX),
    completes: None,
    wraps: None,
    priority_class: None,
    // Its pods are not gated.
    unless: Shown::Not(&Shown::Field(
        "/spec/leaderWorkerTemplate/workerTemplate/metadata/annotations/kueue.x-k8s.io~1pod-suspending-parent",
        &["leaderworkerset.x-k8s.io/leaderworkerset"],
    )),
    serves: Some(Serves { by: By::Group(Groups { wanted, place }), bare: false }),
    status: None,
};

/// How many groups there are to be. While a rolling update may have more than are asked for, those that are there count.
fn wanted(set: &Value) -> u32 {
    let number = |path: &str| set.pointer(path).and_then(Value::as_i64);
    let asked = count(set, &[Factor::Smallest(&["/spec/replicas"])]);
    let surge = set.pointer("/spec/rolloutStrategy/rollingUpdateConfiguration/maxSurge");
    let surges = match surge {
        Some(Value::Number(number)) => number.as_i64().is_some_and(|number| number > 0),
        Some(Value::String(share)) => share.trim_end_matches('%').parse().is_ok_and(|share: u32| share > 0),
        _ => false,
    };
    let updating = number("/status/updatedReplicas").unwrap_or_default() < asked;
    let there = number("/status/replicas").filter(|_| surges && updating).unwrap_or_default();
    u32::try_from(asked.max(there).clamp(0, MOST_GROUPS)).unwrap_or_default()
}

/// The set and the group of a pod, and whether it leads that, once its labels say so.
fn place(pod: &Pod) -> Option<(&str, u32, bool)> {
    let set = pod.labels().get(NAME)?;
    let group = pod.labels().get(GROUP_INDEX)?.parse().ok()?;
    Some((set, group, !pod.annotations().contains_key(LEADER_NAME)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_of_a_rolling_update_count_as_long_as_it_lasts() {
        let of = |spec: Value, status: Value| wanted(&json!({ "spec": spec, "status": status }));
        let surging = |surge: Value| json!({ "replicas": 2, "rolloutStrategy": { "rollingUpdateConfiguration": { "maxSurge": surge } } });
        let there = |replicas, updated| json!({ "replicas": replicas, "updatedReplicas": updated });
        assert_eq!(of(json!({}), json!({})), 1);
        assert_eq!(of(json!({ "replicas": 0 }), there(3, 0)), 0, "it shrinks");
        for (surge, updated, groups) in
            [(json!(1), 1, 3), (json!("50%"), 1, 3), (json!(0), 1, 2), (json!(1), 2, 2)]
        {
            assert_eq!(of(surging(surge.clone()), there(3, updated)), groups, "{surge} {updated}");
        }
        assert_eq!(of(json!({ "replicas": -1 }), json!({})), 0);
    }
}
