//! `kueue.x-k8s.io/v1beta1`, which is served beside v1beta2 for manifests of old.
//!
//! Nothing here reads or writes it, so there are no types of it: there is what it says in another way than v1beta2,
//! kind by kind, as changes to that one's schema. A test compares the outcome with Kueue's own definitions.

mod edit;
mod queues;
mod workload;

use serde_json::{Value, json};

use self::edit::Edit;

/// The name of the version.
pub const VERSION: &str = "v1beta1";

/// The kinds that look different in the two versions, or of which one can say what the other cannot. Of the others
/// the API server changes the version and nothing else, which needs nobody.
pub const CONVERTED: &[&str] = &[
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "MultiKueueCluster",
    "MultiKueueConfig",
    "Workload",
];

/// This version of a kind, from how the definition has v1beta2.
pub fn of(kind: &str, mut version: Value) -> Value {
    if let Value::Object(fields) = &mut version {
        fields.insert("name".to_owned(), json!(VERSION));
        fields.insert("storage".to_owned(), json!(false));
        fields.remove("selectableFields");
        // Of this one kind Kueue does not call it so.
        if kind != "MultiKueueConfig" {
            let warning =
                format!("kueue.x-k8s.io/v1beta1 {kind} is deprecated: use v1beta2, which says the same");
            fields.insert("deprecated".to_owned(), json!(true));
            fields.insert("deprecationWarning".to_owned(), json!(warning));
        }
    }
    let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") else { return version };
    let mut edit = Edit::new(schema);
    match kind {
        "AdmissionCheck" => admission_check(&mut edit),
        "ClusterQueue" => {
            queues::cluster_queue(&mut edit);
            columns(&mut version);
        }
        "Cohort" => queues::cohort(&mut edit),
        "LocalQueue" => queues::local_queue(&mut edit),
        "MultiKueueCluster" => multi_kueue_cluster(&mut edit),
        "MultiKueueConfig" => multi_kueue_config(&mut edit),
        "ProvisioningRequestConfig" => {
            edit.drop(
                "spec.podSetUpdates.nodeSelector",
                &["x-kubernetes-list-type", "x-kubernetes-list-map-keys"],
            );
            edit.drop("spec.provisioningClassName", &["minLength"]);
        }
        "Workload" => workload::workload(&mut edit),
        "WorkloadPriorityClass" => edit.drop("description", &["maxLength"]),
        _ => {}
    }
    version
}

/// The column that shows another field.
fn columns(version: &mut Value) {
    let columns = version.pointer_mut("/additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        if column.get("jsonPath").is_some_and(|path| path == ".spec.cohortName") {
            column["jsonPath"] = json!(".spec.cohort");
        }
    }
}

fn admission_check(edit: &mut Edit<'_>) {
    edit.drop("spec.controllerName", &["minLength", "maxLength"]);
    for field in ["apiGroup", "kind", "name"] {
        edit.drop(&format!("spec.parameters.{field}"), &["minLength"]);
    }
    edit.drop("status.conditions", &["maxItems"]);
    edit.add(
        "spec",
        "retryDelayMinutes",
        json!({
            "type": "integer",
            "format": "int64",
            "default": 15,
            "description": "Has no effect: a check's own controller says in requeueAfterSeconds when to try again.",
        }),
    );
}

fn multi_kueue_cluster(edit: &mut Edit<'_>) {
    edit.drop("status.conditions", &["maxItems"]);
    let profile = edit.take("spec.clusterSource", "clusterProfileRef");
    let mut config = edit.take("spec.clusterSource", "kubeConfig");
    edit.take("spec", "clusterSource");
    let mut fields = Edit::new(&mut config);
    fields.drop("location", &["minLength", "maxLength"]);
    fields.set("", "required", json!(["location", "locationType"]));
    edit.add("spec", "kubeConfig", config);
    edit.add("spec", "clusterProfileRef", profile);
    edit.set("spec", "required", json!(["kubeConfig"]));
}

fn multi_kueue_config(edit: &mut Edit<'_>) {
    edit.take("spec", "quotaManagement");
    edit.drop("spec.clusters", &["x-kubernetes-validations"]);
    edit.set("spec.clusters", "x-kubernetes-list-type", json!("set"));
    edit.drop("spec.clusters[]", &["maxLength"]);
}
