//! Every field of the file, and what becomes of it. A test holds the list against Kueue's own types.

use super::Version;

/// What becomes of a field that is set to something else than its default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// It means here what it means to Kueue.
    Honoured,
    /// Nothing, and a warning says why. Who is admitted does not depend on it.
    Ignored(&'static str),
    /// The operator does not start, and says what to do: without it other workloads would be admitted.
    Refused(&'static str),
}

use Treatment::{Honoured, Ignored, Refused};

/// A field and what becomes of it. The path has `[]` where there is a list; a field with fields of its own is not
/// listed itself, and a map is one field.
pub type Field = (&'static str, Treatment);

const WEBHOOKS: Treatment =
    Ignored("there are no admission webhooks; admission policies in the API server do their part");
const LEASE: Treatment =
    Ignored("the lease is named by --lease-namespace and --lease-name, and its times are fixed");
const HEALTH: Treatment =
    Ignored("/healthz and /readyz are served beside the metrics (--metrics-bind-address)");
const TLS: Treatment =
    Ignored("what is served over TLS has the library's safe versions and ciphers, and metrics have none");
const CERTIFICATE: Treatment =
    Ignored("the operator makes its own certificate, for the Service that --serving-service names");
const VISIBILITY: Treatment = Ignored("who waits is told at --serving-bind-address");
const LABELS: Treatment = Ignored("metrics have Kueue's labels and no others");

/// The fields that both versions have.
pub const FIELDS: &[Field] = &[
    ("apiVersion", Honoured),
    ("kind", Honoured),
    ("namespace", Honoured),
    ("webhook.port", WEBHOOKS),
    ("webhook.host", WEBHOOKS),
    ("webhook.certDir", WEBHOOKS),
    ("leaderElection.leaderElect", LEASE),
    ("leaderElection.leaseDuration", LEASE),
    ("leaderElection.renewDeadline", LEASE),
    ("leaderElection.retryPeriod", LEASE),
    ("leaderElection.resourceLock", LEASE),
    ("leaderElection.resourceName", LEASE),
    ("leaderElection.resourceNamespace", LEASE),
    ("metrics.bindAddress", Ignored("metrics are served on --metrics-bind-address, without TLS")),
    ("metrics.enableClusterQueueResources", Honoured),
    ("metrics.customLabels[].name", LABELS),
    ("metrics.customLabels[].sourceLabelKey", LABELS),
    ("metrics.customLabels[].sourceAnnotationKey", LABELS),
    ("metrics.localQueueMetrics.enable", Honoured),
    ("metrics.localQueueMetrics.localQueueSelector.matchLabels", Honoured),
    ("metrics.localQueueMetrics.localQueueSelector.matchExpressions[].key", Honoured),
    ("metrics.localQueueMetrics.localQueueSelector.matchExpressions[].operator", Honoured),
    ("metrics.localQueueMetrics.localQueueSelector.matchExpressions[].values", Honoured),
    ("health.healthProbeBindAddress", HEALTH),
    ("health.readinessEndpointName", HEALTH),
    ("health.livenessEndpointName", HEALTH),
    ("pprofBindAddress", Ignored("the operator has no profiling server")),
    ("controller.groupKindConcurrency", Ignored("one loop does the work of all controllers")),
    ("controller.cacheSyncTimeout", Ignored("the operator waits for as long as the API server needs")),
    ("tls.minVersion", TLS),
    ("tls.cipherSuites", TLS),
    ("tls.curvePreferences", TLS),
    (
        "manageJobsWithoutQueueName",
        Refused("give Jobs a queue name, or a namespace a LocalQueue called \"default\""),
    ),
    ("managedJobsNamespaceSelector.matchLabels", Honoured),
    ("managedJobsNamespaceSelector.matchExpressions[].key", Honoured),
    ("managedJobsNamespaceSelector.matchExpressions[].operator", Honoured),
    ("managedJobsNamespaceSelector.matchExpressions[].values", Honoured),
    ("internalCertManagement.enable", CERTIFICATE),
    ("internalCertManagement.webhookServiceName", CERTIFICATE),
    ("internalCertManagement.webhookSecretName", CERTIFICATE),
    ("waitForPodsReady.timeout", Honoured),
    ("waitForPodsReady.blockAdmission", Honoured),
    ("waitForPodsReady.requeuingStrategy.timestamp", Honoured),
    ("waitForPodsReady.requeuingStrategy.backoffLimitCount", Honoured),
    ("waitForPodsReady.requeuingStrategy.backoffBaseSeconds", Honoured),
    ("waitForPodsReady.requeuingStrategy.backoffMaxSeconds", Honoured),
    ("waitForPodsReady.recoveryTimeout", Honoured),
    ("clientConnection.qps", Honoured),
    ("clientConnection.burst", Honoured),
    ("integrations.frameworks", Honoured),
    (
        "integrations.externalFrameworks",
        Ignored("Workloads that other controllers make are scheduled without being announced here"),
    ),
    ("integrations.labelKeysToCopy", Ignored("a Workload does not get labels of its job")),
    ("multiKueue", Refused("there is no MultiKueue: remove the section")),
    ("fairSharing.preemptionStrategies", Honoured),
    ("admissionFairSharing.usageHalfLifeTime", Honoured),
    ("admissionFairSharing.usageSamplingInterval", Honoured),
    ("admissionFairSharing.resourceWeights", Honoured),
    ("resources.excludeResourcePrefixes", Honoured),
    ("resources.transformations[].input", Honoured),
    ("resources.transformations[].strategy", Honoured),
    ("resources.transformations[].multiplyBy", Honoured),
    ("resources.transformations[].outputs", Honoured),
    (
        "resources.deviceClassMappings",
        Refused("dynamic resource allocation is not counted yet: remove the mappings"),
    ),
    ("featureGates", Honoured),
    ("objectRetentionPolicies.workloads.afterFinished", Honoured),
    (
        "objectRetentionPolicies.workloads.afterDeactivatedByKueue",
        Refused(
            "the operator deletes no jobs, and a job without its Workload would be queued again: remove it",
        ),
    ),
];

/// The fields that only v1beta2 has.
const NEW: &[Field] = &[
    ("metrics.customLabels[].sourceKind", LABELS),
    ("metrics.customLabels[].trackedValues", LABELS),
    ("resources.quotaCheckStrategy", Honoured),
    ("visibilityServer.bindAddress", VISIBILITY),
    ("visibilityServer.bindPort", VISIBILITY),
];

/// The fields that only v1beta1 has.
const OLD: &[Field] = &[
    ("waitForPodsReady.enable", Honoured),
    ("fairSharing.enable", Honoured),
    ("integrations.podOptions", Ignored("Kueue ignores it too, in favour of managedJobsNamespaceSelector")),
    ("queueVisibility", Ignored("Kueue has no such status any more either")),
];

/// The fields of a version.
pub fn fields(version: Version) -> impl Iterator<Item = &'static Field> {
    let own = match version {
        Version::V1Beta1 => OLD,
        Version::V1Beta2 => NEW,
    };
    FIELDS.iter().chain(own)
}
