//! Workloads that need MIG instances, and the layouts of nodes: what is seen of them, and what is to be done next.

use std::{cmp::Reverse, collections::BTreeSet};

use kube::ResourceExt;
use whalezen_core::{
    name::WorkloadKey,
    workload::{Phase, Timestamp},
};
use whalezen_crds::scheduling::v1alpha1::{GPUNode, MIGPolicy};

use super::{
    super::{
        mig::{self, Ground, Step, known::NodeView},
        workload::WorkloadView,
    },
    Objects,
};
use crate::write::Write;

impl Objects {
    /// A `GPUNode` was seen.
    pub fn apply_gpu_node(&mut self, object: &GPUNode) {
        let any = self.layouts.any();
        let (before, news) = self.layouts.apply_node(object);
        if !news {
            return;
        }
        let name = object.name_any();
        if let Some((before, view)) = before.as_ref().zip(self.layouts.node(&name)) {
            let notes = mig::reported(view, before, |key| self.of(key));
            self.due.notes.extend(notes);
        }
        // Agents write their status anew when nothing has changed, so that one sees that they are there.
        let same = |before: &NodeView| {
            self.layouts
                .node(&name)
                .is_some_and(|view| NodeView { version: before.version, ..view.clone() } == *before)
        };
        if !any || !before.as_ref().is_some_and(same) {
            self.layout_due(&name);
        }
    }

    /// A `GPUNode` is gone.
    pub fn delete_gpu_node(&mut self, name: &str) {
        if self.layouts.delete_node(name).is_some() {
            self.layout_due(name);
        }
    }

    /// A `MIGPolicy` was seen.
    pub fn apply_mig_policy(&mut self, object: &MIGPolicy) {
        self.layouts.apply_policy(object);
        self.due.instances.extend(self.waiting.iter().cloned());
    }

    /// A `MIGPolicy` is gone.
    pub fn delete_mig_policy(&mut self, name: &str) {
        self.layouts.delete_policy(name);
    }

    /// Makes the layout of a node due, and whoever waits for instances.
    pub fn layout_due(&mut self, name: &str) {
        self.due.layouts.insert(name.to_owned());
        self.due.instances.extend(self.waiting.iter().cloned());
    }

    /// Makes a Workload's instances due.
    pub fn instances_due(&mut self, key: &WorkloadKey) {
        self.due.instances.insert(key.clone());
    }

    pub(super) fn all_layouts_due(&mut self) {
        self.due.layouts.extend(self.layouts.nodes().map(|view| view.name.clone()));
        self.due.instances.extend(self.waiting.iter().cloned());
    }

    /// A node has changed, which may offer now what somebody waits for, or take its pods.
    pub(super) fn layout_may_be_shown(&mut self, name: &str) {
        if self.layouts.node(name).is_some() {
            self.due.instances.extend(self.waiting.iter().cloned());
        }
    }

    /// A Workload was seen: whether it waits for instances, and what claims it has.
    pub(super) fn note_layouts(&mut self, key: &WorkloadKey, view: &WorkloadView) {
        if mig::is_waiting(view) {
            self.waiting.insert(key.clone());
            self.due.instances.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        self.claims_due(&view.uid);
    }

    /// A Workload is gone.
    pub(super) fn forget_layouts(&mut self, key: &WorkloadKey, uid: &str) {
        self.waiting.remove(key);
        self.claims_due(uid);
    }

    fn claims_due(&mut self, uid: &str) {
        let nodes: BTreeSet<String> = self.layouts.nodes_of(uid).map(|view| view.name.clone()).collect();
        self.due.layouts.extend(nodes);
    }

    /// Where instances are looked for now.
    pub fn ground(&self) -> Ground<'_> {
        Ground::new(&self.layouts, &self.state)
    }

    /// The next step for a Workload that waits for instances, by this ground. While they are being reserved it has none.
    pub fn next_instances_step(&self, key: &WorkloadKey, ground: &mut Ground<'_>, now: Timestamp) -> Step {
        if self.reserving.values().any(|for_whom| for_whom.as_ref() == Some(key)) {
            return Step::Until(None);
        }
        match self.of(key).filter(|of| !of.view.deleting && !of.view.unreadable) {
            Some(of) => mig::next(of, ground, now),
            None => Step::Until(None),
        }
    }

    /// The next step for each of these: first for those of the highest priority, and of them for who holds quota longest.
    pub fn next_instances_steps(
        &self,
        keys: BTreeSet<WorkloadKey>,
        now: Timestamp,
    ) -> Vec<(WorkloadKey, Step)> {
        let turn = |key: &WorkloadKey| {
            let workload = self.state.workload(key)?;
            let since = match &workload.phase {
                Phase::Reserved { since, .. } => Some(*since),
                Phase::Pending | Phase::Finished => None,
            };
            Some((Reverse(workload.priority), since))
        };
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_by_cached_key(turn);
        let mut ground = self.ground();
        let step = |key: WorkloadKey| {
            let step = self.next_instances_step(&key, &mut ground, now);
            (key, step)
        };
        keys.into_iter().map(step).collect()
    }

    /// The write that takes out of a node's layout what is nobody's any more.
    pub fn tidy_layout(&self, name: &str) -> Option<Write> {
        mig::tidy(name, &self.layouts, |key| self.of(key))
    }

    /// A node's layout is being written, for this Workload or to tidy it.
    pub fn layout_sent(&mut self, name: &str, for_whom: Option<&WorkloadKey>) {
        self.reserving.insert(name.to_owned(), for_whom.cloned());
    }

    /// That came to an end, in whatever way.
    pub fn layout_answered(&mut self, name: &str) {
        if let Some(for_whom) = self.reserving.remove(name) {
            self.due.instances.extend(for_whom);
        }
    }
}
