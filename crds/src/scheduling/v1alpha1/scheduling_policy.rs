//! `SchedulingPolicy`: the brakes on what the scheduler takes away.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{Column, CustomResource, Definition};
use crate::resource::resource;
use crate::schema::mark;

/// The condition that says whether the circuit breaker has tripped.
pub const TRIPPED: &str = "CircuitBreakerTripped";

/// Set on a SchedulingPolicy by a person, to a moment as in RFC 3339, it resets a circuit breaker that tripped before
/// that moment.
pub const RESET_ANNOTATION: &str = "scheduling.gen.io/reset-circuit-breaker";

resource! {
    /// A SchedulingPolicy holds back preemption: with a freeze, with limits by the hour, and with a circuit breaker
    /// that stops a storm of evictions until a person has looked at it. Where there are several, each applies.
    /// Whoever fits without an eviction is admitted as ever.
    SchedulingPolicy("scheduling.gen.io", "v1alpha1", "schedulingpolicies"): ClusterResourceScope {
        /// The brakes.
        spec: SchedulingPolicySpec,
        /// What the brakes have done.
        status: SchedulingPolicyStatus,
    }
}

impl CustomResource for SchedulingPolicy {
    const DEFINITION: Definition = Definition {
        short_names: &["sp"],
        columns: &[
            Column::new("Freeze", "boolean", ".spec.freeze", "Whether nobody is preempted."),
            Column::new(
                "Tripped",
                "string",
                ".status.conditions[?(@.type=='CircuitBreakerTripped')].status",
                "Whether the circuit breaker has stopped all preemption.",
            ),
            Column::new("Age", "date", ".metadata.creationTimestamp", "Since when it is there."),
        ],
        selectable: &[],
        status: true,
    };
}

/// The brakes of a SchedulingPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySpec {
    /// While this is true nobody is preempted. Evictions that were ordered before go on.
    #[serde(default)]
    pub freeze: bool,

    /// How many may be preempted in an hour.
    #[serde(default)]
    #[schemars(transform = mark::default_empty)]
    pub eviction_limits: EvictionLimits,

    /// Stops all preemption when there was too much of it, until a person resets it: by the annotation
    /// scheduling.gen.io/reset-circuit-breaker with the present time. Without it there is no circuit breaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<CircuitBreaker>,
}

/// How many may be preempted in an hour. Evictions for other reasons do not count. The count begins anew when the
/// operator does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionLimits {
    /// In the whole cluster. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub per_hour: Option<i32>,

    /// Of each ClusterQueue. Without it there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub per_cluster_queue_per_hour: Option<i32>,
}

/// When the circuit breaker trips.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreaker {
    /// It trips when so many were preempted in the window.
    #[schemars(range(min = 1))]
    pub evictions: i32,

    /// The window, in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub window_seconds: i32,
}

/// What the brakes of a SchedulingPolicy have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicyStatus {
    /// What was last observed. CircuitBreakerTripped says whether all preemption is stopped until a person resets the
    /// circuit breaker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,
}
