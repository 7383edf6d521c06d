//! What v1beta1 says of Workloads.

use serde_json::json;

use super::edit::Edit;
use crate::{kueue::v1beta2::has_condition, schema::names};

/// Where v1beta2 says how long strings and lists may be and v1beta1 does not.
const UNLIMITED: &[&str] = &[
    "spec.podSets[].topologyRequest.podIndexLabel",
    "spec.podSets[].topologyRequest.podSetGroupName",
    "spec.podSets[].topologyRequest.podSetSliceRequiredTopology",
    "spec.podSets[].topologyRequest.preferred",
    "spec.podSets[].topologyRequest.required",
    "spec.podSets[].topologyRequest.subGroupIndexLabel",
    "status.admissionChecks[].name",
    "status.clusterName",
    "status.conditions",
    "status.nominatedClusterNames[]",
    "status.schedulingStats.evictions",
    "status.unhealthyNodes",
    "status.unhealthyNodes[].name",
];

const SOURCE: &str = "'kueue.x-k8s.io/workloadpriorityclass'";

/// A Workload: its priority class under other names, its topology assignment written out domain by domain.
pub(super) fn workload(edit: &mut Edit<'_>) {
    for path in UNLIMITED {
        let limits: &[&str] = if *path == "status.admissionChecks[].name" {
            &["minLength"]
        } else {
            &["maxLength", "maxItems"]
        };
        edit.drop(path, limits);
    }
    priority_class(edit);
    edit.set("spec", "required", json!(["podSets"]));
    edit.set("spec.podSets[]", "required", json!(["count", "template"]));
    edit.take("spec.podSets[].topologyRequest", "podsetSliceRequiredTopologyConstraints");
    edit.take("spec", "preemptionGates");
    edit.take("status", "preemptionGates");
    edit.rename("status", "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds");
    edit.drop("status.unhealthyNodes", &["x-kubernetes-list-type", "x-kubernetes-list-map-keys"]);
    edit.drop("status.admissionChecks[].podSetUpdates[].tolerations", &["x-kubernetes-list-type"]);
    edit.set("status.admission", "required", json!(["clusterQueue", "podSetAssignments"]));
    let assignment = "status.admission.podSetAssignments[]";
    edit.set(assignment, "required", json!(["name"]));
    edit.drop(&format!("{assignment}.delayedTopologyRequest"), &["enum", "maxLength"]);
    topology_assignment(edit, &format!("{assignment}.topologyAssignment"));
}

fn priority_class(edit: &mut Edit<'_>) {
    edit.take("spec", "priorityClassRef");
    edit.add(
        "spec",
        "priorityClassName",
        json!({
            "type": "string",
            "maxLength": 253,
            "pattern": names::SUBDOMAIN,
            "description": "The class that the priority came from.",
        }),
    );
    edit.add(
        "spec",
        "priorityClassSource",
        json!({
            "type": "string",
            "default": "",
            "enum": ["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""],
            "description": "What kind of class that is.",
        }),
    );
    edit.rules(
        "spec",
        &[("has(self.priorityClassName) ? has(self.priority) : true", "a priority class needs a priority")],
    );
    edit.drop_rules("", "priorityClassRef");
    let held = has_condition!("oldSelf", "QuotaReserved");
    let sources = "has(oldSelf.spec.priorityClassSource) && has(self.spec.priorityClassSource)";
    let names = "has(oldSelf.spec.priorityClassName) && has(self.spec.priorityClassName)";
    edit.add_rule(
        "",
        &format!(
            "!({names} && {sources}) || oldSelf.spec.priorityClassName == self.spec.priorityClassName \
             || self.spec.priorityClassSource == {SOURCE} || !({held})"
        ),
        "the name of a pod PriorityClass cannot be changed while the workload holds quota",
    );
    edit.add_rule(
        "",
        &format!(
            "!({sources}) || oldSelf.spec.priorityClassSource == self.spec.priorityClassSource || !({held})"
        ),
        "priorityClassSource cannot be changed while the workload holds quota",
    );
}

fn topology_assignment(edit: &mut Edit<'_>, path: &str) {
    edit.take(path, "slices");
    edit.drop(path, &["x-kubernetes-validations"]);
    edit.drop(&format!("{path}.levels[]"), &["maxLength"]);
    edit.add(
        path,
        "domains",
        json!({
            "type": "array",
            "description": "The domains, each with how many pods run in it.",
            "items": {
                "type": "object",
                "required": ["count", "values"],
                "properties": {
                    "count": {
                        "type": "integer", "format": "int32", "minimum": 1, "description": "How many pods.",
                    },
                    "values": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 16,
                        "x-kubernetes-list-type": "atomic",
                        "description": "The values of the node labels, in the order of the levels.",
                        "items": { "type": "string" },
                    },
                },
            },
        }),
    );
    edit.set(path, "required", json!(["domains", "levels"]));
}
