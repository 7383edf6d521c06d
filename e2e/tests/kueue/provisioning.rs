//! Checks that the cluster autoscaler answers. The test plays the autoscaler.

use serde_json::{Value, json};

use crate::{
    ground::{Ground, condition, is, text},
    kinds::define,
    objects::{cluster_queue, job, kueue},
};

const CONSUMES: &str = "autoscaling.x-k8s.io/consume-provisioning-request";

/// The check and the queue that demands it, both named like the ground; a failed attempt is tried again after a second.
async fn checked(ground: &Ground) {
    let name = &ground.name;
    let mut queue = cluster_queue(name, name, 2);
    queue["spec"]["admissionChecksStrategy"] = json!({ "admissionChecks": [{ "name": name }] });
    ground.queues(2).await;
    ground.apply(&queue).await;
    let parameters =
        json!({ "apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name });
    let controller = "kueue.x-k8s.io/provisioning-request";
    let check = json!({ "spec": { "controllerName": controller, "parameters": parameters } });
    ground.apply(&kueue("AdmissionCheck", name, check)).await;
}

fn config(ground: &Ground) -> Value {
    let config = json!({ "spec": {
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
        "parameters": { "zone": "a" },
        "retryStrategy": { "backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1 },
    } });
    kueue("ProvisioningRequestConfig", &ground.name, config)
}

/// Has the autoscaler say this of a request.
async fn says(ground: &Ground, request: &str, type_: &str, message: &str) {
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = json!({
        "type": type_, "status": "True", "reason": "Said", "message": message, "lastTransitionTime": time,
    });
    ground.patch_status("ProvisioningRequest", request, json!({ "conditions": [condition] })).await;
}

/// The reason and the message with which a check is not active.
async fn inactive(ground: &Ground, reason: &str) -> String {
    let says = |check: &Value| {
        condition(check, "Active").is_some_and(|c| c["status"] == "False" && c["reason"] == reason)
    };
    let check = ground.sees("AdmissionCheck", &ground.name, "is not active", says).await;
    condition(&check, "Active").unwrap()["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn nodes_are_asked_for_again_after_a_failure_and_the_job_runs_on_them_when_they_are_there() {
    let ground = Ground::empty("provisioned").await;
    define(&ground, "provisioningrequest").await;
    checked(&ground).await;
    let message = inactive(&ground, "BadParametersRef").await;
    assert!(message.contains("\"provisioned\" not found"), "{message}");
    ground.apply(&config(&ground)).await;
    ground.is_active(&ground.name).await;

    ground.create(job("job", 2, 1, None)).await;
    let workload = ground.workload_of("job").await;
    let request = |attempt: u32| format!("{workload}-provisioned-{attempt}");
    let asked = ground.sees("ProvisioningRequest", &request(1), "is there", |_| true).await;
    assert_eq!(asked["spec"]["podSets"][0]["count"], 2);
    assert_eq!(asked["spec"]["parameters"], json!({ "zone": "a" }));
    let template = text(&asked, "/spec/podSets/0/podTemplateRef/name").to_owned();
    let handed =
        |template: &Value| template["metadata"]["ownerReferences"][0]["kind"] == "ProvisioningRequest";
    let template = ground.sees("PodTemplate", &template, "is the request's", handed).await;
    assert_eq!(template["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(ground.get("Job", "job").await.unwrap()["spec"]["suspend"], true);

    says(&ground, &request(1), "Failed", "no room").await;
    ground.gone("ProvisioningRequest", &request(1)).await;
    ground.sees("ProvisioningRequest", &request(2), "is there", |_| true).await;
    let waits = ground.get("Workload", &workload).await.unwrap();
    assert_eq!(waits["status"]["admissionChecks"][0]["retryCount"], 1);
    says(&ground, &request(2), "Provisioned", "two nodes").await;
    ground.runs("job").await;
    for pod in ground.pods("job").await {
        assert_eq!(pod["metadata"]["annotations"][CONSUMES], request(2));
    }

    says(&ground, &request(2), "CapacityRevoked", "the nodes go").await;
    let out = ground
        .workload("job", "was deactivated", |workload| {
            workload["spec"]["active"] == false && !is(workload, "QuotaReserved")
        })
        .await;
    assert_eq!(condition(&out, "Evicted").unwrap()["reason"], "DeactivatedDueToAdmissionCheck");
    ground.gone("ProvisioningRequest", &request(2)).await;
}

#[tokio::test]
async fn a_request_that_the_api_server_will_not_have_is_told_of_and_made_once_it_will() {
    let ground = Ground::empty("not-asked").await;
    define(&ground, "provisioningrequest").await;
    checked(&ground).await;
    let mut long = config(&ground);
    long["spec"]["parameters"]["zone"] = json!("a".repeat(255));
    ground.apply(&long).await;
    ground.is_active(&ground.name).await;
    let mut wide = job("job", 1, 1, Some("1s"));
    wide["metadata"]["annotations"] = json!({ "provreq.kueue.x-k8s.io/more": "b".repeat(256) });
    ground.create(wide).await;
    let refused = |workload: &Value| {
        let message = workload["status"]["admissionChecks"][0]["message"].as_str().unwrap_or_default();
        message.starts_with("Error creating ProvisioningRequest")
    };
    let waits = ground.workload("job", "says why", refused).await;
    let message = text(&waits, "/status/admissionChecks/0/message");
    assert!(message.contains("spec.parameters.more"), "{message}");
    let name = text(&waits, "/metadata/name").to_owned();
    ground.patch("Workload", &name, json!({ "metadata": { "annotations": null } })).await;
    let request = format!("{name}-not-asked-1");
    ground.sees("ProvisioningRequest", &request, "is there", |_| true).await;
    says(&ground, &request, "Provisioned", "one node").await;
    ground.finished("job", "Succeeded").await;
    ground.gone("ProvisioningRequest", &request).await;
}
