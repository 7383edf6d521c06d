//! Whatever people do to a job and its Workload, and in whatever order it is seen: it comes to rest, quota is held
//! as long as pods run, and nothing of an admission is left where there is none.

use proptest::prelude::*;
use serde_json::{Value, json};
use whalezen_dialects::kueue::settings::Settings;

use crate::{
    cluster::{Cluster, KINDS, holds, is, owner},
    object::{IN_USE, MARK, Object, QUEUE_NAME, cluster_queue, escaped, flavor, job, local_queue, put},
};

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Delivery(usize),
    Turn,
    JobController,
    PodsEnd,
    Completion,
    Collection,
    Restart(usize),
    Suspend,
    Unsuspend,
    Scale(i64),
    Deactivate,
    Activate,
    DeleteWorkload,
    TearWorkloadAway,
    SecondWorkload,
    DropLabel,
    Requeue,
    EditSelector,
    CopyMarks,
    EditFlavor,
    Quota(i64),
    DeleteJob,
    Resubmit,
    /// Of the ClusterQueue, or of the LocalQueue.
    Stop(bool, usize),
    Demand(bool),
    Answer(usize),
    Healthy(bool),
    Later(i64),
    WriteAdmitted,
}

const POLICIES: [&str; 3] = ["None", "Hold", "HoldAndDrain"];
const ANSWERS: [&str; 4] = ["Pending", "Ready", "Retry", "Rejected"];

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        12 => (0..KINDS.len()).prop_map(Happens::Delivery),
        8 => Just(Happens::Turn),
        5 => Just(Happens::JobController),
        3 => Just(Happens::PodsEnd),
        1 => Just(Happens::Completion),
        1 => Just(Happens::Collection),
        1 => (0..120_usize).prop_map(Happens::Restart),
        1 => Just(Happens::Suspend),
        1 => Just(Happens::Unsuspend),
        1 => (0..4_i64).prop_map(Happens::Scale),
        1 => Just(Happens::Deactivate),
        1 => Just(Happens::Activate),
        1 => Just(Happens::DeleteWorkload),
        1 => Just(Happens::TearWorkloadAway),
        1 => Just(Happens::SecondWorkload),
        1 => Just(Happens::DropLabel),
        1 => Just(Happens::Requeue),
        1 => Just(Happens::EditSelector),
        1 => Just(Happens::CopyMarks),
        1 => Just(Happens::EditFlavor),
        1 => prop_oneof![Just(0_i64), Just(1), Just(2), Just(8)].prop_map(Happens::Quota),
        1 => Just(Happens::DeleteJob),
        1 => Just(Happens::Resubmit),
        2 => (any::<bool>(), 0..POLICIES.len()).prop_map(|(cluster, policy)| Happens::Stop(cluster, policy)),
        1 => any::<bool>().prop_map(Happens::Demand),
        3 => (0..ANSWERS.len()).prop_map(Happens::Answer),
        1 => any::<bool>().prop_map(Happens::Healthy),
        1 => prop_oneof![Just(61_i64), Just(1801)].prop_map(Happens::Later),
        1 => Just(Happens::WriteAdmitted),
    ]
}

fn cluster(settings: Settings) -> Cluster {
    cluster_with(&job("train"), settings)
}

/// A cluster in which people submit this Job.
fn cluster_with(submitted: &Object, settings: Settings) -> Cluster {
    let mut cluster = Cluster::new(submitted.0.clone(), settings);
    cluster.create("ResourceFlavor", flavor("a100").0);
    cluster.create("ClusterQueue", cluster_queue("cq", 8).0);
    cluster.create("LocalQueue", local_queue("lq", "cq").0);
    cluster.create("LocalQueue", local_queue("other", "cq").0);
    cluster.create("Job", submitted.0.clone());
    cluster
}

/// One pod of it is enough.
fn modest() -> Object {
    job("train").put("/metadata/annotations/kueue.x-k8s.io~1job-min-parallelism", json!("1"))
}

/// It may grow and shrink while it runs.
fn elastic() -> Object {
    let job = job("train").put("/metadata/annotations/kueue.x-k8s.io~1elastic-job", json!("true"));
    job.put("/spec/completions", Value::Null)
}

fn workload_name(cluster: &Cluster) -> Option<String> {
    let first = cluster.all("Workload").next()?;
    Some(first["metadata"]["name"].as_str().unwrap().to_owned())
}

fn happen(cluster: &mut Cluster, what: Happens) {
    let workload = workload_name(cluster).unwrap_or_default();
    match what {
        Happens::Delivery(kind) => {
            cluster.deliver(KINDS[kind]);
        }
        Happens::Turn => {
            cluster.turn();
        }
        Happens::JobController => cluster.sync_job(),
        Happens::PodsEnd => cluster.pods_end(),
        Happens::Completion => cluster.job_completes(),
        Happens::Collection => cluster.collect(),
        Happens::Restart(order) => cluster.restart(&permuted(order)),
        Happens::Suspend => set(cluster, "Job", "train", "/spec/suspend", json!(true)),
        Happens::Unsuspend => set(cluster, "Job", "train", "/spec/suspend", json!(false)),
        Happens::Scale(pods) => set(cluster, "Job", "train", "/spec/parallelism", json!(pods)),
        Happens::Deactivate => set(cluster, "Workload", &workload, "/spec/active", json!(false)),
        Happens::Activate => set(cluster, "Workload", &workload, "/spec/active", json!(true)),
        Happens::DeleteWorkload => cluster.delete("Workload", &workload),
        Happens::TearWorkloadAway => {
            set(cluster, "Workload", &workload, "/metadata/finalizers", json!([]));
            cluster.delete("Workload", &workload);
        }
        Happens::SecondWorkload => {
            if cluster.job().is_some() && cluster.get("Workload", "job-second").is_none() {
                let second = crate::object::workload("train")
                    .put("/metadata/name", json!("job-second"))
                    .put("/metadata/uid", Value::Null);
                cluster.create("Workload", second.0);
            }
        }
        Happens::DropLabel => {
            cluster.edit("Job", "train", |job| {
                job["metadata"]["labels"].as_object_mut().unwrap().remove(QUEUE_NAME);
            });
        }
        Happens::Requeue => {
            let pointer = format!("/metadata/labels/{}", escaped(QUEUE_NAME));
            // The admission policy's rule: not while it runs.
            if cluster.job().is_some_and(|job| job["spec"]["suspend"] == true) {
                set(cluster, "Job", "train", &pointer, json!("other"));
            }
        }
        Happens::EditSelector => {
            set(cluster, "Job", "train", "/spec/template/spec/nodeSelector/zone", json!("a"));
        }
        Happens::CopyMarks => {
            let pointer = format!("/spec/template/metadata/labels/{}", escaped(MARK));
            set(cluster, "Job", "train", &pointer, json!("main"));
        }
        Happens::EditFlavor => {
            set(cluster, "ResourceFlavor", "a100", "/spec/nodeLabels/gpu", json!("a100-80g"));
        }
        Happens::Quota(gpus) => {
            cluster
                .edit("ClusterQueue", "cq", |queue| *queue = with_spec(queue, &cluster_queue("cq", gpus).0));
        }
        Happens::Stop(true, policy) => {
            set(cluster, "ClusterQueue", "cq", "/spec/stopPolicy", json!(POLICIES[policy]));
        }
        Happens::Stop(false, policy) => {
            set(cluster, "LocalQueue", "lq", "/spec/stopPolicy", json!(POLICIES[policy]));
        }
        Happens::Demand(on) => {
            let checks = if on { json!({ "admissionChecks": [{ "name": "dws" }] }) } else { Value::Null };
            set(cluster, "ClusterQueue", "cq", "/spec/admissionChecksStrategy", checks);
        }
        Happens::Answer(answer) => {
            cluster.edit("Workload", &workload, |workload| {
                if !workload["status"]["admissionChecks"][0].is_null() {
                    workload["status"]["admissionChecks"][0]["state"] = json!(ANSWERS[answer]);
                }
            });
        }
        Happens::Healthy(healthy) => cluster.healthy = healthy,
        Happens::Later(seconds) => cluster.later(seconds),
        Happens::WriteAdmitted => {
            // Who holds quota is another matter: there nobody can tell our leave from theirs.
            let leave = crate::object::workload("train").condition("Admitted", true, "Admitted", "by hand").0;
            if cluster.get("Workload", &workload).is_some_and(|of| !holds(of) && of["status"].is_null()) {
                set(cluster, "Workload", &workload, "/status", leave["status"].clone());
            }
        }
        Happens::DeleteJob => cluster.delete("Job", "train"),
        Happens::Resubmit => {
            if cluster.job().is_none() {
                let mut again = cluster.submitted.clone();
                put(&mut again, "/metadata/uid", Value::Null);
                cluster.create("Job", again);
            }
        }
    }
}

fn with_spec(object: &Value, from: &Value) -> Value {
    let mut object = object.clone();
    object["spec"] = from["spec"].clone();
    object
}

fn set(cluster: &mut Cluster, kind: &'static str, name: &str, pointer: &str, value: Value) {
    cluster.edit(kind, name, |object| put(object, pointer, value));
}

/// The kinds in the order of this number.
fn permuted(mut order: usize) -> Vec<&'static str> {
    let mut left = KINDS.to_vec();
    let mut kinds = Vec::new();
    while !left.is_empty() {
        kinds.push(left.remove(order % left.len()));
        order /= left.len() + 1;
    }
    kinds
}

/// Lets everything come to rest.
fn settle(cluster: &mut Cluster) {
    let before = cluster.writes.len();
    cluster.healthy = true;
    for _ in 0..90 {
        let version = cluster.store.clone();
        cluster.sync_job();
        cluster.pods_end();
        cluster.sync_job();
        cluster.collect();
        let mut moved = false;
        for kind in KINDS {
            while cluster.deliver(kind) {
                moved = true;
            }
        }
        moved |= cluster.turn();
        if !moved && version == cluster.store && !cluster.sleep() {
            return;
        }
    }
    panic!("it goes on for ever: {:#?}", &cluster.writes[before..]);
}

/// What holds of a cluster at rest.
fn at_rest(cluster: &Cluster) {
    let used: i64 = cluster
        .all("Workload")
        .filter(|w| holds(w))
        .map(|w| {
            let usage = &w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]["nvidia.com/gpu"];
            usage.as_str().unwrap().parse::<i64>().unwrap()
        })
        .sum();
    assert!(used <= 8);
    let Some(job) = cluster.job() else {
        assert_eq!(cluster.pods(), 0);
        for workload in cluster.all("Workload") {
            assert!(!holds(workload), "quota is held for a job that is gone: {workload:#}");
        }
        return;
    };
    let own: Vec<&Value> = cluster.all("Workload").filter(|w| owner(w) == job["metadata"]["uid"]).collect();
    assert!(own.len() <= 1, "{own:#?}");
    if is(job, "Complete") {
        assert_eq!(cluster.pods(), 0);
        for workload in own {
            assert!(is(workload, "Finished"));
            assert_eq!(workload["metadata"]["finalizers"], Value::Null);
        }
        return;
    }
    let template = &job["spec"]["template"];
    match own.first() {
        Some(workload) if is(workload, "Admitted") => {
            assert!(holds(workload));
            assert_eq!(workload["spec"]["active"], true);
            assert!(is(workload, "PodsReady"));
            let drained =
                |kind, name| cluster.get(kind, name).unwrap()["spec"]["stopPolicy"] == "HoldAndDrain";
            assert!(
                !drained("ClusterQueue", "cq")
                    && (workload["spec"]["queueName"] != "lq" || !drained("LocalQueue", "lq"))
            );
            assert_eq!(job["spec"]["suspend"], false);
            let (pods, selector) = cluster.running.as_ref().unwrap();
            assert_eq!(job["spec"]["parallelism"], *pods);
            assert!(!selector["gpu"].is_null());
            let (set, given) = (
                &workload["spec"]["podSets"][0],
                &workload["status"]["admission"]["podSetAssignments"][0]["count"],
            );
            if set["minCount"].is_null() {
                assert_eq!(set["count"], *pods.min(&2));
            }
            assert_eq!(*given, *pods.min(&2));
        }
        Some(workload) if holds(workload) => {
            let checks = workload["status"]["admissionChecks"].as_array().unwrap();
            assert!(checks.iter().any(|check| check["state"] != "Ready"), "{workload:#}");
            assert_eq!(job["spec"]["suspend"], true);
            assert_eq!(cluster.pods(), 0);
        }
        Some(workload) => {
            assert_eq!(job["spec"]["suspend"], true);
            assert_eq!(cluster.pods(), 0);
            assert_eq!(template["metadata"]["labels"][MARK], Value::Null);
            assert_eq!(template["metadata"]["annotations"]["kueue.x-k8s.io/workload"], Value::Null);
            assert_eq!(workload["metadata"]["finalizers"], json!([IN_USE]));
        }
        // It left Kueue.
        None => assert_eq!(job["metadata"]["labels"][QUEUE_NAME], Value::Null),
    }
}

/// What holds of a cluster with an elastic job at rest.
fn elastic_at_rest(cluster: &Cluster) {
    let Some(job) = cluster.job() else { return assert_eq!(cluster.pods(), 0) };
    let own = cluster.all("Workload").filter(|w| owner(w) == job["metadata"]["uid"]);
    let (over, open): (Vec<&Value>, Vec<&Value>) = own.partition(|w| is(w, "Finished"));
    for workload in over {
        assert!(workload["metadata"]["finalizers"].is_null(), "{workload:#}");
    }
    if is(job, "Complete") {
        return assert!(open.is_empty() && cluster.pods() == 0);
    }
    let count = |w: &Value| w["spec"]["podSets"][0]["count"].as_i64().unwrap();
    let wants = job["spec"]["parallelism"].as_i64().unwrap();
    let (holding, waiting): (Vec<&Value>, Vec<&Value>) = open.into_iter().partition(|w| holds(w));
    match (holding.as_slice(), waiting.as_slice()) {
        // It left Kueue.
        ([], []) => assert_eq!(job["metadata"]["labels"][QUEUE_NAME], Value::Null),
        ([], [next]) => {
            assert_eq!((&job["spec"]["suspend"], count(next)), (&json!(true), wants));
            assert_eq!(cluster.pods(), 0);
        }
        ([held], [] | [_]) => {
            let latest = waiting.first().unwrap_or(held);
            let suspended = json!(!is(held, "Admitted"));
            assert_eq!((&job["spec"]["suspend"], count(latest)), (&suspended, wants));
        }
        // One has quota to take the other's place, and not yet its checks' leave.
        ([one, other], []) => {
            let (held, next) = if follows(one, other) { (other, one) } else { (one, other) };
            assert!(follows(next, held) && is(held, "Admitted") && !is(next, "Admitted"), "{next:#}");
            let checks = next["status"]["admissionChecks"].as_array().unwrap();
            assert!(checks.iter().any(|check| check["state"] != "Ready"), "{next:#}");
            assert_eq!((&job["spec"]["suspend"], count(next)), (&json!(false), wants));
        }
        more => panic!("{more:#?}"),
    }
}

/// Whether one Workload was made to take the place of another.
fn follows(next: &Value, held: &Value) -> bool {
    let of = &next["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"];
    let (namespace, name) = (held["metadata"]["namespace"].as_str(), held["metadata"]["name"].as_str());
    of.as_str() == Some(&format!("{}/{}", namespace.unwrap(), name.unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_it_comes_to_rest_with_quota_for_what_runs(events in prop::collection::vec(happens(), 0..80)) {
        let mut cluster = cluster(Settings::kueue());
        for event in events {
            happen(&mut cluster, event);
        }
        settle(&mut cluster);
        at_rest(&cluster);
    }

    #[test]
    fn so_does_a_job_that_makes_do_with_fewer_pods(events in prop::collection::vec(happens(), 0..80)) {
        let mut cluster = cluster_with(&modest(), Settings::kueue());
        for event in events {
            happen(&mut cluster, event);
        }
        settle(&mut cluster);
        at_rest(&cluster);
    }

    #[test]
    fn and_one_that_grows_and_shrinks(events in prop::collection::vec(happens(), 0..80)) {
        let mut cluster = cluster_with(&elastic(), Settings::kueue());
        for event in events {
            happen(&mut cluster, event);
        }
        settle(&mut cluster);
        elastic_at_rest(&cluster);
    }
}

#[test]
fn a_job_is_admitted_runs_and_gives_its_quota_back() {
    let mut cluster = cluster(Settings::kueue());
    settle(&mut cluster);
    at_rest(&cluster);
    assert_eq!(cluster.pods(), 2);
    assert_eq!(cluster.writes.len(), 4, "created, admitted, started, ready: {:#?}", cluster.writes);
    cluster.job_completes();
    settle(&mut cluster);
    at_rest(&cluster);
    assert_eq!(cluster.writes.len(), 6, "finished, let go: {:#?}", cluster.writes);
}

#[test]
fn a_restart_in_any_order_of_lists_changes_nothing() {
    let mut cluster = cluster(Settings::default());
    settle(&mut cluster);
    let writes = cluster.writes.len();
    for order in 0..120 {
        cluster.restart(&permuted(order));
        settle(&mut cluster);
        assert_eq!(cluster.writes.len(), writes, "{:?}: {:#?}", permuted(order), &cluster.writes[writes..]);
    }
    cluster.edit("Job", "train", |job| {
        job["metadata"]["labels"].as_object_mut().unwrap().remove(QUEUE_NAME);
    });
    for order in 0..120 {
        cluster.restart(&permuted(order));
        settle(&mut cluster);
        assert_eq!(cluster.writes.len(), writes, "{:?}: {:#?}", permuted(order), &cluster.writes[writes..]);
    }
    assert_eq!(cluster.pods(), 2);
}

#[test]
fn a_slice_that_waits_for_its_checks_holds_quota_beside_the_one_that_runs() {
    let mut cluster = cluster_with(&elastic(), Settings::kueue());
    settle(&mut cluster);
    happen(&mut cluster, Happens::Demand(true));
    happen(&mut cluster, Happens::Scale(4));
    settle(&mut cluster);
    elastic_at_rest(&cluster);
    assert_eq!(cluster.all("Workload").filter(|workload| holds(workload)).count(), 2);
    assert_eq!(cluster.pods(), 4, "two of them behind their gate");
    let next = cluster.all("Workload").find(|w| !is(w, "Admitted")).unwrap();
    let name = next["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.edit("Workload", &name, |next| next["status"]["admissionChecks"][0]["state"] = json!("Ready"));
    settle(&mut cluster);
    elastic_at_rest(&cluster);
    let open: Vec<&Value> = cluster.all("Workload").filter(|workload| !is(workload, "Finished")).collect();
    assert_eq!(open.len(), 1);
    assert!(holds(open[0]) && open[0]["spec"]["podSets"][0]["count"] == 4, "{:#}", open[0]);
}
