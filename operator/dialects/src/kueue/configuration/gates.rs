//! Kueue's feature gates: their defaults, and what becomes of one that is set otherwise. A test holds the list against
//! Kueue's own.

use std::collections::BTreeMap;

use super::{
    Problem, Warnings,
    fields::Treatment::{self, Honoured, Ignored, Refused},
};

/// A gate, whether it is on by default, and what becomes of it when it is set otherwise.
pub type Gate = (&'static str, bool, Treatment);

const HERE: Treatment = Refused("this is always on here");
const LOCKED: Treatment = Refused("Kueue has locked it to its default");
const ABSENT: Treatment = Refused("this does not exist here yet");
const REPAIRS: Treatment =
    Ignored("other hosts are given in place of those that fail, as is the default of Kueue");
const NO_MULTIKUEUE: Treatment = Ignored("there is no MultiKueue");
const NO_DEVICES: Treatment = Ignored("dynamic resource allocation is not counted yet");
const NO_KIND: Treatment = Ignored("jobs of that kind are not managed yet");
const HOW: Treatment = Ignored("it is about how Kueue does something, which is done otherwise here");

/// Every gate of Kueue 0.19.
pub const GATES: &[Gate] = &[
    ("AdmissionFairSharing", true, Honoured),
    ("AdmissionGatedBy", true, HERE),
    ("AssignQueueLabelsForPods", true, Ignored("pods do not get the names of their queues as labels")),
    (
        "CleanupProvisioningRequestsOnEviction",
        true,
        Ignored("ProvisioningRequests always go when their Workload stops"),
    ),
    ("ConcurrentAdmission", false, ABSENT),
    ("CustomMetricLabels", false, Ignored("metrics have Kueue's labels and no others")),
    ("DeferRayServiceFinalizationForRedisCleanup", true, NO_KIND),
    ("DisableWaitForPodsReady", false, Honoured),
    ("ElasticJobsViaWorkloadSlices", true, HERE),
    ("ElasticJobsViaWorkloadSlicesWithTAS", false, Ignored("elastic jobs are placed anew when they grow")),
    ("FailureRecoveryPolicy", false, ABSENT),
    ("FairSharingPreemptWithinNominal", true, HERE),
    ("FairSharingPrioritizeNonBorrowing", true, HERE),
    ("FastQuotaReleaseInPodIntegration", false, NO_KIND),
    ("FinishOrphanedWorkloads", true, HERE),
    ("FlavorFungibility", true, HERE),
    ("FlavorFungibilityPreserveScanProgress", true, HERE),
    ("HierarchicalCohorts", true, LOCKED),
    ("KueueDRAIntegration", true, NO_DEVICES),
    ("KueueDRAIntegrationConsumableCapacity", false, NO_DEVICES),
    ("KueueDRAIntegrationExtendedResource", true, NO_DEVICES),
    ("KueueDRAIntegrationPartitionableDevices", true, NO_DEVICES),
    ("KueueDRARejectWorkloadsWhenDRADisabled", true, NO_DEVICES),
    ("LWSImmutableGroupSize", true, NO_KIND),
    ("LocalQueueMetrics", true, Honoured),
    ("ManagedJobsNamespaceSelectorAlwaysRespected", true, LOCKED),
    ("MetricForWorkloadCreationLatency", true, Ignored("there is no such metric")),
    ("MetricsForCohorts", true, Honoured),
    ("MultiKueue", true, NO_MULTIKUEUE),
    ("MultiKueueAdaptersForCustomJobs", true, NO_MULTIKUEUE),
    ("MultiKueueAllowInsecureKubeconfigs", false, LOCKED),
    ("MultiKueueClusterProfile", false, NO_MULTIKUEUE),
    ("MultiKueueIncrementalDispatcherConfig", true, NO_MULTIKUEUE),
    ("MultiKueueIncrementalDispatcherRespectConfigOrder", true, NO_MULTIKUEUE),
    ("MultiKueueKubeConfigPathValidation", false, NO_MULTIKUEUE),
    ("MultiKueueManagerQuotaAutomation", false, NO_MULTIKUEUE),
    ("MultiKueueOrchestratedPreemption", false, NO_MULTIKUEUE),
    ("MultiKueueRedoAdmissionOnEvictionInWorker", true, LOCKED),
    ("MultiKueueRemoteSpecSync", true, NO_MULTIKUEUE),
    ("MultiKueueWaitForWorkloadAdmitted", true, LOCKED),
    ("ObjectRetentionPolicies", true, LOCKED),
    ("PartialAdmission", true, HERE),
    ("PodIntegrationValidateGroupOwner", true, NO_KIND),
    ("PrioritizePreemptorWorkloads", false, ABSENT),
    ("PriorityBoost", false, Honoured),
    ("PrioritySortingWithinCohort", true, HERE),
    ("PropagateBatchJobLabelsToWorkload", true, LOCKED),
    ("QuotaCheckStrategy", true, HERE),
    ("ReclaimablePods", true, HERE),
    ("RecomputeAssignmentUponPreemptionTargetsOverlap", false, ABSENT),
    (
        "RejectUpdatesToCQWithInvalidOnFlavors",
        false,
        Ignored("what is wrong with a queue stands in its status"),
    ),
    ("RemoveFinalizersWithStrictPatch", true, HOW),
    ("SchedulerLibraryIntegration", false, ABSENT),
    ("SchedulerLongRequeueInterval", false, HOW),
    ("SchedulerTimestampPreemptionBuffer", false, ABSENT),
    ("SchedulingEquivalenceHashing", true, HOW),
    ("ShortWorkloadNames", false, Ignored("Workloads have the longer names")),
    ("SkipAncestorCheckForDeletedWorkloads", true, HOW),
    ("SkipFinalizersForPodsSuspendedByParent", true, LOCKED),
    ("SkipReassignmentForPodOwnedWorkloads", true, REPAIRS),
    ("SparkApplicationIntegration", false, NO_KIND),
    ("TASAssignmentsEncodingByHostnamePrefix", true, HOW),
    ("TASBalancedPlacement", false, Honoured),
    ("TASCacheNodeMatchResults", true, HOW),
    ("TASCacheTopologyTree", false, HOW),
    ("TASCachingRemainingResources", true, HOW),
    ("TASFailedNodeReplacement", true, REPAIRS),
    ("TASFailedNodeReplacementFailFast", true, REPAIRS),
    ("TASHandleOverlappingFlavors", true, HERE),
    ("TASMultiLayerTopology", true, HERE),
    ("TASProfileMixed", true, Honoured),
    ("TASRecomputeAssignmentWithinSchedulingCycle", true, HERE),
    (
        "TASReplaceNodeDueToNotReadyOverFixedTime",
        false,
        Ignored("a node that is not ready is replaced once no pod of the job goes on there"),
    ),
    ("TASReplaceNodeOnNodeTaints", true, REPAIRS),
    ("TASReplaceNodeOnPodTermination", true, REPAIRS),
    ("TASRespectNodeAffinityPreferred", false, Ignored("preferred node affinity does not count yet")),
    ("TASValidateWorkloadSliceSize", true, HERE),
    ("TLSOptions", true, Ignored("what is served over TLS has safe versions and ciphers")),
    ("TopologyAwareScheduling", true, HERE),
    (
        "UnadmittedWorkloadsExplicitStatus",
        false,
        Ignored("a condition appears when there is something to say"),
    ),
    ("UnadmittedWorkloadsObservability", false, Honoured),
    ("ValidateRayAndSparkJobUpdates", true, NO_KIND),
    ("VectorizedResourceRequests", true, HOW),
    ("VisibilityOnDemand", true, Ignored("who waits is told as long as the APIServices are there")),
    ("WorkloadIdentifierAnnotations", true, Ignored("both the labels and the annotations are read")),
    ("WorkloadPriorityClassDefaulting", false, ABSENT),
    ("WorkloadRequestUseMergePatch", false, HOW),
    ("WorkloadValidateResourcesAreNonNegative", true, Ignored("negative requests are never counted")),
    (
        "WorkloadValidationForPodSetMetadata",
        true,
        Ignored("the API server validates Workloads by their definition"),
    ),
];

/// Gates that are of use only with others, and those.
const NEEDS: &[(&str, &[&str])] = &[
    ("ElasticJobsViaWorkloadSlicesWithTAS", &["ElasticJobsViaWorkloadSlices", "TopologyAwareScheduling"]),
    ("KueueDRAIntegrationConsumableCapacity", &["KueueDRAIntegration"]),
    ("KueueDRAIntegrationExtendedResource", &["KueueDRAIntegration"]),
    ("KueueDRAIntegrationPartitionableDevices", &["KueueDRAIntegration"]),
    ("TASBalancedPlacement", &["TopologyAwareScheduling"]),
    ("TASFailedNodeReplacement", &["TopologyAwareScheduling"]),
    ("TASFailedNodeReplacementFailFast", &["TopologyAwareScheduling", "TASFailedNodeReplacement"]),
    ("TASHandleOverlappingFlavors", &["TopologyAwareScheduling"]),
    ("TASMultiLayerTopology", &["TopologyAwareScheduling"]),
    ("TASProfileMixed", &["TopologyAwareScheduling"]),
    ("TASRecomputeAssignmentWithinSchedulingCycle", &["TopologyAwareScheduling"]),
    ("TASReplaceNodeDueToNotReadyOverFixedTime", &["TopologyAwareScheduling", "TASFailedNodeReplacement"]),
    ("TASReplaceNodeOnNodeTaints", &["TopologyAwareScheduling"]),
    ("TASReplaceNodeOnPodTermination", &["TopologyAwareScheduling", "TASFailedNodeReplacement"]),
    ("TASRespectNodeAffinityPreferred", &["TopologyAwareScheduling"]),
    ("UnadmittedWorkloadsExplicitStatus", &["UnadmittedWorkloadsObservability"]),
];

/// The gates as they are set, over their defaults.
#[derive(Debug, Default)]
pub struct Gates(BTreeMap<String, bool>);

impl Gates {
    /// The gates as a file sets them.
    pub(super) fn new(
        set: BTreeMap<String, bool>,
        problems: &mut Vec<Problem>,
        warnings: &mut Warnings,
    ) -> Self {
        for (name, on) in &set {
            let path = || format!("featureGates.{name}");
            match GATES.iter().find(|(known, ..)| known == name) {
                None => problems.push(Problem::new(path(), "Kueue 0.19 has no such feature gate")),
                Some((_, default, _)) if on == default => {}
                Some((_, _, Honoured)) => {}
                Some((_, _, Ignored(why))) => warnings.add(why, path()),
                Some((_, default, Refused(what))) => {
                    problems.push(Problem::new(path(), format!("{what}: leave it {default}")));
                }
            }
        }
        let gates = Self(set);
        for (gate, needed) in NEEDS {
            for other in needed.iter().filter(|other| gates.is_on(gate) && !gates.is_on(other)) {
                problems
                    .push(Problem::new(format!("featureGates.{gate}"), format!("needs {other} to be on")));
            }
        }
        gates
    }

    /// Whether a gate is on.
    pub fn is_on(&self, gate: &str) -> bool {
        let default = || GATES.iter().any(|(name, default, _)| *name == gate && *default);
        self.0.get(gate).copied().unwrap_or_else(default)
    }
}
