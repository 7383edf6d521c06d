//! Pods of an admitted Workload are bound to the domains that were chosen for them (KEP-2724).
//!
//! They are born with a scheduling gate. It is taken off when the domain of a pod is in its node selector. Where each pod
//! of a set says which of them it is, those that talk to each other most are neighbours: the first domain gets the first
//! pods, and so on. Otherwise each domain gets as many as there is room for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use whalezen_core::topology::{Placement, Spot};
use whalezen_crds::kueue::{
    constants::{annotation, condition as types, label, scheduling_gate},
    v1beta2::{Admission, PodSetAssignment, PodSetTopologyRequest, Workload},
};

use super::{
    super::{conditions, topology},
    JobView, Of, Step,
    slices::{has_ended, is_gated, open_gate},
};
use crate::write::Write;

/// Pods of one template, and where they are to be.
struct Placed<'a> {
    count: u64,
    placement: Placement,
    request: Option<&'a PodSetTopologyRequest>,
    /// How many pods of its group come before its own.
    before: u64,
}

/// The step by which a job's pods are bound, if it runs by an admission that says where they are to be.
pub fn step(job: &JobView, of: Of<'_>) -> Option<Step> {
    let mark = of.view.mark(of.key);
    let runs = !job.suspended && !job.deleting && job.injected.as_deref() == Some(mark);
    let placed = of.admitted()?.pod_sets.iter().any(|set| set.placement.is_some());
    let stays = !of.view.deleting && !of.view.is(types::EVICTED) && !of.view.is(types::FINISHED);
    (runs && placed && stays).then(|| Step::Bind { mark: mark.to_owned() })
}

/// The writes that bind those pods of an admitted Workload that wait for it. Its pods are those of its namespace that have
/// its mark.
pub fn bind(workload: &Workload, pods: &[Pod], mark: &str) -> Vec<Write> {
    let Some(status) = &workload.status else { return vec![] };
    let is = |type_| conditions::is_true(&status.conditions, type_);
    let Some(given) = status.admission.as_ref().filter(|_| is(types::ADMITTED)) else { return vec![] };
    if is(types::EVICTED) || is(types::FINISHED) || workload.metadata.deletion_timestamp.is_some() {
        return vec![];
    }
    let of_set = |name: &str| {
        let own = move |pod: &&Pod| {
            pod.labels().get(label::POD_SET).is_some_and(|of| of == name)
                && mark_of(pod) == Some(mark)
                && !has_ended(pod)
                && has_quota(pod)
        };
        pods.iter().filter(own).collect::<Vec<_>>()
    };
    let sets = placed(workload, given);
    sets.iter().flat_map(|(name, set)| set.bind(&of_set(name))).collect()
}

/// The pod sets that are placed, by name.
fn placed<'a>(workload: &'a Workload, given: &'a Admission) -> BTreeMap<&'a str, Placed<'a>> {
    let request = |name: &str| {
        let set = workload.spec.pod_sets.iter().find(|set| set.name == name)?;
        set.topology_request.as_ref()
    };
    let size = |count: Option<i32>| u64::try_from(count.unwrap_or_default()).unwrap_or_default();
    let group = |name: &str| request(name).and_then(|request| request.pod_set_group_name.as_deref());
    let assignments = || given.pod_set_assignments.iter();
    let set = |(index, set): (usize, &'a PodSetAssignment)| {
        // Of a leader and its workers, which are a group, the leader is the smaller set and comes first.
        let others = assignments().enumerate().filter(|(other, of)| {
            *other != index && group(&set.name).is_some_and(|name| group(&of.name) == Some(name))
        });
        let leads =
            |(other, of): &(usize, &PodSetAssignment)| (size(of.count), *other) < (size(set.count), index);
        let before = others.filter(leads).map(|(_, of)| size(of.count)).sum();
        let placement = topology::read(set.topology_assignment.as_ref()?);
        let placed = Placed { count: size(set.count), placement, request: request(&set.name), before };
        Some((&*set.name, placed))
    };
    assignments().enumerate().filter_map(set).collect()
}

impl Placed<'_> {
    fn bind(&self, pods: &[&Pod]) -> Vec<Write> {
        let ends = self.placement.spots.iter().scan(0_u64, |end, spot| {
            *end = end.saturating_add(spot.count.into());
            Some(*end)
        });
        let ends: Vec<u64> = ends.collect();
        let chosen = self.by_rank(pods, &ends).unwrap_or_else(|| self.by_room(pods));
        let write = |(pod, spot): (&Pod, &Spot)| {
            let mut write = open_gate(pod, scheduling_gate::TOPOLOGY);
            let selector = self.placement.levels.iter().zip(&spot.values);
            let selector: Value =
                selector.map(|(level, value)| (level.to_string(), json!(**value))).collect();
            if let Some(spec) = write.body.get_mut("spec").and_then(Value::as_object_mut) {
                spec.insert("nodeSelector".to_owned(), selector);
            }
            write
        };
        chosen.into_iter().map(write).collect()
    }

    /// Where the pods go that wait, by which of them each is. None, if that is not known of all, or one is elsewhere.
    fn by_rank<'p>(&self, pods: &[&'p Pod], ends: &[u64]) -> Option<Vec<(&'p Pod, &Spot)>> {
        let mut by_rank: BTreeMap<u64, &Pod> = BTreeMap::new();
        for pod in pods {
            if by_rank.insert(self.rank(pod, pods)?, pod).is_some() {
                return None;
            }
        }
        let mut chosen = vec![];
        for (rank, pod) in by_rank {
            let spot = self.placement.spots.get(ends.partition_point(|end| *end <= rank))?;
            if waits(pod) {
                chosen.push((pod, spot));
            } else if !self.is_in(pod, spot) {
                return None;
            }
        }
        Some(chosen)
    }

    /// Which of the set's pods a pod is.
    fn rank(&self, pod: &Pod, pods: &[&Pod]) -> Option<u64> {
        let number = |label: &str, end: u64| {
            let number: u64 = pod.labels().get(label)?.parse().ok()?;
            (number < end).then_some(number)
        };
        let request = self.request?;
        // All pods of a set count from the same.
        let offset = match pods.first().and_then(|pod| pod.annotations().get(annotation::POD_INDEX_OFFSET)) {
            Some(text) => text.parse::<u64>().ok()?,
            None => 0,
        };
        let before = self.before.saturating_add(offset);
        let index = number(request.pod_index_label.as_deref()?, before.saturating_add(self.count))?;
        let rank = match &request.sub_group_index_label {
            None => index,
            Some(label) => {
                let groups = request.sub_group_count.and_then(|count| u64::try_from(count).ok())?;
                let size = self.count.checked_div(groups)?;
                let group = number(label, groups)?;
                (index < size).then_some(index.saturating_add(group.saturating_mul(size)))?
            }
        };
        rank.checked_sub(before).filter(|rank| *rank < self.count)
    }

    /// Where the pods go that wait, by where there is room.
    fn by_room<'p>(&self, pods: &[&'p Pod]) -> Vec<(&'p Pod, &Spot)> {
        let (waiting, bound): (Vec<&Pod>, Vec<&Pod>) = pods.iter().copied().partition(|pod| waits(pod));
        let mut waiting = waiting.into_iter();
        let mut chosen = vec![];
        for spot in &self.placement.spots {
            let taken = bound.iter().filter(|pod| self.is_in(pod, spot)).count();
            let room = usize::try_from(spot.count).unwrap_or(usize::MAX).saturating_sub(taken);
            chosen.extend(waiting.by_ref().take(room).map(|pod| (pod, spot)));
        }
        chosen
    }

    /// Whether a pod is bound to a domain.
    fn is_in(&self, pod: &Pod, spot: &Spot) -> bool {
        let selector = pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref());
        let has = |level: &str| selector.and_then(|selector| selector.get(level)).map(String::as_str);
        self.placement.levels.iter().zip(&spot.values).all(|(level, value)| has(level) == Some(&**value))
    }
}

/// Whether a pod is still to be bound. One for which an elastic job has no quota yet is not.
pub fn waits(pod: &Pod) -> bool {
    is_gated(pod, scheduling_gate::TOPOLOGY) && has_quota(pod)
}

fn has_quota(pod: &Pod) -> bool {
    !is_gated(pod, scheduling_gate::ELASTIC_JOB)
}

/// What a pod is marked with: the name of its Workload, or of the first of a chain of them.
pub fn mark_of(pod: &Pod) -> Option<&str> {
    let named = |key| pod.annotations().get(key).map(String::as_str);
    named(annotation::WORKLOAD_SLICE_NAME).or_else(|| named(annotation::WORKLOAD))
}
