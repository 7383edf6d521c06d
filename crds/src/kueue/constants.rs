//! The strings of Kueue's contract: labels, annotations, gates, conditions and reasons.
//!
//! Tools outside the cluster match on them, so they are Kueue's to the letter.

/// The API group.
pub const GROUP: &str = "kueue.x-k8s.io";

/// The finalizer that keeps a queue or a flavor in place while workloads use it.
pub const RESOURCE_IN_USE_FINALIZER: &str = "kueue.x-k8s.io/resource-in-use";

/// The finalizer that keeps a managed pod until its workload is accounted for.
pub const MANAGED_FINALIZER: &str = "kueue.x-k8s.io/managed";

/// The name of the only pod set of a simple workload.
pub const DEFAULT_POD_SET: &str = "main";

/// The `LocalQueue` of jobs that name none, in namespaces that have it.
pub const DEFAULT_LOCAL_QUEUE: &str = "default";

/// The `WorkloadPriorityClass` of jobs that name none, where defaulting is on.
pub const DEFAULT_PRIORITY_CLASS: &str = "default";

/// The priority of a workload without any class.
pub const DEFAULT_PRIORITY: i32 = 0;

/// The prefix of annotations that become parameters of a `ProvisioningRequest`.
pub const PROVISIONING_REQUEST_PREFIX: &str = "provreq.kueue.x-k8s.io/";

/// Label keys.
pub mod label {
    /// On a job: the `LocalQueue` that it is submitted to.
    pub const QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
    /// On a job: the `WorkloadPriorityClass`.
    pub const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
    /// On a job: for how many seconds it may run.
    pub const MAX_EXEC_TIME_SECONDS: &str = "kueue.x-k8s.io/max-exec-time-seconds";
    /// On a job: the Workload that somebody made for it beforehand.
    pub const PREBUILT_WORKLOAD: &str = "kueue.x-k8s.io/prebuilt-workload-name";
    /// On a Workload: the UID of the job that owns it.
    pub const JOB_UID: &str = "kueue.x-k8s.io/job-uid";
    /// On a Workload: "true" if it stands for variants that compete for flavors.
    pub const CONCURRENT_ADMISSION_PARENT: &str = "kueue.x-k8s.io/concurrent-admission-parent";
    /// On a pod: "true" if it is managed here.
    pub const MANAGED: &str = "kueue.x-k8s.io/managed";
    /// On a pod template: the pod set that it is.
    pub const POD_SET: &str = "kueue.x-k8s.io/podset";
    /// On a pod: the `ClusterQueue` that admitted it.
    pub const CLUSTER_QUEUE_NAME: &str = "kueue.x-k8s.io/cluster-queue-name";
    /// On a pod: the `LocalQueue` that it came through.
    pub const LOCAL_QUEUE_NAME: &str = "kueue.x-k8s.io/local-queue-name";
    /// On a pod: the group that it is admitted with.
    pub const POD_GROUP_NAME: &str = "kueue.x-k8s.io/pod-group-name";
    /// On a pod: its rank in the group.
    pub const POD_GROUP_POD_INDEX: &str = "kueue.x-k8s.io/pod-group-pod-index";
    /// On an object of another cluster: who created it.
    pub const MULTI_KUEUE_ORIGIN: &str = "kueue.x-k8s.io/multikueue-origin";
    /// On a pod of another cluster: "true" if its workload was sent there.
    pub const MULTI_KUEUE_WORKER_POD: &str = "kueue.x-k8s.io/multikueue-worker-workload-pod";
}

/// Annotation keys.
pub mod annotation {
    /// On a job: the Workload that somebody made for it beforehand.
    pub const PREBUILT_WORKLOAD: &str = "kueue.x-k8s.io/prebuilt-workload-name";
    /// On a job: the controllers, separated by commas, that must agree before it is admitted.
    pub const ADMISSION_GATED_BY: &str = "kueue.x-k8s.io/admission-gated-by";
    /// On a job: "true" if it may grow and shrink while it runs.
    pub const ELASTIC_JOB: &str = "kueue.x-k8s.io/elastic-job";
    /// On a batch Job: with how little parallelism it can do.
    pub const JOB_MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
    /// On a batch Job: "true" if completions follow parallelism when that is reduced.
    pub const JOB_COMPLETIONS_EQUAL_PARALLELISM: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";
    /// On a batch Job: "true" while it is being stopped.
    pub const STOPPING: &str = "kueue.x-k8s.io/stopping";
    /// On a pod template and its pods: the admitted Workload.
    pub const WORKLOAD: &str = "kueue.x-k8s.io/workload";
    /// On a Workload and its pods: the first Workload of a chain of slices.
    pub const WORKLOAD_SLICE_NAME: &str = "kueue.x-k8s.io/workload-slice-name";
    /// On a Workload: the one of the same job, as `namespace/name`, whose place it takes when it is admitted.
    pub const WORKLOAD_SLICE_REPLACEMENT_FOR: &str = "kueue.x-k8s.io/workload-slice-replacement-for";
    /// On a Workload: the kind of the job that owns it.
    pub const JOB_OWNER_GVK: &str = "kueue.x-k8s.io/job-owner-gvk";
    /// On a Workload: the name of the job that owns it.
    pub const JOB_OWNER_NAME: &str = "kueue.x-k8s.io/job-owner-name";
    /// On a Workload: its number among the workloads of one job.
    pub const COMPONENT_WORKLOAD_INDEX: &str = "kueue.x-k8s.io/component-workload-index";
    /// On a Workload: a number added to its priority.
    pub const PRIORITY_BOOST: &str = "kueue.x-k8s.io/priority-boost";
    /// On a Workload: the flavors, separated by commas, that it may get.
    pub const ALLOWED_RESOURCE_FLAVORS: &str = "kueue.x-k8s.io/workload-allowed-resource-flavors";
    /// On a pod template: the topology level at which all pods must be in one domain.
    pub const REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-required-topology";
    /// On a pod template: the topology level at which all pods should be in one domain.
    pub const PREFERRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
    /// On a pod template: "true" if any placement with room will do.
    pub const UNCONSTRAINED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
    /// On a pod template: the topology level at which each slice must be in one domain.
    pub const SLICE_REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-slice-required-topology";
    /// On a pod template: how many pods make a slice.
    pub const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
    /// On a pod template: layers of slices, as JSON.
    pub const SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS: &str =
        "kueue.x-k8s.io/podset-slice-required-topology-constraints";
    /// On a pod template: the group of pod sets that are placed together.
    pub const POD_SET_GROUP_NAME: &str = "kueue.x-k8s.io/podset-group-name";
    /// On a pod: the rank of the first pod of its set.
    pub const POD_INDEX_OFFSET: &str = "kueue.x-k8s.io/pod-index-offset";
    /// On a pod of a group: the label that holds its rank.
    pub const POD_GROUP_POD_INDEX_LABEL: &str = "kueue.x-k8s.io/pod-group-pod-index-label";
    /// On a pod: the group that it is admitted with.
    pub const POD_GROUP_NAME: &str = "kueue.x-k8s.io/pod-group-name";
    /// On a pod of a group: how many pods the group has.
    pub const POD_GROUP_TOTAL_COUNT: &str = "kueue.x-k8s.io/pod-group-total-count";
    /// On a pod of a group: "true" if the group is admitted before all its pods are there.
    pub const POD_GROUP_FAST_ADMISSION: &str = "kueue.x-k8s.io/pod-group-fast-admission";
    /// On a pod of a group: "true" if the group serves and never finishes.
    pub const POD_GROUP_SERVING: &str = "kueue.x-k8s.io/pod-group-serving";
    /// On a pod: the kind of job that manages it in our place.
    pub const POD_SUSPENDING_PARENT: &str = "kueue.x-k8s.io/pod-suspending-parent";
    /// On a pod of a group: a hash of what makes it equal to others.
    pub const ROLE_HASH: &str = "kueue.x-k8s.io/role-hash";
    /// On a pod of a group: "false" if the group fails with it.
    pub const RETRIABLE_IN_GROUP: &str = "kueue.x-k8s.io/retriable-in-group";
    /// On a Workload: "true" if it stands for a group of pods.
    pub const IS_GROUP_WORKLOAD: &str = "kueue.x-k8s.io/is-group-workload";
    /// On a pod: "true" if it may be deleted by force when its node is lost.
    pub const SAFE_TO_FORCEFULLY_DELETE: &str = "kueue.x-k8s.io/safe-to-forcefully-delete";
    /// On an object of another cluster: the UID of the original.
    pub const MULTI_KUEUE_ORIGIN_UID: &str = "kueue.x-k8s.io/multikueue-origin-uid";
}

/// Scheduling gates of pods.
pub mod scheduling_gate {
    /// Kept until the workload is admitted.
    pub const ADMISSION: &str = "kueue.x-k8s.io/admission";
    /// Kept until the topology domain is in the node selector.
    pub const TOPOLOGY: &str = "kueue.x-k8s.io/topology";
    /// Kept until the slice that the pod belongs to is admitted.
    pub const ELASTIC_JOB: &str = "kueue.x-k8s.io/elastic-job";
}

/// Preemption gates of Workloads.
pub mod preemption_gate {
    /// Opened by the managing cluster, so that only one cluster preempts for a workload.
    pub const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";
    /// Opened for one variant of a workload at a time.
    pub const CONCURRENT_ADMISSION: &str = "kueue.x-k8s.io/concurrent-admission";
}

/// Names that controllers of admission checks go by.
pub mod check_controller {
    /// Sends workloads to other clusters.
    pub const MULTI_KUEUE: &str = "kueue.x-k8s.io/multikueue";
    /// Asks the cluster autoscaler for nodes.
    pub const PROVISIONING_REQUEST: &str = "kueue.x-k8s.io/provisioning-request";
}

/// Condition types.
pub mod condition {
    /// Of queues, checks and clusters: it works.
    pub const ACTIVE: &str = "Active";
    /// Of a `ClusterQueue`: its quota follows that of other clusters.
    pub const MULTI_KUEUE_MANAGER_QUOTA_AUTOMATION: &str = "MultiKueueManagerQuotaAutomation";
    /// Of a Workload: it holds quota.
    pub const QUOTA_RESERVED: &str = "QuotaReserved";
    /// Of a Workload: it holds quota, has passed its checks and may run.
    pub const ADMITTED: &str = "Admitted";
    /// Of a Workload: it has finished, well or badly.
    pub const FINISHED: &str = "Finished";
    /// Of a Workload: as many pods as it has are ready or have succeeded.
    pub const PODS_READY: &str = "PodsReady";
    /// Of a Workload: it was stopped and gave its quota back.
    pub const EVICTED: &str = "Evicted";
    /// Of a Workload: it was evicted for another workload.
    pub const PREEMPTED: &str = "Preempted";
    /// Of a Workload: it may be tried again after an eviction.
    pub const REQUEUED: &str = "Requeued";
    /// Of a Workload: it is about to be deactivated.
    pub const DEACTIVATION_TARGET: &str = "DeactivationTarget";
    /// Of a Workload: a closed gate keeps it from preempting.
    pub const BLOCKED_ON_PREEMPTION_GATES: &str = "BlockedOnPreemptionGates";
    /// Of a Workload: pods of its group are missing.
    pub const WAITING_FOR_REPLACEMENT_PODS: &str = "WaitingForReplacementPods";
}

/// Reasons of conditions, by condition.
pub mod reason {
    /// Of `Active` on a `ClusterQueue`.
    pub mod cluster_queue_active {
        /// It works.
        pub const READY: &str = "Ready";
        /// It is being deleted.
        pub const TERMINATING: &str = "Terminating";
        /// Its stop policy is set.
        pub const STOPPED: &str = "Stopped";
        /// A flavor that it names does not exist.
        pub const FLAVOR_NOT_FOUND: &str = "FlavorNotFound";
        /// A topology that one of its flavors names does not exist.
        pub const TOPOLOGY_NOT_FOUND: &str = "TopologyNotFound";
        /// An admission check that it names does not exist.
        pub const ADMISSION_CHECK_NOT_FOUND: &str = "AdmissionCheckNotFound";
        /// An admission check that it names does not work.
        pub const ADMISSION_CHECK_INACTIVE: &str = "AdmissionCheckInactive";
        /// It names more than one check that sends workloads to other clusters.
        pub const MULTIPLE_MULTI_KUEUE_ADMISSION_CHECKS: &str = "MultipleMultiKueueAdmissionChecks";
        /// A check that sends workloads to other clusters is limited to some flavors.
        pub const MULTI_KUEUE_ADMISSION_CHECK_APPLIED_PER_FLAVOR: &str =
            "MultiKueueAdmissionCheckAppliedPerFlavor";
        /// It has both a check that sends workloads elsewhere and one that provisions nodes here.
        pub const MULTI_KUEUE_WITH_PROVISIONING_REQUEST: &str = "MultiKueueWithProvisioningRequest";
        /// It does not work for a reason that has no name.
        pub const UNKNOWN: &str = "Unknown";
    }

    /// Of `Active` on a `LocalQueue`.
    pub mod local_queue_active {
        /// It works.
        pub const READY: &str = "Ready";
        /// Its stop policy is set.
        pub const STOPPED: &str = "Stopped";
        /// Its `ClusterQueue` does not exist.
        pub const CLUSTER_QUEUE_DOES_NOT_EXIST: &str = "ClusterQueueDoesNotExist";
        /// Its `ClusterQueue` does not work.
        pub const CLUSTER_QUEUE_IS_INACTIVE: &str = "ClusterQueueIsInactive";
    }

    /// Of `QuotaReserved`.
    pub mod quota_reserved {
        /// True: it holds quota.
        pub const QUOTA_RESERVED: &str = "QuotaReserved";
        /// No flavor agrees with the pods' node selector, affinity and tolerations.
        pub const NO_MATCHING_FLAVOR: &str = "NoMatchingFlavor";
        /// Quota is used by others now.
        pub const WAITING_FOR_QUOTA: &str = "WaitingForQuota";
        /// It asks for more than the queue can ever have.
        pub const EXCEEDS_MAX_QUOTA: &str = "ExceedsMaxQuota";
        /// No topology domain has room now.
        pub const TOPOLOGY_PLACEMENT_FAILED: &str = "TopologyPlacementFailed";
        /// The workloads that it preempts have not let go yet.
        pub const WAITING_FOR_PREEMPTED_WORKLOADS: &str = "WaitingForPreemptedWorkloads";
        /// Its queue does not exist, or something else is set up wrongly.
        pub const MISCONFIGURED: &str = "Misconfigured";
        /// Its queue is stopped.
        pub const SUSPENDED: &str = "Suspended";
        /// It has not been tried yet.
        pub const PENDING_EVALUATION: &str = "PendingEvaluation";
        /// Workloads admitted before it must get their pods ready first.
        pub const WAITING_FOR_PODS_READY: &str = "WaitingForPodsReady";
        /// Another controller has not agreed yet.
        pub const ADMISSION_GATED: &str = "AdmissionGated";
        /// Its quota was given up on purpose and it is not to be tried again.
        pub const ON_HOLD: &str = "OnHold";
        /// Its queue does not exist or does not work (before Kueue 0.19).
        pub const INADMISSIBLE: &str = "Inadmissible";
        /// It waits (before Kueue 0.19).
        pub const PENDING: &str = "Pending";
        /// It waits for the pods of others (before Kueue 0.19).
        pub const WAITING: &str = "Waiting";
    }

    /// Of `Admitted`.
    pub mod admitted {
        /// True: it may run.
        pub const ADMITTED: &str = "Admitted";
        /// It holds no quota.
        pub const NO_RESERVATION: &str = "NoReservation";
        /// A check has not passed.
        pub const UNSATISFIED_ADMISSION_CHECKS: &str = "UnsatisfiedAdmissionChecks";
        /// Its topology domains are not chosen yet.
        pub const PENDING_DELAYED_TOPOLOGY_REQUESTS: &str = "PendingDelayedTopologyRequests";
    }

    /// Of `Evicted`.
    pub mod evicted {
        /// Another workload needed the resources.
        pub const PREEMPTED: &str = "Preempted";
        /// A variant of the same workload got a better flavor.
        pub const FLAVOR_MIGRATION: &str = "FlavorMigration";
        /// The pods were not ready in time.
        pub const PODS_READY_TIMEOUT: &str = "PodsReadyTimeout";
        /// A check no longer passes.
        pub const ADMISSION_CHECK: &str = "AdmissionCheck";
        /// The `ClusterQueue` was stopped.
        pub const CLUSTER_QUEUE_STOPPED: &str = "ClusterQueueStopped";
        /// The `LocalQueue` was stopped.
        pub const LOCAL_QUEUE_STOPPED: &str = "LocalQueueStopped";
        /// Nodes failed and could not be replaced.
        pub const NODE_FAILURES: &str = "NodeFailures";
        /// The managing cluster evicted it.
        pub const EVICTED_ON_MANAGER_CLUSTER: &str = "EvictedOnManagerCluster";
        /// `spec.active` became false.
        pub const DEACTIVATED: &str = "Deactivated";
        /// It ran longer than it may.
        pub const MAXIMUM_EXECUTION_TIME_EXCEEDED: &str = "MaximumExecutionTimeExceeded";
        /// It was put back in the queue too often.
        pub const REQUEUING_LIMIT_EXCEEDED: &str = "RequeuingLimitExceeded";
    }

    /// Of `Preempted`.
    pub mod preempted {
        /// A workload of the same queue needed the resources.
        pub const IN_CLUSTER_QUEUE: &str = "InClusterQueue";
        /// A queue of the cohort took its own quota back.
        pub const IN_COHORT_RECLAMATION: &str = "InCohortReclamation";
        /// A queue of the cohort has the smaller share.
        pub const IN_COHORT_FAIR_SHARING: &str = "InCohortFairSharing";
        /// A queue of the cohort took quota back while borrowing more.
        pub const IN_COHORT_RECLAIM_WHILE_BORROWING: &str = "InCohortReclaimWhileBorrowing";
    }

    /// Of `Requeued`.
    pub mod requeued {
        /// It was made active again.
        pub const REACTIVATED: &str = "Reactivated";
        /// The wait after an eviction is over.
        pub const BACKOFF_FINISHED: &str = "BackoffFinished";
        /// The `ClusterQueue` works again.
        pub const CLUSTER_QUEUE_RESTARTED: &str = "ClusterQueueRestarted";
        /// The `LocalQueue` works again.
        pub const LOCAL_QUEUE_RESTARTED: &str = "LocalQueueRestarted";
    }

    /// Of `PodsReady`.
    pub mod pods_ready {
        /// Some pods have not been ready yet.
        pub const WAIT_FOR_START: &str = "WaitForStart";
        /// All pods were ready, and one has failed since.
        pub const WAIT_FOR_RECOVERY: &str = "WaitForRecovery";
        /// All pods are ready.
        pub const STARTED: &str = "Started";
        /// All pods are ready again.
        pub const RECOVERED: &str = "Recovered";
    }

    /// Of `Finished`.
    pub mod finished {
        /// The job ended well.
        pub const SUCCEEDED: &str = "Succeeded";
        /// The job failed.
        pub const FAILED: &str = "Failed";
        /// The Workload made beforehand does not fit the job.
        pub const OUT_OF_SYNC: &str = "OutOfSync";
        /// The job is gone.
        pub const OWNER_NOT_FOUND: &str = "OwnerNotFound";
        /// A newer slice has taken its place.
        pub const WORKLOAD_SLICE_REPLACED: &str = "WorkloadSliceReplaced";
    }

    /// Of `BlockedOnPreemptionGates`.
    pub mod blocked_on_preemption_gates {
        /// It could preempt if a gate were open.
        pub const PREEMPTION_GATED: &str = "PreemptionGated";
    }
}
