//! Pods of an admitted Workload are bound to the domains that were chosen for them (KEP-2724).
//!
//! They are born with a scheduling gate. It is taken off when the domain of a pod is in its node selector. Where each pod
//! of a set says which of them it is, those that talk to each other most are neighbours: the first domain gets the first
//! pods, and so on. Otherwise each domain gets as many as there is room for.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use whalezen_core::{
    name::{PodKey, WorkloadKey},
    topology::{HOST, Placement, Spot},
    workload::Timestamp,
};
use whalezen_crds::kueue::{
    constants::{annotation, condition as types, label, scheduling_gate},
    v1beta2::{Admission, PodSetAssignment, PodSetTopologyRequest, Workload},
};

use super::{
    super::{admission, conditions, topology, workload::WorkloadView},
    JobView, Of, Step,
    repair::Stuck,
    slices::{has_ended, is_gated, open_gate},
};
use crate::write::Write;

/// What the reasons begin with by which a kubelet says that it has no room for a pod.
const OUT_OF: &str = "OutOf";
/// The other reasons for which a kubelet turns a pod away.
const TURNED_AWAY: [&str; 3] = ["UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity"];

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
/// its mark. Nobody is bound to a host that fails, and one that turned a pod away since the admission is named as such.
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
    let admitted = conditions::find(&status.conditions, types::ADMITTED);
    let admitted =
        admitted.map_or(Timestamp::default(), |said| conditions::timestamp(&said.last_transition_time));
    let marked = pods.iter().filter(|pod| mark_of(pod) == Some(mark));
    let refusing: BTreeSet<&str> = marked.filter_map(|pod| refused_by(pod, admitted)).collect();
    let named: BTreeSet<&str> = status.unhealthy_nodes.iter().map(|node| &*node.name).collect();
    let (mut writes, mut failing) = (vec![], named.clone());
    for (name, set) in placed(workload, given) {
        for (pod, spot) in set.chosen(&of_set(name)) {
            match spot.values.last().map(|host| &**host).filter(|_| set.placement.is_on_hosts()) {
                Some(host) if named.contains(host) => {}
                Some(host) if let Some(host) = refusing.get(host) => {
                    failing.insert(host);
                }
                _ => writes.push(set.bound(pod, spot)),
            }
        }
    }
    if failing != named {
        let key = WorkloadKey::new(workload.namespace().unwrap_or_default(), workload.name_any());
        writes.push(admission::name_unhealthy(&key, &WorkloadView::new(workload), failing.into_iter()));
    }
    writes
}

/// The host whose kubelet turned a pod away that was made since this moment.
fn refused_by(pod: &Pod, since: Timestamp) -> Option<&str> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Failed"))?;
    let reason = status.reason.as_deref()?;
    let turned_away = reason.starts_with(OUT_OF) || TURNED_AWAY.contains(&reason);
    let made = pod.metadata.creation_timestamp.as_ref().map(conditions::timestamp);
    host_of(pod).filter(|_| turned_away && made.is_some_and(|made| made >= since))
}

/// The host that a pod is bound to by its node selector.
fn host_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_selector.as_ref()?.get(HOST).map(String::as_str)
}

/// A pod that was bound and for which there is no room on its host, or in its domain.
pub fn stuck(pod: &Pod) -> Option<Stuck> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let said = conditions.iter().find(|said| {
        said.type_ == "PodScheduled"
            && said.status == "False"
            && said.reason.as_deref() == Some("Unschedulable")
    })?;
    let waits = topology::is_placed(pod) && pod.metadata.deletion_timestamp.is_none() && !has_ended(pod);
    waits.then_some(())?;
    Some(Stuck {
        pod: PodKey::new(pod.namespace().unwrap_or_default(), pod.name_any()),
        host: host_of(pod).unwrap_or("the nodes of its domain").to_owned(),
        since: said.last_transition_time.as_ref().map(conditions::timestamp)?,
        message: said.message.clone().unwrap_or_default(),
    })
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
    /// Where those of these pods go that wait.
    fn chosen<'p>(&self, pods: &[&'p Pod]) -> Vec<(&'p Pod, &Spot)> {
        let ends = self.placement.spots.iter().scan(0_u64, |end, spot| {
            *end = end.saturating_add(spot.count.into());
            Some(*end)
        });
        let ends: Vec<u64> = ends.collect();
        self.by_rank(pods, &ends).unwrap_or_else(|| self.by_room(pods))
    }

    /// The write that binds a pod to a domain.
    fn bound(&self, pod: &Pod, spot: &Spot) -> Write {
        let mut write = open_gate(pod, scheduling_gate::TOPOLOGY);
        let selector = self.placement.levels.iter().zip(&spot.values);
        let selector: Value = selector.map(|(level, value)| (level.to_string(), json!(**value))).collect();
        if let Some(spec) = write.body.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("nodeSelector".to_owned(), selector);
        }
        write
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
