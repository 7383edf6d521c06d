//! A world around a state: what watches would tell it, and what an API server would make of its plans.

use std::{collections::BTreeSet, sync::Arc};

use super::build::{
    CohortBuilder, FlavorBuilder, LocalQueueBuilder, NamespaceBuilder, QueueBuilder, key, local_key,
};
use super::{nodes::NodeBuilder, workload::WorkloadBuilder};
use crate::{
    labels::Labels,
    name::{FlavorName, FlavorResource, WorkloadKey},
    plan::{Admit, Evict, Plan, Policy, plan},
    quantity::Amount,
    state::{Report, State, Tally},
    topology::{Pod, Spot, Topology},
    verdict::Verdict,
    workload::{Eviction, Phase, Timestamp, Workload},
};

/// A state with what is around it: time, the versions of objects, and who writes the plans.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The state.
    pub state: State,
    /// The policy of its plans.
    pub policy: Policy,
    /// The moment of its plans.
    pub now: Timestamp,
    version: u64,
    namespaces: BTreeSet<Arc<str>>,
}

/// Something that a watch would tell the state.
pub trait Fact {
    /// Tells it.
    fn tell(self, world: &mut World);
}

impl Fact for FlavorBuilder {
    fn tell(self, world: &mut World) {
        world.state.apply_flavor(self.into());
    }
}

impl Fact for CohortBuilder {
    fn tell(self, world: &mut World) {
        world.state.apply_cohort(self.into());
    }
}

impl Fact for QueueBuilder {
    fn tell(self, world: &mut World) {
        world.state.apply_queue(self.into());
    }
}

impl Fact for NamespaceBuilder {
    fn tell(self, world: &mut World) {
        world.state.apply_namespace(&self.name, self.labels);
        world.namespaces.insert(self.name);
    }
}

impl Fact for LocalQueueBuilder {
    fn tell(self, world: &mut World) {
        world.state.apply_local_queue(self.into());
    }
}

impl Fact for Topology {
    fn tell(self, world: &mut World) {
        world.state.apply_topology(self);
    }
}

impl Fact for NodeBuilder {
    fn tell(self, world: &mut World) {
        world.state.apply_node(self.into());
    }
}

impl Fact for Pod {
    fn tell(self, world: &mut World) {
        world.state.apply_pod(self);
    }
}

impl Fact for WorkloadBuilder {
    fn tell(self, world: &mut World) {
        Workload::from(self).tell(world);
    }
}

impl Fact for Workload {
    fn tell(mut self, world: &mut World) {
        if self.version == 0 {
            self.version = world.next_version();
        }
        world.version = world.version.max(self.version);
        if world.namespaces.insert(Arc::clone(&self.key.namespace)) {
            world.state.apply_namespace(&self.key.namespace, Labels::new());
        }
        world.state.apply_workload(self);
    }
}

/// What the API server answers to the write of an admission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Accepted,
    /// It is not, and may be tried again at once.
    Conflict,
    /// It is not, and the same would be refused again.
    Refused,
}

/// Who writes the admissions and the evictions of a plan.
pub trait Applier {
    /// What becomes of one.
    fn write(&mut self, admit: &Admit) -> Answer;

    /// What becomes of an eviction: it is done, unless the applier has its own ways.
    fn evict(&mut self, _: &Evict) -> Answer {
        Answer::Accepted
    }
}

/// Everything is accepted.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObligingApplier;

impl Applier for ObligingApplier {
    fn write(&mut self, _: &Admit) -> Answer {
        Answer::Accepted
    }
}

/// The next so many admissions get the same answer; after that, all are accepted.
#[derive(Clone, Copy, Debug)]
pub struct RefusingApplier {
    /// How many.
    pub times: usize,
    /// Their answer.
    pub with: Answer,
}

impl Applier for RefusingApplier {
    fn write(&mut self, _: &Admit) -> Answer {
        if self.times == 0 {
            return Answer::Accepted;
        }
        self.times -= 1;
        self.with
    }
}

/// Telling.
impl World {
    /// An empty world at moment 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The world after a fact.
    pub fn with(mut self, fact: impl Fact) -> Self {
        self.tell(fact);
        self
    }

    /// A fact happens. A namespace that a workload is the first to mention has no labels.
    pub fn tell(&mut self, fact: impl Fact) {
        fact.tell(self);
    }

    /// The workload's object changes.
    pub fn change(&mut self, workload: &str, change: impl FnOnce(&mut Workload)) {
        if let Some(mut workload) = self.state.workload(&key(workload)).cloned() {
            change(&mut workload);
            workload.version = self.next_version();
            self.state.apply_workload(workload);
        }
    }

    /// The workload is over.
    pub fn finish(&mut self, workload: &str) {
        self.change(workload, |workload| workload.phase = Phase::Finished);
    }

    /// The workload's quota was taken back: it waits again.
    pub fn requeue(&mut self, workload: &str) {
        self.change(workload, |workload| workload.phase = Phase::Pending);
    }

    /// The workload's object says that it has to stop. It keeps its quota.
    pub fn tell_to_stop(&mut self, workload: &str, why: Eviction) {
        self.change(workload, |workload| {
            if let Phase::Reserved { evicted, .. } = &mut workload.phase {
                *evicted = Some(why);
            }
        });
    }

    /// Everybody who was told to stop has: they wait again.
    pub fn stop(&mut self) {
        for workload in self.evicted() {
            self.requeue(&workload);
        }
    }

    /// Plans, with everything accepted and everybody stopping at once, until there is nothing more to do. Says
    /// whether it came to that: plans could go round in circles.
    pub fn comes_to_rest(&mut self) -> bool {
        const ROUNDS: usize = 1000;
        (0..ROUNDS).any(|_| {
            let admitted = self.run();
            let nobody_stops = self.evicted().is_empty();
            self.stop();
            self.state.settle();
            admitted.is_empty() && nobody_stops && self.state.awake_lines().next().is_none()
        })
    }

    /// The workload's object is gone.
    pub fn delete(&mut self, workload: &str) {
        self.state.delete_workload(&key(workload));
    }

    /// A `resourceVersion` higher than all before it.
    pub fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

/// Deciding.
impl World {
    /// The plan for now; nothing of it is done.
    pub fn plan(&mut self) -> Plan {
        self.state.settle();
        self.state.account(self.now);
        plan(&self.state, self.now, &self.policy)
    }

    /// One plan, and what an applier makes of it.
    pub fn step(&mut self, applier: &mut impl Applier) -> Plan {
        let plan = self.plan();
        self.apply(&plan, applier);
        plan
    }

    /// Does what the operator does with a plan: parks, holds, evicts, assumes, writes, and believes the answers.
    pub fn apply(&mut self, plan: &Plan, applier: &mut impl Applier) {
        self.state.follow(plan, self.now, &self.policy);
        for evict in &plan.evict {
            match applier.evict(evict) {
                Answer::Accepted => self.tell_to_stop(&evict.workload.to_string(), Eviction::Preempted),
                Answer::Conflict | Answer::Refused => self.state.spare(&evict.workload),
            }
        }
        for admit in &plan.admit {
            if !self.state.assume(admit) {
                continue;
            }
            match applier.write(admit) {
                Answer::Accepted => {
                    if let Some(workload) = self.accepted(admit) {
                        self.state.confirm(workload);
                    }
                }
                Answer::Conflict => self.state.forget(&admit.workload),
                Answer::Refused => self.state.refuse(&admit.workload, "no".into()),
            }
        }
    }

    /// The object with which the API server would answer to an admission.
    pub fn accepted(&mut self, admit: &Admit) -> Option<Workload> {
        let mut workload = self.state.workload(&admit.workload)?.clone();
        workload.version = self.next_version();
        let (admission, since) = (admit.admission.clone(), admit.at);
        workload.phase = Phase::Reserved { admission, admitted: true, evicted: None, since };
        Some(workload)
    }

    /// Plans, with everything accepted, until there is nothing more to do. Gives all that was admitted, in order.
    pub fn run(&mut self) -> Vec<String> {
        self.run_with(&mut ObligingApplier)
    }

    /// Plans until there is nothing more to do. Gives all that was tried, in order.
    pub fn run_with(&mut self, applier: &mut impl Applier) -> Vec<String> {
        let mut admitted = Vec::new();
        loop {
            let plan = self.step(applier);
            if plan.admit.is_empty() && plan.evict.is_empty() && !plan.more {
                return admitted;
            }
            admitted.extend(plan.admit.iter().map(|admit| admit.workload.to_string()));
        }
    }
}

/// Looking.
impl World {
    /// Everybody who holds quota, or is believed to, by name.
    pub fn holders(&self) -> Vec<String> {
        let holds = |key: &&WorkloadKey| self.state.admission(key).is_some();
        self.state.workloads().filter(holds).map(ToString::to_string).collect()
    }

    /// Everybody who was told to stop and has not.
    pub fn evicted(&self) -> Vec<String> {
        let told = |key: &&WorkloadKey| {
            matches!(
                self.state.workload(key).map(|workload| &workload.phase),
                Some(Phase::Reserved { evicted: Some(_), .. })
            )
        };
        self.state.workloads().filter(told).map(ToString::to_string).collect()
    }

    /// Why a workload waits.
    pub fn verdict(&self, workload: &str) -> Option<Verdict> {
        self.state.verdict(&key(workload))
    }

    /// The flavor that a workload holds a resource of a pod set from.
    pub fn flavor_of(&self, workload: &str, pod_set: &str, resource: &str) -> Option<&str> {
        let admission = self.state.admission(&key(workload))?;
        let pod_set = admission.pod_sets.iter().find(|of| *of.name == *pod_set)?;
        pod_set.flavors.get(&resource.into()).map(FlavorName::as_str)
    }

    /// Where the pods of a set are placed, as `host:pods host:pods`; nothing if they are not.
    pub fn place_of(&self, workload: &str, pod_set: &str) -> String {
        let given = self.state.admission(&key(workload)).map(|admission| &admission.pod_sets);
        let pod_set = given.into_iter().flatten().find(|of| *of.name == *pod_set);
        let spots = pod_set.and_then(|of| of.placement.as_ref()).map(|placement| &placement.spots);
        let text = |spot: &Spot| format!("{}:{}", spot.values.join("/"), spot.count);
        spots.into_iter().flatten().map(text).collect::<Vec<_>>().join(" ")
    }

    /// What is used of a ClusterQueue.
    pub fn used(&self, queue: &str, flavor: &str, resource: &str) -> Amount {
        let leaf = self.state.forest().leaf(&queue.into());
        let get = |leaf| self.state.used().get(leaf, &FlavorResource::new(flavor, resource));
        leaf.map(get).unwrap_or_default()
    }

    /// What is available to a ClusterQueue.
    pub fn available(&self, queue: &str, flavor: &str, resource: &str) -> Amount {
        let forest = self.state.forest();
        let get = |leaf| forest.available(self.state.used(), leaf, &FlavorResource::new(flavor, resource));
        forest.leaf(&queue.into()).map(get).unwrap_or_default()
    }

    /// The counts of a ClusterQueue.
    pub fn tally(&self, queue: &str) -> Tally {
        self.state.tally(&queue.into())
    }

    /// The counts of a LocalQueue.
    pub fn local_tally(&self, queue: &str) -> Tally {
        self.state.local_tally(&local_key(queue))
    }

    /// Every report that is due, as `workload: reason`.
    pub fn reports(&mut self) -> Vec<String> {
        let reports = self.state.take_reports(usize::MAX);
        reports.iter().map(|Report { workload, verdict }| format!("{workload}: {}", verdict.reason)).collect()
    }
}
