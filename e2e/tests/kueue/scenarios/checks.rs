//! What somebody else agrees to before a job starts: controllers of one's own, and the cluster autoscaler.

use serde_json::{Value, json};

use super::{Scenario, checks_work, flavor, said};
use crate::ground::{is, shared, text};
use crate::kinds::define;

/// Whether a Workload holds quota and waits for these checks.
fn waits_for(checks: &[&str]) -> impl Fn(&Value) -> bool {
    move |workload| {
        let states = workload["status"]["admissionChecks"].as_array();
        let mut names: Vec<&str> = states.into_iter().flatten().map(|state| text(state, "/name")).collect();
        names.sort_unstable();
        is(workload, "QuotaReserved") && !is(workload, "Admitted") && names == checks
    }
}

#[tokio::test]
async fn a_check_is_for_every_flavor_or_for_those_that_are_named() {
    let scenario = Scenario::set_up("checks").await;
    let ground = scenario.ground();
    let message = ground.is_inactive("checks", "AdmissionCheckInactive").await;
    assert!(message.contains("checks-budget") && message.contains("checks-safety"), "{message}");
    checks_work(ground, &["checks-budget", "checks-safety"]).await;
    ground.is_active("checks").await;
    for (name, given, checks) in [
        ("modest", "checks-cheap", &["checks-safety"][..]),
        ("dear", "checks-expensive", &["checks-budget", "checks-safety"]),
    ] {
        scenario.submit(name).await;
        let workload = scenario.sees(name, "waits for its checks", waits_for(checks)).await;
        assert_eq!(flavor(&workload), given);
        let ready = |check: &&str| said(json!({ "name": check, "state": "Ready" }));
        let ready: Vec<Value> = checks.iter().map(ready).collect();
        ground
            .patch_status("Workload", text(&workload, "/metadata/name"), json!({ "admissionChecks": ready }))
            .await;
        scenario.admitted(name).await;
    }
}

#[tokio::test]
async fn the_autoscaler_is_asked_for_nodes_as_the_configuration_says() {
    let scenario = Scenario::on(&shared().await, "provisioning").await;
    let ground = scenario.ground();
    define(ground, "provisioningrequest").await;
    scenario.queues().await.unwrap();
    for check in ["provisioning-exact", "provisioning-alike"] {
        ground.is_active(check).await;
    }
    scenario.submit("train").await;
    let workload = ground.workload_of("train").await;
    let first = format!("{workload}-provisioning-exact-1");
    let asked = ground.sees("ProvisioningRequest", &first, "is there", |_| true).await;
    assert_eq!(asked["spec"]["provisioningClassName"], "check-capacity.autoscaling.x-k8s.io");
    assert_eq!(asked["spec"]["parameters"], json!({ "zone": "a", "maxRunDurationSeconds": "600" }));
    let answer = async |request: &str, type_: &str| {
        let answer = said(json!({ "type": type_, "status": "True", "reason": "Said" }));
        let details = json!({ "NodePool": "a100" });
        let status = json!({ "conditions": [answer], "provisioningClassDetails": details });
        ground.patch_status("ProvisioningRequest", request, status).await;
    };
    answer(&first, "Failed").await;
    let second = format!("{workload}-provisioning-exact-2");
    ground.sees("ProvisioningRequest", &second, "is there", |_| true).await;
    answer(&second, "Provisioned").await;
    let job = ground.runs("train").await;
    assert_eq!(job["spec"]["template"]["spec"]["nodeSelector"]["whalezen.dev/pool"], "a100");

    for (policy, counts) in [("exact", &[1, 2][..]), ("alike", &[3])] {
        let name = format!("two-roles-{policy}");
        scenario.submit(&name).await;
        let request = format!("{name}-provisioning-{policy}-1");
        let asked = ground.sees("ProvisioningRequest", &request, "is there", |_| true).await;
        let sets = asked["spec"]["podSets"].as_array().unwrap().iter();
        let asked: Vec<u64> = sets.map(|set| set["count"].as_u64().unwrap()).collect();
        assert_eq!(asked, counts, "nothing is asked for the driver, and those alike go together");
        answer(&request, "Provisioned").await;
        scenario.admitted(&name).await;
    }
}
