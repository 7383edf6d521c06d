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

/// The CEL expression "the workload held quota, and has named a priority class all along".
macro_rules! keeps_a_class {
    () => {
        concat!(
            has_condition!("oldSelf", "QuotaReserved"),
            " && has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)",
        )
    };
}

/// Each rule in CEL, with the sentence that a violation shows.
pub(super) const RULES: &[(&str, &str)] = &[
    (
        concat!(
            has_condition!("self", "QuotaReserved"),
            " && has(self.status.admission)",
            " ? size(self.spec.podSets) == size(self.status.admission.podSetAssignments) : true",
        ),
        "the admission must have one podSetAssignment for each of the podSets",
    ),
    (
        concat!(
            "(",
            has_condition!("oldSelf", "QuotaReserved"),
            ")",
            " ? (!has(oldSelf.spec.priorityClassRef) && !has(self.spec.priorityClassRef))",
            " || (has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)) : true",
        ),
        "priorityClassRef can be neither added nor removed while the workload holds quota",
    ),
    (
        concat!(
            "(",
            keeps_a_class!(),
            ")",
            " ? oldSelf.spec.priorityClassRef.group == self.spec.priorityClassRef.group : true",
        ),
        "priorityClassRef.group cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            "(",
            keeps_a_class!(),
            ")",
            " ? oldSelf.spec.priorityClassRef.kind == self.spec.priorityClassRef.kind : true",
        ),
        "priorityClassRef.kind cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            "(",
            keeps_a_class!(),
            " && self.spec.priorityClassRef.group == 'scheduling.k8s.io'",
            " && self.spec.priorityClassRef.kind == 'PriorityClass')",
            " ? oldSelf.spec.priorityClassRef.name == self.spec.priorityClassRef.name : true",
        ),
        "the name of a pod PriorityClass cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            "((",
            has_condition!("oldSelf", "QuotaReserved"),
            ") && (",
            has_condition!("self", "QuotaReserved"),
            "))",
            " ? ((has(oldSelf.spec.queueName) == has(self.spec.queueName))",
            " && (!has(oldSelf.spec.queueName) || oldSelf.spec.queueName == self.spec.queueName)) : true",
        ),
        "queueName cannot be changed while the workload holds quota",
    ),
    (
        concat!(
            "((",
            has_condition!("oldSelf", "Admitted"),
            ") && (",
            has_condition!("self", "Admitted"),
            "))",
            "?((has(oldSelf.spec.maximumExecutionTimeSeconds)?oldSelf.spec.maximumExecutionTimeSeconds:0) == ",
            " (has(self.spec.maximumExecutionTimeSeconds)?self.spec.maximumExecutionTimeSeconds:0)):true",
        ),
        "maximumExecutionTimeSeconds cannot be changed while the workload is admitted",
    ),
];
