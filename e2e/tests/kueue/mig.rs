//! Jobs that need MIG instances, on a real API server. The test plays the agent and the device plugin.

use serde_json::{Value, json};

use crate::{
    ground::{Ground, QUEUE, is, text},
    objects::{GPU, cluster_queue, flavor, job, local_queue},
};

const PROFILE: &str = "nvidia.com/mig-3g.40gb";
const NODE: &str = "a100-0";
const UUID: &str = "GPU-00000000-0000-0000-0000-000000000001";

/// The GPU with these instances; one that is in use by somebody else is always there.
fn gpu(instances: &[Value]) -> Value {
    let profile = |name: &str, size: i32, compute: i32, starts: &[i32]| json!({ "name": name, "size": size, "compute": compute, "memoryMiB": 1, "max": starts.len(), "starts": starts });
    let other = json!({
        "profile": "1g.10gb", "start": 0, "size": 1, "gpuInstanceId": 7, "busy": true, "uuid": "MIG-other", "origin": "Agent",
    });
    let instances: Vec<&Value> = [&other].into_iter().chain(instances).collect();
    json!({
        "uuid": UUID, "index": 0, "model": "NVIDIA H100 for a test", "memoryMiB": 81559, "health": "Healthy", "busy": true,
        "mig": {
            "enabled": true,
            "profiles": [profile("1g.10gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6]), profile("3g.40gb", 4, 3, &[0, 4]), profile("7g.80gb", 8, 7, &[0])],
            "instances": instances,
        },
    })
}

/// The agent reports this GPU.
async fn reports(ground: &Ground, gpu: Value) {
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = json!({ "type": "Ready", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": time });
    ground.patch_status("GPUNode", NODE, json!({ "gpus": [gpu], "conditions": [ready] })).await;
}

/// The device plugin offers so many.
async fn offers(ground: &Ground, count: u32) {
    let offered = json!({ PROFILE: count.to_string() });
    ground.patch_status("Node", NODE, json!({ "capacity": offered, "allocatable": offered })).await;
}

#[tokio::test]
async fn a_job_runs_on_the_instance_that_is_made_for_it_and_the_gpu_is_given_back() {
    let ground = Ground::empty("mig").await;
    let mut queue = cluster_queue("mig", "mig", 1);
    queue["spec"]["resourceGroups"][0]["coveredResources"] = json!([PROFILE]);
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["name"] = json!(PROFILE);
    for object in [flavor("mig"), queue, local_queue("mig", QUEUE, "mig")] {
        ground.apply(&object).await;
    }
    ground.is_active("mig").await;
    let ours = |kind: &str, name: &str, spec: Value| json!({ "apiVersion": "scheduling.gen.io/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec });
    let policy =
        json!({ "mode": "Dynamic", "models": ["NVIDIA H100 for a test"], "defaultConfig": "all-enabled" });
    ground.apply(&ours("MIGPolicy", "mig", policy)).await;
    ground.apply(&ours("GPUNode", NODE, json!({}))).await;
    reports(&ground, gpu(&[])).await;

    let mut job = job("job", 1, 0, None);
    let limits = &mut job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
    limits.as_object_mut().unwrap().remove(GPU);
    limits[PROFILE] = json!(1);
    ground.create(job).await;
    let reserved = |node: &Value| node["spec"]["gpus"][0]["uuid"] == UUID;
    let node = ground.sees("GPUNode", NODE, "is to be divided", reserved).await;
    let workload = ground.workload_of("job").await;
    let instances = node["spec"]["gpus"][0]["instances"].as_array().unwrap();
    let words: Vec<_> =
        instances.iter().map(|i| (text(i, "/profile"), i["start"].as_i64().unwrap())).collect();
    assert_eq!(words, [("1g.10gb", 0), ("3g.40gb", 4)], "what is in use stays");
    assert_eq!(instances[1]["assignment"]["workload"]["name"], workload.as_str());
    let waits = ground.get("Workload", &workload).await.unwrap();
    assert!(is(&waits, "QuotaReserved") && !is(&waits, "Admitted"), "{waits:#}");
    assert_eq!(ground.get("Job", "job").await.unwrap()["spec"]["suspend"], true);

    let made = json!({
        "profile": "3g.40gb", "start": 4, "size": 4, "gpuInstanceId": 1, "uuid": "MIG-made", "origin": "Agent",
    });
    reports(&ground, gpu(&[made])).await;
    let made_is_not_offered = ground.workload("job", "waits for the plugin", |workload| {
        text(workload, "/status/admissionChecks/0/message").contains("is being made on node a100-0")
    });
    assert!(!is(&made_is_not_offered.await, "Admitted"));
    offers(&ground, 1).await;
    ground.runs("job").await;
    let pods = ground.pods("job").await;
    assert_eq!(pods[0]["spec"]["nodeSelector"]["kubernetes.io/hostname"], NODE);
    assert_eq!(text(&pods[0], "/spec/nodeName"), NODE);

    ground.delete("Job", "job").await;
    let free = |node: &Value| node["spec"]["gpus"].as_array().is_none_or(Vec::is_empty);
    ground.sees("GPUNode", NODE, "has its default again", free).await;
    ground.delete("GPUNode", NODE).await;
    ground.delete("MIGPolicy", "mig").await;
}
