//! What says where pods are placed, from objects to the write of an admission and back.

use serde_json::{Value, json};
use whalezen_core::topology::Spot;
use whalezen_dialects::kueue::{
    jobs::{batch, build},
    objects::Objects,
};

use crate::{
    object::{Object, flavor, job, workload},
    seen::{admitted, key, see, seen},
};

const LEVELS: [&str; 2] = ["rack", "kubernetes.io/hostname"];

fn topology() -> Object {
    let levels = LEVELS.map(|label| json!({ "nodeLabel": label }));
    Object(json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": { "name": "racks" },
        "spec": { "levels": levels },
    }))
}

pub fn node(rack: &str, name: &str, gpus: u32) -> Object {
    Object(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "gpu": "a100", "rack": rack, "kubernetes.io/hostname": name } },
        "status": {
            "allocatable": { "nvidia.com/gpu": gpus.to_string(), "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }))
}

fn racks() -> [Object; 5] {
    [
        flavor("a100").put("/spec/topologyName", json!("racks")),
        topology(),
        node("r1", "node-1", 1),
        node("r2", "node-2", 1),
        node("r2", "node-3", 1),
    ]
}

/// Workload `train`, whose two pods are to be placed in one rack.
pub fn placed() -> Object {
    let mut object = workload("train").version(7);
    object.0["spec"]["podSets"][0]["topologyRequest"] = json!({ "required": "rack" });
    object
}

pub fn assignment() -> Value {
    json!({
        "levels": ["kubernetes.io/hostname"],
        "slices": [{
            "domainCount": 2,
            "valuesPerLevel": [{ "individual": { "prefix": "node-", "roots": ["2", "3"] } }],
            "podCounts": { "universal": 1 },
        }],
    })
}

pub fn seen_in_racks(more: &[Object]) -> Objects {
    let mut objects = seen([]);
    for object in racks().iter().chain(more) {
        see(&mut objects, object);
    }
    objects.state.settle();
    objects
}

#[test]
fn an_admission_says_on_which_hosts_the_pods_are() {
    let (write, _) = admitted(&mut seen_in_racks(&[placed(), job("train")]));
    let given = &write.body["status"]["admission"]["podSetAssignments"][0];
    assert_eq!(given["topologyAssignment"], assignment());
}

#[test]
fn what_an_admission_says_is_taken_of_the_hosts() {
    let mut admitted = placed().admitted("a100");
    admitted.0["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = assignment();
    let mut objects = seen_in_racks(std::slice::from_ref(&admitted));
    let given = &objects.state.admission(&key(&admitted)).unwrap().pod_sets[0];
    let spots = ["node-2", "node-3"].map(|host| Spot { values: vec![host.into()], count: 1 });
    assert_eq!(given.placement.as_ref().unwrap().spots, spots);
    let taken = objects.state.taken().clone();
    assert_ne!(taken, objects.state.trees().untaken());
    objects.delete_workload(&key(&admitted));
    assert_eq!(*objects.state.taken(), objects.state.trees().untaken());
}

#[test]
fn a_job_whose_pods_are_to_be_placed_has_a_workload_that_says_so() {
    let annotations = json!({ "kueue.x-k8s.io/podset-preferred-topology": "rack" });
    let job = job("train").put("/spec/template/metadata/annotations", annotations);
    let built = build::workload(&batch::whole(&job.read()), (None, 0));
    let request = serde_json::to_value(&built.spec.pod_sets[0].topology_request).unwrap();
    let index = "batch.kubernetes.io/job-completion-index";
    assert_eq!(request, json!({ "preferred": "rack", "podIndexLabel": index }));
}

#[test]
fn a_topology_is_kept_while_a_flavor_names_it() {
    const IN_USE: &str = "kueue.x-k8s.io/resource-in-use";
    let finalizers = |objects: &Objects| {
        let write = objects.topology_finalizer(&"racks".into());
        write.map(|write| write.body["metadata"]["finalizers"].clone())
    };
    let mut objects = seen(racks());
    assert!(objects.take_due().topologies.contains(&"racks".into()));
    assert_eq!(finalizers(&objects), Some(json!([IN_USE])));
    see(&mut objects, &topology().version(2).finalizers([IN_USE]));
    assert_eq!(finalizers(&objects), None);
    see(&mut objects, &topology().version(3).finalizers([IN_USE]).deleting());
    assert_eq!(finalizers(&objects), None);
    objects.take_due();
    see(&mut objects, &flavor("a100").version(2));
    assert!(objects.take_due().topologies.contains(&"racks".into()));
    assert_eq!(finalizers(&objects), Some(json!([])));
}
