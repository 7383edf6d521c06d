//! What is told of those who wait.

use serde_json::{Value, json};
use whalezen_core::name::LocalQueueKey;
use whalezen_dialects::kueue::{
    objects::Objects,
    visibility::{InQueue, Page},
};

use crate::{
    object::{Object, local_queue, workload},
    seen::seen,
};

const ALL: Page = Page { offset: 0, limit: 1000 };

fn waits(name: &str, queue: &str, priority: i32) -> Object {
    let waiting = workload(name).uid(name).put("/spec/queueName", json!(queue));
    waiting.put("/spec/priority", json!(priority))
}

/// Three in two `LocalQueues`.
fn three() -> Objects {
    let mut objects =
        seen([local_queue("other", "cq"), waits("c", "lq", 1), waits("a", "lq", 3), waits("b", "other", 2)]);
    objects.state.settle();
    objects
}

fn shown(objects: &Objects, queue: &InQueue, page: Page) -> Option<Vec<Value>> {
    let pending = objects.pending(queue, page)?;
    Some(pending.iter().map(|pending| serde_json::to_value(pending).unwrap()).collect())
}

/// Name, place in the ClusterQueue, place in the LocalQueue.
fn places(objects: &Objects, queue: &InQueue, page: Page) -> Vec<(String, i64, i64)> {
    let number = |row: &Value, field: &str| row[field].as_i64().unwrap();
    let name = |row: &Value| row["metadata"]["ownerReferences"][0]["name"].as_str().unwrap().to_owned();
    let rows = shown(objects, queue, page).unwrap().into_iter();
    rows.map(|row| (name(&row), number(&row, "positionInClusterQueue"), number(&row, "positionInLocalQueue")))
        .collect()
}

fn local(name: &str) -> InQueue {
    InQueue::Local(LocalQueueKey::new("ns", name))
}

#[test]
fn each_has_a_place_in_its_cluster_queue_and_one_in_its_local_queue() {
    let (objects, cluster) = (three(), InQueue::Cluster("cq".into()));
    let place = |name: &str, cluster, local| (name.to_owned(), cluster, local);
    assert_eq!(places(&objects, &cluster, ALL), [place("a", 0, 0), place("b", 1, 0), place("c", 2, 1)]);
    assert_eq!(places(&objects, &local("lq"), ALL), [place("a", 0, 0), place("c", 2, 1)]);
    let page = |offset, limit| Page { offset, limit };
    assert_eq!(places(&objects, &cluster, page(1, 1)), [place("b", 1, 0)]);
    assert_eq!(places(&objects, &local("lq"), page(1, 9)), [place("c", 2, 1)]);
    assert_eq!(places(&objects, &cluster, page(9, 9)), []);
    assert_eq!(places(&objects, &cluster, page(0, 0)), []);
}

#[test]
fn a_row_names_the_workload_its_queue_and_nothing_of_its_pods() {
    let row = shown(&three(), &local("other"), ALL).unwrap().remove(0);
    assert_eq!(row["metadata"]["namespace"], "ns");
    assert_eq!((&row["priority"], &row["localQueueName"]), (&json!(2), &json!("other")));
    let fields: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected =
        ["metadata", "priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"];
    expected.sort_unstable();
    let mut fields = fields;
    fields.sort_unstable();
    assert_eq!(fields, expected);
}

#[test]
fn a_queue_that_nobody_knows_has_no_list_and_one_whose_cluster_queue_is_missing_has_an_empty_one() {
    let objects = seen([local_queue("astray", "nowhere")]);
    assert_eq!(shown(&objects, &InQueue::Cluster("nowhere".into()), ALL), None);
    assert_eq!(shown(&objects, &local("nobody"), ALL), None);
    assert_eq!(shown(&objects, &local("astray"), ALL), Some(vec![]));
}
