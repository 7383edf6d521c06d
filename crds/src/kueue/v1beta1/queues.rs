//! What v1beta1 says of queues and cohorts.

use serde_json::{Value, json};

use super::edit::Edit;
use crate::schema::names;

/// A ClusterQueue: its cohort and its checks under other names, and words of old for fungibility.
pub(super) fn cluster_queue(edit: &mut Edit<'_>) {
    edit.rename("spec", "cohortName", "cohort");
    edit.reword_rules("spec", "cohortName", "cohort");
    edit.take("spec", "concurrentAdmissionPolicy");
    edit.add(
        "spec",
        "admissionChecks",
        json!({
            "type": "array",
            "items": { "type": "string", "maxLength": 316 },
            "description": "The checks that every workload must pass, by name. Shorter than admissionChecksStrategy, \
                 and not to be used together with it.",
        }),
    );
    let checks = "spec.admissionChecksStrategy.admissionChecks";
    edit.drop("spec.admissionChecksStrategy", &["required"]);
    edit.drop(checks, &["minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"]);
    edit.drop(&format!("{checks}[].name"), &["minLength"]);
    edit.drop(&format!("{checks}[].onFlavors"), &["maxItems", "x-kubernetes-list-type"]);
    edit.drop("spec.admissionScope.admissionMode", &["enum"]);
    let values = json!(["Borrow", "MayStopSearch", "TryNextFlavor"]);
    edit.set("spec.flavorFungibility.whenCanBorrow", "enum", values);
    let values = json!(["Preempt", "MayStopSearch", "TryNextFlavor"]);
    edit.set("spec.flavorFungibility.whenCanPreempt", "enum", values);
    edit.drop("spec.resourceGroups[].coveredResources", &["x-kubernetes-list-type"]);
    edit.drop("status.conditions", &["maxItems"]);
    consumption(edit);
    edit.add(
        "status",
        "pendingWorkloadsStatus",
        json!({
            "type": "object",
            "description": "Not written any more: ask visibility.kueue.x-k8s.io who waits.",
            "required": ["lastChangeTime"],
            "properties": {
                "clusterQueuePendingWorkload": {
                    "type": "array",
                    "x-kubernetes-list-type": "atomic",
                    "description": "The first of those who wait.",
                    "items": {
                        "type": "object",
                        "required": ["name", "namespace"],
                        "properties": {
                            "name": { "type": "string", "description": "Its name." },
                            "namespace": { "type": "string", "description": "Its namespace." },
                        },
                    },
                },
                "lastChangeTime": {
                    "type": "string", "format": "date-time", "description": "When this was written.",
                },
            },
        }),
    );
}

/// A cohort.
pub(super) fn cohort(edit: &mut Edit<'_>) {
    edit.drop("spec.resourceGroups[].coveredResources", &["x-kubernetes-list-type"]);
    consumption(edit);
}

/// A LocalQueue: what it uses under another name, and the flavors that it can use.
pub(super) fn local_queue(edit: &mut Edit<'_>) {
    edit.rename("status", "flavorsUsage", "flavorUsage");
    edit.drop("status.conditions", &["maxItems"]);
    edit.add(
        "status",
        "flavors",
        json!({
            "type": "array",
            "maxItems": 64,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "description": "Not written any more: the flavors of the ClusterQueue.",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": name("The flavor."),
                    "resources": {
                        "type": "array",
                        "maxItems": 64,
                        "x-kubernetes-list-type": "set",
                        "description": "The resources that it has.",
                        "items": { "type": "string" },
                    },
                    "nodeLabels": {
                        "type": "object",
                        "maxProperties": 8,
                        "x-kubernetes-map-type": "atomic",
                        "description": "The labels of its nodes.",
                        "additionalProperties": { "type": "string" },
                    },
                    "nodeTaints": {
                        "type": "array",
                        "maxItems": 8,
                        "x-kubernetes-list-type": "atomic",
                        "description": "The taints of its nodes.",
                        "items": taint(),
                    },
                    "topology": {
                        "type": "object",
                        "required": ["levels", "name"],
                        "description": "Its topology.",
                        "properties": {
                            "name": name("The Topology."),
                            "levels": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": 16,
                                "x-kubernetes-list-type": "atomic",
                                "description": "The node labels of its levels, the widest first.",
                                "items": { "type": "string" },
                            },
                        },
                    },
                },
            },
        }),
    );
}

fn name(description: &str) -> Value {
    json!({ "type": "string", "maxLength": 253, "pattern": names::SUBDOMAIN, "description": description })
}

fn taint() -> Value {
    json!({
        "type": "object",
        "required": ["effect", "key"],
        "properties": {
            "key": { "type": "string", "description": "The key." },
            "value": { "type": "string", "description": "The value." },
            "effect": { "type": "string", "description": "What becomes of pods that do not tolerate it." },
            "timeAdded": { "type": "string", "format": "date-time", "description": "When it was added." },
        },
    })
}

/// What a ClusterQueue or a cohort consumed lately, which only LocalQueues have in v1beta2.
fn consumption(edit: &mut Edit<'_>) {
    edit.add(
        "status.fairSharing",
        "admissionFairSharingStatus",
        json!({
            "type": "object",
            "description": "Not written any more: what LocalQueues consumed lately stands in their own status.",
            "required": ["consumedResources", "lastUpdate"],
            "properties": {
                "consumedResources": {
                    "type": "object",
                    "description": "How much of each resource.",
                    "additionalProperties": {
                        "anyOf": [{ "type": "integer" }, { "type": "string" }],
                        "pattern": names::QUANTITY,
                        "x-kubernetes-int-or-string": true,
                    },
                },
                "lastUpdate": {
                    "type": "string", "format": "date-time", "description": "When that was so.",
                },
            },
        }),
    );
}
