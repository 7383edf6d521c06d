//! What a Workload's spec and status must satisfy together: while it holds quota, what it was given stays
//! true of it.

/// The CEL expression "this state of the workload has this condition".
macro_rules! has_condition {
    ($object:literal, $condition:literal) => {
        concat!(
            "has(",
            $object,
            ".status) && has(",
            $object,
            ".status.conditions) && ",
            $object,
            ".status.conditions.exists(c, c.type == '",
            $condition,
            "' && c.status == 'True')",
        )
    };
}

/// The CEL expression "the workload holds quota now, and held it before".
macro_rules! keeps_quota {
    () => {
        concat!(has_condition!("oldSelf", "QuotaReserved"), " && ", has_condition!("self", "QuotaReserved"))
    };
}

/// The CEL expression "this field of the priority class is the same, where there was a class and is one".
macro_rules! same_in_class {
    ($field:literal) => {
        concat!(
            "!has(oldSelf.spec.priorityClassRef) || !has(self.spec.priorityClassRef)",
            " || oldSelf.spec.priorityClassRef.",
            $field,
            " == self.spec.priorityClassRef.",
            $field,
        )
    };
}

/// Each rule in CEL, with the sentence that a violation shows.
///
/// They mean what Kueue's mean, and are put another way round: first what nearly always holds and costs little (that the
/// field is as it was), then whether it had to. The API server evaluates all of them at every write of a status, and
/// looking through the conditions is what costs.
pub(super) const RULES: &[(&str, &str)] = &[
    (
        concat!(
            "!has(self.status) || !has(self.status.admission)",
            " || size(self.spec.podSets) == size(self.status.admission.podSetAssignments)",
            " || !(",
            has_condition!("self", "QuotaReserved"),
            ")",
        ),
        "the admission must have one podSetAssignment for each of the podSets",
    ),
    (
        concat!(
            "has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef) || !(",
            has_condition!("oldSelf", "QuotaReserved"),
            ")",
        ),
        "priorityClassRef can be neither added nor removed while the workload holds quota",
    ),
    (
        concat!(same_in_class!("group"), " || !(", has_condition!("oldSelf", "QuotaReserved"), ")"),
        "priorityClassRef.group cannot be changed while the workload holds quota",
    ),
    (
        concat!(same_in_class!("kind"), " || !(", has_condition!("oldSelf", "QuotaReserved"), ")"),
        "priorityClassRef.kind cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            same_in_class!("name"),
            " || self.spec.priorityClassRef.group != 'scheduling.k8s.io'",
            " || self.spec.priorityClassRef.kind != 'PriorityClass' || !(",
            has_condition!("oldSelf", "QuotaReserved"),
            ")",
        ),
        "the name of a pod PriorityClass cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            "has(oldSelf.spec.queueName) == has(self.spec.queueName)",
            " && (!has(oldSelf.spec.queueName) || oldSelf.spec.queueName == self.spec.queueName) || !(",
            keeps_quota!(),
            ")",
        ),
        "queueName cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            "(has(oldSelf.spec.maximumExecutionTimeSeconds) ? oldSelf.spec.maximumExecutionTimeSeconds : 0)",
            " == (has(self.spec.maximumExecutionTimeSeconds) ? self.spec.maximumExecutionTimeSeconds : 0) || !(",
            has_condition!("oldSelf", "Admitted"),
            " && ",
            has_condition!("self", "Admitted"),
            ")",
        ),
        "maximumExecutionTimeSeconds cannot be changed while the workload is admitted",
    ),
];

pub(crate) use has_condition;
