//! The one way into a state: whatever changes it is an [`Event`] or a plan that is followed. So what happened can be put
//! on record where it happens, and told again to the state of a [snapshot](super::Snapshot).

use std::sync::Arc;

use super::{Event, Planned, State, Step};
use crate::{
    brakes::Past,
    consumption::{Consumed, Memory, Rules},
    flavor::Flavor,
    labels::Labels,
    name::{
        CheckName, ClusterQueueName, CohortName, FlavorName, HostName, LocalQueueKey, PodKey, TopologyName,
        WorkloadKey,
    },
    plan::{Admit, Plan, Policy},
    queue::{Check, ClusterQueue, Cohort, LocalQueue},
    topology::{Node, Pod, Topology},
    workload::{Admission, PodSet, Timestamp, Workload},
};

/// The record.
impl State {
    /// Puts on record what happens from now on. To be called in a settled state, whose snapshot is what the record goes
    /// on from.
    pub fn start_recording(&mut self) {
        debug_assert!(self.is_settled(), "a snapshot has no more than what is settled");
        self.record.get_or_insert_default();
    }

    /// Puts nothing on record any more, and drops what was not taken.
    pub fn stop_recording(&mut self) {
        self.record = None;
    }

    /// Whether what happens is put on record.
    pub fn is_recording(&self) -> bool {
        self.record.is_some()
    }

    /// What happened since the last call, in order; without what made no difference to any plan.
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether an event makes a difference to what a plan depends on. It may say so of one that does not.
    fn is_news(&self, event: &Event) -> bool {
        let facts = &self.facts;
        match event {
            Event::Flavor(flavor) => facts.flavors.get(&flavor.name) != Some(flavor),
            Event::Cohort(cohort) => facts.cohorts.get(&cohort.name) != Some(cohort),
            Event::ClusterQueue(queue) => facts.queues.get(&queue.name) != Some(queue),
            Event::Check(check) => facts.checks.get(&check.name) != Some(check),
            Event::Topology(topology) => facts.topologies.get(&topology.name) != Some(topology),
            Event::Node(node) => facts.nodes.get(&node.name) != Some(&**node),
            Event::NodeGone(name) => facts.nodes.contains_key(name),
            Event::Pod(pod) => facts.pods.get(&pod.key) != Some(pod),
            Event::PodGone(key) => facts.pods.contains_key(key),
            Event::LocalQueue(queue) => facts.local_queues.get(&queue.key) != Some(queue),
            Event::Namespace(name, labels) => facts.namespaces.get(name) != Some(labels),
            Event::Workload(workload) => !self.is_old(workload),
            Event::Recalled(queue, _) => {
                let knows_more = |memory: &Memory| memory.consumed().is_some();
                self.consumption().is_some() && !self.memory(queue).is_some_and(knows_more)
            }
            Event::Accounted(now) => !self.due(*now).is_empty(),
            Event::BrakesReleased => !self.braked.is_empty(),
            Event::Settled => !self.is_settled(),
            _ => true,
        }
    }
}

/// The way in.
impl State {
    /// Tells the state something.
    pub fn tell(&mut self, event: Event) {
        if self.record.is_some() && self.is_news(&event) {
            let step = Step::Told(event.clone());
            self.record.get_or_insert_default().push(step);
        }
        match event {
            Event::Flavor(flavor) => self.see_flavor(flavor),
            Event::FlavorGone(name) => self.lose_flavor(&name),
            Event::Cohort(cohort) => self.see_cohort(cohort),
            Event::CohortGone(name) => self.lose_cohort(&name),
            Event::ClusterQueue(queue) => self.see_queue(*queue),
            Event::ClusterQueueGone(name) => self.lose_queue(&name),
            Event::Check(check) => self.see_check(check),
            Event::CheckGone(name) => self.lose_check(&name),
            Event::Topology(topology) => self.see_topology(topology),
            Event::TopologyGone(name) => self.lose_topology(&name),
            Event::Node(node) => self.see_node(*node),
            Event::NodeGone(name) => self.lose_node(&name),
            Event::Pod(pod) => self.see_pod(pod),
            Event::PodGone(key) => self.lose_pod(&key),
            Event::LocalQueue(queue) => self.see_local_queue(queue),
            Event::LocalQueueGone(key) => self.lose_local_queue(&key),
            Event::Namespace(name, labels) => self.see_namespace(&name, labels),
            Event::NamespaceGone(name) => self.lose_namespace(&name),
            Event::Workload(workload) => self.see_workload(*workload),
            Event::WorkloadGone(key) => self.lose_workload(&key),
            Event::Recounted { workload, pod_sets, inadmissible } => {
                self.see_count(&workload, pod_sets, inadmissible);
            }
            Event::Assumed(admit) => self.believe(*admit),
            Event::Moved(key, admission) => self.believe_move(&key, *admission),
            Event::Confirmed(workload) => self.see_written(*workload),
            Event::Forgotten(key) => self.take_back(&key),
            Event::Refused(key, problem) => self.take_back_for_good(&key, problem),
            Event::TriedAgain(key) => self.let_in_again(&key),
            Event::Spared(key) => self.let_go_on(&key),
            Event::Reported(key, told) => self.note_told(&key, told),
            Event::Unreported(key) => self.note_untold(&key),
            Event::Remembers(rules) => self.set_rules(rules),
            Event::Recalled(queue, consumed) => self.see_consumed(&queue, consumed),
            Event::Accounted(now) => self.work_out(now),
            Event::AccountingStopped => self.start_memories_over(),
            Event::EvictionsRecalled(others) => self.see_evictions(others),
            Event::BrakesReleased => self.wake_braked(),
            Event::Settled => self.bring_up_to_date(),
        }
    }

    /// Believes everything in a plan but its admissions, which are [assumed](Self::assume) as they are written. To
    /// be called before any other change, or what happened since the plan would go unnoticed by those it could help.
    /// The moment and the policy are those that the plan was made for.
    pub fn follow(&mut self, plan: &Plan, at: Timestamp, policy: &Policy) {
        if let Some(record) = &mut self.record {
            let planned = Planned { at, policy: policy.clone(), plan: plan.clone() };
            record.push(Step::Planned(Box::new(planned)));
        }
        self.believe_plan(plan);
    }
}

/// Declarations, in force after the next [settling](Self::settle).
impl State {
    /// A flavor was seen.
    pub fn apply_flavor(&mut self, flavor: Flavor) {
        self.tell(Event::Flavor(flavor));
    }

    /// A flavor is gone.
    pub fn delete_flavor(&mut self, name: &FlavorName) {
        self.tell(Event::FlavorGone(name.clone()));
    }

    /// A cohort was seen.
    pub fn apply_cohort(&mut self, cohort: Cohort) {
        self.tell(Event::Cohort(cohort));
    }

    /// A cohort is gone.
    pub fn delete_cohort(&mut self, name: &CohortName) {
        self.tell(Event::CohortGone(name.clone()));
    }

    /// A ClusterQueue was seen. One that became invalid admits nothing more, but keeps the quota that it had, for
    /// what its workloads hold and what others borrow from it.
    pub fn apply_queue(&mut self, queue: ClusterQueue) {
        self.tell(Event::ClusterQueue(Box::new(queue)));
    }

    /// A ClusterQueue is gone.
    pub fn delete_queue(&mut self, name: &ClusterQueueName) {
        self.tell(Event::ClusterQueueGone(name.clone()));
    }

    /// An admission check was seen.
    pub fn apply_check(&mut self, check: Check) {
        self.tell(Event::Check(check));
    }

    /// An admission check is gone.
    pub fn delete_check(&mut self, name: &CheckName) {
        self.tell(Event::CheckGone(name.clone()));
    }

    /// A topology was seen.
    pub fn apply_topology(&mut self, topology: Topology) {
        self.tell(Event::Topology(topology));
    }

    /// A topology is gone.
    pub fn delete_topology(&mut self, name: &TopologyName) {
        self.tell(Event::TopologyGone(name.clone()));
    }

    /// A node was seen that is ready and schedulable.
    pub fn apply_node(&mut self, node: Node) {
        self.tell(Event::Node(Box::new(node)));
    }

    /// A node is gone, or is not ready, or takes no pods.
    pub fn delete_node(&mut self, name: &HostName) {
        self.tell(Event::NodeGone(name.clone()));
    }

    /// A pod was seen that is bound to a node, is not over, and that no placement accounts for.
    pub fn apply_pod(&mut self, pod: Pod) {
        self.tell(Event::Pod(pod));
    }

    /// A pod is not such a one any more.
    pub fn delete_pod(&mut self, key: &PodKey) {
        self.tell(Event::PodGone(key.clone()));
    }

    /// A LocalQueue was seen.
    pub fn apply_local_queue(&mut self, queue: LocalQueue) {
        self.tell(Event::LocalQueue(queue));
    }

    /// A LocalQueue is gone.
    pub fn delete_local_queue(&mut self, key: &LocalQueueKey) {
        self.tell(Event::LocalQueueGone(key.clone()));
    }

    /// A namespace was seen with these labels.
    pub fn apply_namespace(&mut self, name: &str, labels: Labels) {
        self.tell(Event::Namespace(name.into(), labels));
    }

    /// A namespace is gone.
    pub fn delete_namespace(&mut self, name: &str) {
        self.tell(Event::NamespaceGone(name.into()));
    }

    /// Brings everything derived up to date: what depends on changed declarations is recomputed, and those wake
    /// who wait where something was given back.
    pub fn settle(&mut self) {
        self.tell(Event::Settled);
    }
}

/// Workloads.
impl State {
    /// A workload was seen. What is older than what is known of that name, or not newer than what is known of the
    /// same object, is ignored.
    pub fn apply_workload(&mut self, workload: Workload) {
        self.tell(Event::Workload(Box::new(workload)));
    }

    /// A workload's pods are counted anew, because what they are counted by has changed and not their object.
    pub fn recount(
        &mut self,
        key: &WorkloadKey,
        pod_sets: Result<Arc<[PodSet]>, String>,
        inadmissible: Option<String>,
    ) {
        self.tell(Event::Recounted { workload: key.clone(), pod_sets, inadmissible });
    }

    /// A workload is gone.
    pub fn delete_workload(&mut self, key: &WorkloadKey) {
        self.tell(Event::WorkloadGone(key.clone()));
    }

    /// Believes that a planned admission happens, until [`confirm`](Self::confirm) or [`forget`](Self::forget).
    /// Says whether it does: not if the workload has left its queue or is another version than was planned for.
    pub fn assume(&mut self, admit: &Admit) -> bool {
        let may_happen = self.may_happen(admit);
        if may_happen {
            self.tell(Event::Assumed(Box::new(admit.clone())));
        }
        may_happen
    }

    /// Believes that a workload gets another place and holds this then, until more is seen of it.
    pub fn assume_move(&mut self, key: &WorkloadKey, admission: Admission) {
        self.tell(Event::Moved(key.clone(), Box::new(admission)));
    }

    /// The API server accepted a write to this workload and answered with it as it is now.
    pub fn confirm(&mut self, workload: Workload) {
        self.tell(Event::Confirmed(Box::new(workload)));
    }

    /// Takes an assumption back.
    pub fn forget(&mut self, key: &WorkloadKey) {
        self.tell(Event::Forgotten(key.clone()));
    }

    /// Takes an assumption back because the API server refused the write. The workload waits, and holds nobody
    /// up, until its object changes or [`try_again`](Self::try_again) is called.
    pub fn refuse(&mut self, key: &WorkloadKey, problem: String) {
        self.tell(Event::Refused(key.clone(), problem));
    }

    /// Lets a refused workload queue again.
    pub fn try_again(&mut self, key: &WorkloadKey) {
        self.tell(Event::TriedAgain(key.clone()));
    }

    /// Takes an eviction back that was not written yet. Whoever it was for is looked at again.
    pub fn spare(&mut self, key: &WorkloadKey) {
        self.tell(Event::Spared(key.clone()));
    }

    /// A report could not be written: it is due again.
    pub fn report_again(&mut self, key: &WorkloadKey) {
        self.tell(Event::Unreported(key.clone()));
    }
}

/// What is remembered.
impl State {
    /// From now on what `LocalQueues` consume is remembered by these rules, or not at all.
    pub fn remember(&mut self, rules: Option<Rules>) {
        self.tell(Event::Remembers(rules));
    }

    /// What the status of a LocalQueue says that it consumed. It counts until more is known.
    pub fn recall(&mut self, queue: &LocalQueueKey, consumed: Consumed) {
        self.tell(Event::Recalled(queue.clone(), consumed));
    }

    /// Works out what `LocalQueues` consumed until now: of each every sampling interval, and once somebody of it was
    /// admitted. Of one that is stopped, or cannot get anybody admitted, nothing is worked out meanwhile.
    pub fn account(&mut self, now: Timestamp) {
        self.tell(Event::Accounted(now));
    }

    /// Another replica admits from now on: what the `LocalQueues`' status says counts again.
    pub fn stop_accounting(&mut self) {
        self.tell(Event::AccountingStopped);
    }

    /// What is known of evictions that others may have planned. Of each ClusterQueue the longer of both lists counts:
    /// what was planned here is in the other one too, at another second.
    pub fn recall_evictions(&mut self, others: Vec<Past>) {
        self.tell(Event::EvictionsRecalled(others));
    }

    /// Has those looked at again whom the brakes held back. To be called when the brakes changed, and now and then.
    pub fn release_brakes(&mut self) {
        self.tell(Event::BrakesReleased);
    }
}
