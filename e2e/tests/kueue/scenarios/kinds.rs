//! A job of each kind that is queued as a whole.

use serde_json::{Value, json};

use super::{Scenario, counts};
use crate::ground::text;
use crate::objects::{A100, PRODUCT};
use crate::{doubles, every_kind, shares};

/// Where jobs of a kind say that they are suspended.
fn suspend(kind: &str) -> &'static str {
    if kind.starts_with("Ray") || ["AppWrapper", "JobSet", "TrainJob"].contains(&kind) {
        "/spec/suspend"
    } else {
        "/spec/runPolicy/suspend"
    }
}

/// Whether there is a node selector of the flavor's somewhere in an object.
fn is_directed(object: &Value) -> bool {
    match object {
        Value::Object(fields) => {
            fields.get("nodeSelector").is_some_and(|selector| selector[PRODUCT] == A100)
                || fields.values().any(is_directed)
        }
        Value::Array(items) => items.iter().any(is_directed),
        _ => false,
    }
}

#[tokio::test]
async fn a_job_of_every_kind_is_held_back_admitted_whole_and_started_where_its_flavor_is() {
    let scenario = Scenario::on(&shares::site().await, "kinds").await;
    scenario.queues().await.unwrap();
    let ground = scenario.ground();
    let submitted: Vec<&Value> =
        scenario.objects.iter().filter(|object| super::is_submitted(object)).collect();
    for object in &submitted {
        every_kind::define(ground, text(object, "/apiVersion"), text(object, "/kind")).await;
    }
    let (set, _) = scenario.submitted("jobset");
    let _trainer = doubles::train_jobs(ground, set["spec"].clone());
    let name = |object| text(object, "/metadata/name");
    scenario.submit_all(&submitted.iter().map(|object| name(object)).collect::<Vec<_>>()).await;
    for object in submitted {
        let (kind, name) = (text(object, "/kind"), name(object));
        let workload = scenario.admitted(name).await;
        assert_eq!(counts(&workload), pod_sets(kind), "{kind}");
        assert_eq!(workload["spec"]["priority"], 100, "{kind}");
        assert_eq!(workload["spec"]["maximumExecutionTimeSeconds"], 3600, "{kind}");
        let started = |job: &Value| job.pointer(suspend(kind)) == Some(&json!(false)) && is_directed(job);
        ground.sees(kind, name, "is started", started).await;
    }
    ground.counts("kinds", 0, 11, 46).await;
}

/// What the Workload of such a job is made of.
fn pod_sets(kind: &str) -> Vec<(&'static str, u64)> {
    match kind {
        "JobSet" | "TrainJob" => vec![("driver", 1), ("workers", 4)],
        "PyTorchJob" | "XGBoostJob" | "PaddleJob" => vec![("master", 1), ("worker", 3)],
        "TFJob" => vec![("chief", 1), ("worker", 3)],
        "JAXJob" => vec![("worker", 4)],
        "MPIJob" => vec![("launcher", 1), ("worker", 3)],
        "RayCluster" | "RayJob" => vec![("head", 1), ("workers", 3)],
        "AppWrapper" => vec![("appwrapper-0", 1), ("appwrapper-1", 3)],
        kind => panic!("nobody knows of {kind}"),
    }
}
