//! The life of a Job under a queue.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ground::{Ground, condition, is, text, used};
use crate::objects::{
    A100, GPU, PRODUCT, failing_job, in_queue, job, kueue, local_queue, workload_priority_class,
};

const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";

fn suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

/// Whether a Job's pods go where its flavor sends them.
fn directed(job: &Value) -> bool {
    let template = &job["spec"]["template"];
    let tolerations = template["spec"]["tolerations"].as_array();
    template["spec"]["nodeSelector"][PRODUCT] == A100
        && tolerations.is_some_and(|list| list.iter().any(|toleration| toleration["key"] == GPU))
        && template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
}

/// Whether a Job's template has nothing left of an admission.
fn undirected(job: &Value) -> bool {
    let template = &job["spec"]["template"];
    template["spec"]["nodeSelector"].is_null()
        && template["spec"]["tolerations"].is_null()
        && template["metadata"]["labels"]["kueue.x-k8s.io/podset"].is_null()
        && template["metadata"]["annotations"]["kueue.x-k8s.io/workload"].is_null()
}

#[tokio::test]
async fn a_job_waits_with_a_reason_runs_whole_on_its_flavors_nodes_and_gives_its_quota_back() {
    let ground = Ground::new("life", 4).await;
    ground.create(job("holder", 1, 4, None)).await;
    ground.runs("holder").await;

    let second = ground.create(job("second", 2, 2, Some("500ms"))).await;
    assert!(suspended(&second), "it is suspended before anybody can make pods for it");
    let message = ground.waits("second", "WaitingForQuota").await;
    let wanted = "insufficient unused quota for nvidia.com/gpu in flavor life, 4 more needed";
    assert!(message.contains(wanted), "{message}");
    ground.counts("life", 1, 1, 4).await;
    let workload = ground.get("Workload", &ground.workload_of("second").await).await.unwrap();
    let owner = &workload["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Job"), &json!("second")));
    assert_eq!((&owner["uid"], &owner["controller"]), (&second["metadata"]["uid"], &json!(true)));
    let uid = text(&workload, "/metadata/labels/kueue.x-k8s.io~1job-uid");
    assert_eq!(uid, text(&second, "/metadata/uid"));
    assert_eq!(workload["metadata"]["finalizers"], json!(["kueue.x-k8s.io/resource-in-use"]));
    assert_eq!((&workload["spec"]["priority"], &workload["spec"]["queueName"]), (&json!(0), &json!("main")));
    assert_eq!(workload["spec"]["podSets"][0]["count"], 2);
    assert!(ground.pods("second").await.is_empty(), "no pod before there is quota for all");

    ground.delete("Job", "holder").await;
    let workload = ground.admitted("second").await;
    assert!(is(&workload, "QuotaReserved"));
    let given = &workload["status"]["admission"];
    assert_eq!(given["clusterQueue"], "life");
    let assignment = &given["podSetAssignments"][0];
    assert_eq!(
        (&assignment["flavors"][GPU], &assignment["resourceUsage"][GPU]),
        (&json!("life"), &json!("4"))
    );
    assert_eq!((&assignment["name"], &assignment["count"]), (&json!("main"), &json!(2)));
    let started = ground.sees("Job", "second", "is started", |job| !suspended(job)).await;
    assert!(directed(&started), "{started:#}");
    let ended = ground.sees("Job", "second", "is complete", |job| is(job, "Complete")).await;
    assert_eq!(ended["status"]["succeeded"], 2);
    for pod in ground.pods("second").await {
        assert!(text(&pod, "/spec/nodeName").starts_with("a100-"));
    }
    let finished = ground.finished("second", "Succeeded").await;
    assert!(!text(condition(&finished, "Finished").unwrap(), "/message").is_empty());
    ground.counts("life", 0, 0, 0).await;
    ground.told("Job", "second", "CreatedWorkload", "Created Workload: life/job-second-").await;
    ground.told("Job", "second", "Started", "Admitted by clusterQueue life").await;
    ground.delete("Job", "second").await;
    ground.gone("Workload", text(&finished, "/metadata/name")).await;
}

#[tokio::test]
async fn a_job_that_fails_finishes_its_workload_as_failed_and_frees_its_quota() {
    let ground = Ground::new("failure", 2).await;
    ground.create(failing_job("bad", 2)).await;
    ground.create(job("next", 1, 2, Some("100ms"))).await;
    ground.finished("bad", "Failed").await;
    ground.finished("next", "Succeeded").await;
    ground.counts("failure", 0, 0, 0).await;
}

#[tokio::test]
async fn the_jobs_of_a_cron_job_are_queued() {
    let ground = Ground::new("cron", 1).await;
    ground.create(job("holder", 1, 1, None)).await;
    ground.admitted("holder").await;
    let template = job("unused", 1, 1, Some("100ms"));
    ground
        .create(json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 3 * * *", "jobTemplate": {
                "metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"],
            }},
        }))
        .await;
    ground.kubectl(&["create", "job", "tonight", "--from=cronjob/nightly"]).await;
    ground.waits("tonight", "WaitingForQuota").await;
    ground.delete("Job", "holder").await;
    ground.finished("tonight", "Succeeded").await;
}

#[tokio::test]
async fn where_there_is_a_local_queue_named_default_a_job_without_a_queue_goes_there() {
    let ground = Ground::new("defaulted", 1).await;
    ground.apply(&local_queue("defaulted", "default", "defaulted")).await;
    ground
        .until("the API server's notice of the LocalQueue", async || {
            let mut unnamed = job("unnamed", 1, 1, Some("100ms"));
            unnamed["metadata"]["labels"] = json!({});
            let made = ground.create(unnamed).await;
            let defaulted = made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default";
            if !defaulted {
                ground.delete("Job", "unnamed").await;
                ground.gone("Job", "unnamed").await;
            }
            defaulted
        })
        .await;
    let workload = ground.finished("unnamed", "Succeeded").await;
    assert_eq!(workload["spec"]["queueName"], "default");
}

#[tokio::test]
async fn priority_classes_of_both_kinds_order_the_admissions() {
    let ground = Ground::new("priorities", 1).await;
    ground.apply(&workload_priority_class("priorities-low", 10)).await;
    ground.apply(&workload_priority_class("priorities-mid", 100)).await;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "priorities-high"},
        "value": 1000,
    });
    ground.apply(&class).await;
    ground.create(job("holder", 1, 1, None)).await;
    ground.admitted("holder").await;
    for (name, class) in [("low", "priorities-low"), ("mid", "priorities-mid")] {
        let mut job = job(name, 1, 1, None);
        job["metadata"]["labels"][PRIORITY_CLASS] = json!(class);
        ground.create(job).await;
    }
    let mut high = job("high", 1, 1, None);
    high["spec"]["template"]["spec"]["priorityClassName"] = json!("priorities-high");
    ground.create(high).await;
    for (name, kind, group, value) in [
        ("low", "WorkloadPriorityClass", "kueue.x-k8s.io", 10),
        ("mid", "WorkloadPriorityClass", "kueue.x-k8s.io", 100),
        ("high", "PriorityClass", "scheduling.k8s.io", 1000),
    ] {
        ground.waits(name, "WaitingForQuota").await;
        let workload = ground.get("Workload", &ground.workload_of(name).await).await.unwrap();
        let wanted = json!({"kind": kind, "group": group, "name": format!("priorities-{name}")});
        assert_eq!(
            (&workload["spec"]["priority"], &workload["spec"]["priorityClassRef"]),
            (&json!(value), &wanted)
        );
    }
    let mut before = "holder";
    for (next, left) in [("high", 2), ("mid", 1), ("low", 0)] {
        ground.delete("Job", before).await;
        ground.admitted(next).await;
        ground.counts("priorities", left, 1, 1).await;
        before = next;
    }
}

#[tokio::test]
async fn a_priority_class_that_is_missing_is_told_and_waited_for() {
    let ground = Ground::new("no-class", 2).await;
    let mut by_label = job("by-label", 1, 1, Some("100ms"));
    by_label["metadata"]["labels"][PRIORITY_CLASS] = json!("late-workload-class");
    ground.create(by_label).await;
    let mut by_pod = job("by-pod", 1, 1, Some("100ms"));
    by_pod["spec"]["template"]["spec"]["priorityClassName"] = json!("late-pod-class");
    ground.create(by_pod).await;
    ground
        .told(
            "Job",
            "by-label",
            "ErrWorkloadCompose",
            "WorkloadPriorityClass late-workload-class doesn't exist",
        )
        .await;
    ground.told("Job", "by-pod", "ErrWorkloadCompose", "PriorityClass late-pod-class doesn't exist").await;
    let workloads = ground.api("Workload").list(&kube::api::ListParams::default()).await.unwrap();
    assert!(workloads.items.is_empty(), "{workloads:?}");

    ground.apply(&workload_priority_class("late-workload-class", 7)).await;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "late-pod-class"},
        "value": 8,
    });
    ground.apply(&class).await;
    assert_eq!(ground.finished("by-label", "Succeeded").await["spec"]["priority"], 7);
    assert_eq!(ground.finished("by-pod", "Succeeded").await["spec"]["priority"], 8);
}

#[tokio::test]
async fn deleting_a_job_frees_its_place_while_it_waits_and_its_quota_while_it_runs() {
    let ground = Ground::new("deletion", 2).await;
    ground.create(job("running", 1, 2, None)).await;
    ground.runs("running").await;
    ground.create(job("waiting", 1, 2, None)).await;
    ground.waits("waiting", "WaitingForQuota").await;
    ground.counts("deletion", 1, 1, 2).await;
    let workload = ground.workload_of("waiting").await;
    ground.delete("Job", "waiting").await;
    ground.gone("Workload", &workload).await;
    ground.counts("deletion", 0, 1, 2).await;

    ground.create(job("next", 1, 2, None)).await;
    ground.waits("next", "WaitingForQuota").await;
    ground.delete("Job", "running").await;
    ground.runs("next").await;
    ground.counts("deletion", 0, 1, 2).await;
}

#[tokio::test]
async fn a_job_deleted_without_its_dependents_finishes_its_workload_and_frees_its_quota() {
    let ground = Ground::new("orphan", 2).await;
    // The garbage collector looks for new kinds every half minute. Of a kind that it does not know it leaves no orphans:
    // it deletes them later.
    ground.create(job("first", 1, 2, None)).await;
    ground.admitted("first").await;
    let known = ground.workload_of("first").await;
    ground.delete("Job", "first").await;
    ground.gone_within(Duration::from_secs(150), "Workload", &known).await;

    ground.create(job("left", 1, 2, None)).await;
    ground.admitted("left").await;
    ground.create(job("next", 1, 2, None)).await;
    ground.waits("next", "WaitingForQuota").await;
    let workload = ground.workload_of("left").await;
    ground.kubectl(&["delete", "job", "left", "--cascade=orphan"]).await;
    let finished = |workload: &Value| {
        condition(workload, "Finished")
            .is_some_and(|c| c["status"] == "True" && c["reason"] == "OwnerNotFound")
    };
    ground.sees("Workload", &workload, "is finished", finished).await;
    ground.admitted("next").await;
    ground.delete("Workload", &workload).await;
    ground.gone("Workload", &workload).await;
}

#[tokio::test]
async fn a_workload_deleted_by_hand_stops_its_job_which_gets_another_and_runs_again() {
    let ground = Ground::new("by-hand", 2).await;
    ground.create(job("job", 2, 1, None)).await;
    ground.runs("job").await;
    let before = ground.admitted("job").await;
    let pods = ground.pods("job").await;
    // So that what comes after the deletion can be seen: the quota is gone, and the job waits.
    ground.patch("ClusterQueue", "by-hand", json!({"spec": {"stopPolicy": "Hold"}})).await;
    ground.is_inactive("by-hand", "Stopped").await;

    ground.delete("Workload", text(&before, "/metadata/name")).await;
    let stopped =
        ground.sees("Job", "job", "is stopped and restored", |j| suspended(j) && undirected(j)).await;
    assert!(stopped["status"]["active"].as_u64().unwrap_or_default() == 0, "{stopped:#}");
    for pod in &pods {
        ground.gone("Pod", text(pod, "/metadata/name")).await;
    }
    let uid = text(&before, "/metadata/uid").to_owned();
    let after = ground.workload("job", "is another", |workload| text(workload, "/metadata/uid") != uid).await;
    assert!(!is(&after, "QuotaReserved"));
    ground.counts("by-hand", 1, 0, 0).await;

    ground.patch("ClusterQueue", "by-hand", json!({"spec": {"stopPolicy": "None"}})).await;
    let again = ground.runs("job").await;
    assert!(directed(&again), "{again:#}");
    for count in ["succeeded", "failed"] {
        assert_eq!(again["status"][count].as_u64().unwrap_or_default(), 0, "{count}: {again:#}");
    }
    ground.counts("by-hand", 0, 1, 2).await;
}

#[tokio::test]
async fn an_admitted_job_suspended_by_hand_runs_again_and_a_waiting_one_started_by_hand_is_suspended() {
    let ground = Ground::new("suspend", 1).await;
    ground.create(job("admitted", 1, 1, None)).await;
    ground.runs("admitted").await;
    ground.create(job("waiting", 1, 1, None)).await;
    ground.waits("waiting", "WaitingForQuota").await;

    let by_hand = ground.patch("Job", "admitted", json!({"spec": {"suspend": true}})).await;
    let version = text(&by_hand, "/metadata/resourceVersion").to_owned();
    let newer = |job: &Value| text(job, "/metadata/resourceVersion") != version;
    ground.sees("Job", "admitted", "is un-suspended", |job| newer(job) && !suspended(job)).await;
    ground.runs("admitted").await;

    let by_hand = ground.patch("Job", "waiting", json!({"spec": {"suspend": false}})).await;
    let version = text(&by_hand, "/metadata/resourceVersion").to_owned();
    let newer = |job: &Value| text(job, "/metadata/resourceVersion") != version;
    ground.sees("Job", "waiting", "is suspended again", |job| newer(job) && suspended(job)).await;
    ground.until("the end of its pods", async || ground.pods("waiting").await.is_empty()).await;
    ground.counts("suspend", 1, 1, 1).await;
    ground.delete("Job", "admitted").await;
    ground.runs("waiting").await;
}

#[tokio::test]
async fn a_waiting_job_whose_queue_name_changes_moves_to_that_queue() {
    let ground = Ground::new("moves", 1).await;
    ground.apply(&crate::objects::cluster_queue("moves-other", "moves", 1)).await;
    ground.apply(&local_queue("moves", "other", "moves-other")).await;
    ground.is_active("moves-other").await;
    ground.create(job("holder", 1, 1, None)).await;
    ground.admitted("holder").await;
    ground.create(job("mover", 1, 1, None)).await;
    ground.waits("mover", "WaitingForQuota").await;
    ground.counts("moves", 1, 1, 1).await;
    let label = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}});
    ground.patch("Job", "mover", label).await;
    let workload = ground.admitted("mover").await;
    assert_eq!(workload["spec"]["queueName"], "other");
    assert_eq!(workload["status"]["admission"]["clusterQueue"], "moves-other");
    ground.counts("moves", 0, 1, 1).await;
    ground.counts("moves-other", 0, 1, 1).await;
}

#[tokio::test]
async fn a_running_job_that_becomes_larger_is_stopped_and_queued_with_its_new_size() {
    let ground = Ground::new("larger", 3).await;
    let mut elastic = job("job", 2, 1, None);
    elastic["spec"].as_object_mut().unwrap().remove("completions");
    ground.create(elastic).await;
    ground.runs("job").await;
    ground.patch("Job", "job", json!({"spec": {"parallelism": 4}})).await;
    let message = ground.waits("job", "ExceedsMaxQuota").await;
    assert!(message.contains("nvidia.com/gpu"), "{message}");
    ground.sees("Job", "job", "is stopped and restored", |job| suspended(job) && undirected(job)).await;
    ground.until("the end of its pods", async || ground.pods("job").await.is_empty()).await;
    ground.counts("larger", 1, 0, 0).await;

    ground.patch("Job", "job", json!({"spec": {"parallelism": 3}})).await;
    let workload = ground.admitted("job").await;
    assert_eq!(workload["spec"]["podSets"][0]["count"], 3);
    let job = ground.runs("job").await;
    assert_eq!(job["status"]["active"], 3);
    ground.counts("larger", 0, 1, 3).await;
}

#[tokio::test]
async fn a_workload_that_is_deactivated_stops_and_runs_again_when_it_is_activated() {
    let ground = Ground::new("active", 2).await;
    let mut gang = job("job", 2, 1, None);
    gang["spec"]["template"]["metadata"]["labels"] = json!({"team": "x"});
    gang["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "own", "operator": "Exists"}]);
    ground.create(gang).await;
    let started = ground.runs("job").await;
    assert_eq!(started["spec"]["template"]["spec"]["tolerations"].as_array().unwrap().len(), 2);
    let workload = ground.workload_of("job").await;

    ground.patch("Workload", &workload, json!({"spec": {"active": false}})).await;
    let stopped = ground
        .workload("job", "is evicted and without quota", |workload| {
            condition(workload, "Evicted")
                .is_some_and(|c| c["status"] == "True" && c["reason"] == "Deactivated")
                && !is(workload, "QuotaReserved")
                && !is(workload, "Admitted")
                && workload["status"]["admission"].is_null()
        })
        .await;
    assert!(!is(&stopped, "Finished"));
    let restored = |job: &Value| {
        let template = &job["spec"]["template"];
        suspended(job)
            && template["spec"]["nodeSelector"].is_null()
            && template["spec"]["tolerations"] == json!([{"key": "own", "operator": "Exists"}])
            && template["metadata"]["labels"]["kueue.x-k8s.io/podset"].is_null()
            && template["metadata"]["labels"]["team"] == "x"
    };
    ground.sees("Job", "job", "is stopped and restored", restored).await;
    ground.until("the end of its pods", async || ground.pods("job").await.is_empty()).await;
    ground.counts("active", 0, 0, 0).await;
    // Another one takes the quota and gives it back: the first stays where it is.
    ground.create(job("other", 1, 2, Some("100ms"))).await;
    ground.finished("other", "Succeeded").await;
    assert!(suspended(&ground.get("Job", "job").await.unwrap()));

    ground.patch("Workload", &workload, json!({"spec": {"active": true}})).await;
    let again = ground.admitted("job").await;
    assert!(!is(&again, "Evicted"), "{again:#}");
    let again = ground.runs("job").await;
    assert!(directed(&again), "{again:#}");
    assert_eq!(again["status"]["failed"].as_u64().unwrap_or_default(), 0);
}

#[tokio::test]
async fn a_job_without_pods_is_admitted_holds_nothing_and_can_grow() {
    let ground = Ground::new("zero", 2).await;
    let mut none = job("none", 0, 1, None);
    none["spec"].as_object_mut().unwrap().remove("completions");
    ground.create(none).await;
    let workload = ground.admitted("none").await;
    assert_eq!(workload["spec"]["podSets"][0]["count"], 0);
    ground.sees("Job", "none", "is started", |job| !suspended(job)).await;
    ground.counts("zero", 0, 1, 0).await;
    ground.patch("Job", "none", json!({"spec": {"parallelism": 1}})).await;
    let grown = |workload: &Value| workload["spec"]["podSets"][0]["count"] == 1 && is(workload, "Admitted");
    ground.workload("none", "is admitted with its pod", grown).await;
    ground.runs("none").await;
    ground.counts("zero", 0, 1, 1).await;
}

#[tokio::test]
async fn a_job_with_cpu_memory_and_init_containers_is_charged_what_its_pods_request() {
    let ground = Ground::empty("shapes").await;
    ground.apply(&crate::objects::flavor("shapes")).await;
    let quota = |name: &str, amount: &str| json!({"name": name, "nominalQuota": amount});
    ground
        .apply(&kueue("ClusterQueue", "shapes", json!({"spec": {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu", "memory", GPU], "flavors": [
                {"name": "shapes", "resources": [quota("cpu", "8"), quota("memory", "8Gi"), quota(GPU, "4")]},
            ]}],
        }})))
        .await;
    ground.apply(&local_queue("shapes", "main", "shapes")).await;
    let mut shaped = job("shaped", 2, 1, None);
    let pod = &mut shaped["spec"]["template"]["spec"];
    pod["containers"][0]["resources"] =
        json!({"requests": {"cpu": "500m", "memory": "1Gi", GPU: 1}, "limits": {GPU: 1}});
    pod["initContainers"] =
        json!([{"name": "fetch", "image": "fetch", "resources": {"requests": {"cpu": "1500m"}}}]);
    ground.create(shaped).await;
    ground.runs("shaped").await;
    let queue = ground
        .sees("ClusterQueue", "shapes", "counts the job", |queue| queue["status"]["admittedWorkloads"] == 1)
        .await;
    for (resource, amount) in [("cpu", "3"), ("memory", "2Gi"), (GPU, "2")] {
        assert_eq!(used(&queue, "flavorsUsage", 0, resource), amount);
    }
    ground.create(in_queue(job("unknown", 1, 1, None), "main")).await;
    ground.admitted("unknown").await;
}
