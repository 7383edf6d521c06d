//! Where pods run: near to each other, in slices, with their leader. On nodes that nobody else uses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use whalezen_e2e::{GpuModel, NodePool};

use super::{Scenario, counts};
use crate::ground::{shared, text};
use crate::kinds::define;

const HOSTS_OF_A_RACK: usize = 2;
const HOSTS_OF_A_ZONE: usize = 4;
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Two zones of two racks of two hosts, with eight GPUs each.
fn nodes() -> NodePool {
    NodePool::gpu("h100", 8, GpuModel::H100_80GB_HBM3, 8).zones(2).nodes_per_rack(2).taint(
        "example.com/topology",
        "yes",
        "NoSchedule",
    )
}

/// The number of a host.
fn number(host: &str) -> usize {
    host.strip_prefix("h100-").unwrap().parse().unwrap()
}

/// How many pods of a set were given to each host.
fn given(workload: &Value, set: usize) -> BTreeMap<usize, u64> {
    let assignment = &workload["status"]["admission"]["podSetAssignments"][set]["topologyAssignment"];
    let mut given = BTreeMap::new();
    for slice in assignment["slices"].as_array().unwrap() {
        // The host is the only level: it says everything.
        let hosts = &slice["valuesPerLevel"][0];
        let pods = &slice["podCounts"];
        let names: Vec<String> = match hosts["individual"]["roots"].as_array() {
            Some(roots) => roots
                .iter()
                .map(|root| {
                    let part = |name: &str| text(hosts, &format!("/individual/{name}"));
                    format!("{}{}{}", part("prefix"), root.as_str().unwrap(), part("suffix"))
                })
                .collect(),
            None => vec![text(hosts, "/universal").to_owned()],
        };
        for (index, name) in names.iter().enumerate() {
            let count = pods["universal"].as_u64().or_else(|| pods["individual"][index].as_u64());
            given.insert(number(name), count.unwrap());
        }
    }
    given
}

/// The domains of this size that these hosts are in.
fn domains(hosts: impl IntoIterator<Item = usize>, size: usize) -> BTreeSet<usize> {
    hosts.into_iter().map(|host| host / size).collect()
}

/// The hosts of a Job's pods once all run: by index, where they have one.
async fn hosts(scenario: &Scenario, job: &str) -> Vec<usize> {
    scenario.ground().runs(job).await;
    let mut pods = scenario.ground().pods(job).await;
    pods.sort_by_key(|pod| {
        pod["metadata"]["labels"][INDEX].as_str().and_then(|index| index.parse::<u32>().ok())
    });
    pods.iter().map(|pod| number(text(pod, "/spec/nodeName"))).collect()
}

#[tokio::test]
async fn pods_run_as_near_to_each_other_as_they_ask_for() {
    let site = shared().await;
    site.cluster.add_nodes(&nodes()).await.unwrap();
    let scenario = Scenario::on(&site, "topology").await;
    scenario.queues().await.unwrap();
    jobs_run_where_their_templates_say(&scenario).await;
    workloads_are_given_what_their_requests_say(&scenario).await;
}

async fn jobs_run_where_their_templates_say(scenario: &Scenario) {
    let names = ["in-a-rack", "near", "anywhere"];
    scenario.submit_all(&names).await;
    assert_eq!(domains(hosts(scenario, "in-a-rack").await, HOSTS_OF_A_RACK).len(), 1);
    let near = hosts(scenario, "near").await;
    assert_eq!((near.len(), domains(near, HOSTS_OF_A_ZONE).len()), (3, 1), "three hosts in one zone");
    assert_eq!(domains(hosts(scenario, "anywhere").await, 1).len(), 2);
    for name in names {
        scenario.delete(name).await;
    }

    scenario.submit("in-slices").await;
    let ranks = hosts(scenario, "in-slices").await;
    let hosts_of_slices: Vec<usize> =
        ranks.chunks(8).map(|slice| domains(slice.iter().copied(), 1).len()).collect();
    assert_eq!(hosts_of_slices, [1, 1], "each slice is on one host");
    scenario.delete("in-slices").await;

    let layered = given(&scenario.gets_in("in-layers").await, 0);
    assert_eq!(layered.values().collect::<Vec<_>>(), [&8; 4]);
    assert_eq!(domains(layered.into_keys(), HOSTS_OF_A_ZONE).len(), 1);
    scenario.delete("in-layers").await;
}

async fn workloads_are_given_what_their_requests_say(scenario: &Scenario) {
    let together = scenario.gets_in("leader-and-workers").await;
    assert_eq!(counts(&together), [("leader", 1), ("workers", 4)]);
    is_in_one_rack(&together);
    scenario.delete("leader-and-workers").await;

    let sliced = given(&scenario.gets_in("sliced").await, 0);
    assert_eq!(sliced.values().collect::<Vec<_>>(), [&4; 2]);
    assert_eq!(domains(sliced.into_keys(), HOSTS_OF_A_RACK).len(), 1);
    scenario.delete("sliced").await;

    let layered = given(&scenario.gets_in("layered").await, 0);
    assert_eq!(layered.values().sum::<u64>(), 8);
    assert!(layered.values().all(|pods| pods % 2 == 0), "{layered:?}");
    let mut racks: BTreeMap<usize, u64> = BTreeMap::new();
    for (host, pods) in &layered {
        *racks.entry(host / HOSTS_OF_A_RACK).or_default() += pods;
    }
    assert!(racks.values().all(|pods| pods % 4 == 0), "{racks:?}");
    assert_eq!(domains(layered.into_keys(), HOSTS_OF_A_ZONE).len(), 1);
    scenario.delete("layered").await;

    let anywhere = given(&scenario.gets_in("unconstrained").await, 0);
    assert_eq!(anywhere.values().collect::<Vec<_>>(), [&1; 2]);
    scenario.delete("unconstrained").await;

    define(scenario.ground(), "pytorchjob").await;
    let trained = scenario.gets_in("master-and-workers").await;
    assert_eq!(counts(&trained), [("master", 1), ("worker", 4)]);
    is_in_one_rack(&trained);
    scenario.delete("master-and-workers").await;
}

fn is_in_one_rack(workload: &Value) {
    let hosts = given(workload, 0).into_keys().chain(given(workload, 1).into_keys());
    assert_eq!(domains(hosts, HOSTS_OF_A_RACK).len(), 1, "{workload:#}");
}
