//! Pods are placed on hosts and bound to them: what runs where, and what waits for a place.
//!
//! Everybody's pods take room, so this happens in a cluster of its own: two racks of four nodes with eight GPUs each.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use whalezen_e2e::RACK_LABEL;

use crate::ground::{Ground, QUEUE, Site, condition, is, text};
use crate::objects::{GPU, cluster_queue, flavor, job, kueue, local_queue, workload_priority_class};

const HOST: &str = "kubernetes.io/hostname";
pub const REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Queues of this name, whose pods are placed in racks and on hosts.
pub async fn placed(site: &Arc<Site>, name: &str) -> Ground {
    let ground = Ground::bare(site, name).await;
    let levels = json!([{ "nodeLabel": RACK_LABEL }, { "nodeLabel": HOST }]);
    ground.apply(&kueue("Topology", name, json!({ "spec": { "levels": levels } }))).await;
    let mut flavor = flavor(name);
    flavor["spec"]["topologyName"] = json!(name);
    ground.apply(&flavor).await;
    let mut queue = cluster_queue(name, name, 96);
    queue["spec"]["preemption"] = json!({ "withinClusterQueue": "LowerPriority" });
    ground.apply(&queue).await;
    ground.apply(&local_queue(name, QUEUE, name)).await;
    ground.is_active(name).await;
    ground
}

/// An indexed Job of four pods, each of which needs a whole node, in one rack.
fn gang(name: &str) -> Value {
    in_a_rack(name, 4)
}

/// The same of so many pods.
pub fn in_a_rack(name: &str, pods: u32) -> Value {
    let mut job = job(name, pods, 8, None);
    job["spec"]["completionMode"] = json!("Indexed");
    job["spec"]["template"]["metadata"]["annotations"][REQUIRED] = json!(RACK_LABEL);
    job
}

/// A pod that nobody queued, which takes all of a node.
fn hostile(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "hostile" },
        "spec": {
            "nodeSelector": { HOST: node },
            "containers": [{ "name": "c", "image": "i", "resources": { "limits": { GPU: 8 } } }],
        },
    })
}

/// The nodes of a Job's pods that are neither over nor on their way out, by index.
pub async fn nodes(ground: &Ground, job: &str) -> Vec<String> {
    let index = |pod: &Value| pod["metadata"]["labels"][INDEX].as_str().unwrap().parse::<usize>().unwrap();
    let pods = ground.pods(job).await;
    let goes_on =
        |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] != "Failed";
    let live = pods.iter().filter(goes_on);
    let nodes: BTreeMap<usize, String> =
        live.map(|pod| (index(pod), text(pod, "/spec/nodeName").to_owned())).collect();
    nodes.into_values().collect()
}

/// Whether a Job's template has nothing left of an admission.
fn is_clean(job: &Value) -> bool {
    let template = &job["spec"]["template"];
    template["spec"]["schedulingGates"].is_null()
        && template["spec"]["nodeSelector"].is_null()
        && template["metadata"]["labels"]["kueue.x-k8s.io/podset"].is_null()
        && template["metadata"]["annotations"] == json!({ REQUIRED: RACK_LABEL })
}

#[tokio::test]
async fn a_gang_runs_in_one_rack_each_pod_on_the_host_of_its_rank_or_waits_for_a_rack() {
    let ground = placed(&Site::start(8, true).await, "racks").await;
    ground.create(hostile("a100-1")).await;
    ground.sees("Pod", "hostile", "is on its node", |pod| text(pod, "/spec/nodeName") == "a100-1").await;

    ground.create(gang("first")).await;
    let workload = ground.admitted("first").await;
    let given = &workload["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"];
    assert_eq!(given["levels"], json!([HOST]));
    assert_eq!(workload["spec"]["podSets"][0]["topologyRequest"]["podIndexLabel"], INDEX);
    let started = ground.runs("first").await;
    let gates = &started["spec"]["template"]["spec"]["schedulingGates"];
    assert_eq!(*gates, json!([{ "name": "kueue.x-k8s.io/topology" }]), "its pods are born with a gate");
    let wanted = ["a100-4", "a100-5", "a100-6", "a100-7"];
    assert_eq!(nodes(&ground, "first").await, wanted, "there is a hostile pod in the other rack");

    ground.create(gang("second")).await;
    let message = ground.waits("second", "WaitingForQuota").await;
    assert!(message.contains("allows to fit only 3 out of 4 pod(s)"), "{message}");
    ground.delete("Pod", "hostile").await;
    ground.runs("second").await;
    assert_eq!(nodes(&ground, "second").await, ["a100-0", "a100-1", "a100-2", "a100-3"]);

    ground.apply(&workload_priority_class("racks-high", 100)).await;
    let mut high = gang("high");
    high["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = json!("racks-high");
    ground.create(high).await;
    ground.runs("high").await;
    let taken = nodes(&ground, "high").await;
    let mut victim = "first";
    if taken[0] == "a100-0" {
        victim = "second";
    }
    let waits = |w: &Value| is(w, "Requeued") && !is(w, "QuotaReserved");
    let evicted = ground.workload(victim, "waits again", waits).await;
    assert_eq!(condition(&evicted, "Evicted").unwrap()["reason"], "Preempted");
    ground.sees("Job", victim, "is as it was", is_clean).await;
    ground.delete("Job", "high").await;
    ground.runs(victim).await;
    assert_eq!(nodes(&ground, victim).await, taken, "there is room for it where it was before");
}
