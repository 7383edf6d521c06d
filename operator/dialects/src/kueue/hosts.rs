//! Nodes as far as it matters to the pods on them: whether these will ever be reported as over.
//!
//! Who ends a pod is the kubelet of its node. Of a node that is gone, or has not been ready for so long that nobody counts on
//! it, no pod that is being deleted is heard of again, and what its job holds would be held for ever. Such a pod is *lost*.
//! Where an administrator says that a node is out of service, its pods are lost as soon as they are being deleted.
//!
//! A node on which pods that come would not run, or that keeps them off, *fails* for a job as soon as none of its pods goes on
//! there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use whalezen_core::{
    flavor::{Taint, TaintEffect},
    name::{HostName, PodKey},
    topology::HOST,
    workload::Timestamp,
};
use whalezen_crds::kueue::constants::label;

use super::{
    conditions,
    jobs::{group, kinds},
    quota,
};

/// The taint by which an administrator says that nothing runs on a node any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// How a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Health {
    /// By which name placements know it.
    host: Arc<str>,
    /// Since when it has not been ready, if it is not.
    unready_since: Option<Timestamp>,
    out_of_service: bool,
    /// Whether it says at all whether it is ready.
    is_known: bool,
    /// What keeps pods off that do not tolerate it.
    taints: Vec<Taint>,
}

impl Health {
    fn of(node: &v1::Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
        let ready = conditions.unwrap_or_default().iter().find(|condition| condition.type_ == "Ready");
        let since = ready
            .map_or(node.metadata.creation_timestamp.as_ref(), |ready| ready.last_transition_time.as_ref());
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        Self {
            host: node.labels().get(HOST).cloned().unwrap_or_else(|| node.name_any()).into(),
            unready_since: (!is_ready).then(|| since.map(conditions::timestamp).unwrap_or_default()),
            is_known: ready.is_some(),
            taints: taints.iter().filter_map(quota::taint).filter(keeps_off).collect(),
            out_of_service: taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
        }
    }

    fn is_well(&self) -> bool {
        self.unready_since.is_none() && self.taints.is_empty()
    }
}

/// A pod on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stationed {
    node: HostName,
    deletion: Option<Deletion>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Deletion {
    asked: Timestamp,
    /// When its time to end by itself is over.
    due: Timestamp,
}

impl Deletion {
    fn of(pod: &v1::Pod) -> Option<Self> {
        let due = conditions::timestamp(pod.metadata.deletion_timestamp.as_ref()?);
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default().max(0);
        Some(Self { asked: Timestamp(due.0.saturating_sub(grace.saturating_mul(1000))), due })
    }
}

/// The nodes, and the pods of jobs on them.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    health: BTreeMap<HostName, Health>,
    /// The nodes by the names by which placements know them.
    nodes: BTreeMap<Arc<str>, HostName>,
    /// By the uid of what made them, or of what they are if they are queued by themselves.
    pods: BTreeMap<Arc<str>, BTreeMap<PodKey, Stationed>>,
    job_of: BTreeMap<PodKey, Arc<str>>,
}

/// What is lost of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// The pods that are lost.
    pub pods: BTreeSet<PodKey>,
    /// The nodes that they are on.
    pub nodes: BTreeSet<HostName>,
    /// How many of its pods are on nodes and not lost.
    pub others: usize,
    /// When the next of them will be lost, if nothing changes.
    pub next: Option<Timestamp>,
}

impl Lost {
    /// What there is to say of it to people.
    pub fn message(&self) -> String {
        let nodes: Vec<&str> = self.nodes.iter().map(HostName::as_str).collect();
        let count = self.pods.len();
        let nodes = nodes.join(", ");
        format!(
            "The end of {count} pod(s) is not waited for any more, because nothing is heard of their node(s): {nodes}"
        )
    }
}

impl Hosts {
    /// A node was seen. Says whether it is another thing now for pods that are on it or were to come.
    pub fn see_node(&mut self, node: &v1::Node) -> bool {
        let health = Health::of(node);
        // Nothing is heard of one that is not there, so taints alone make it no worse.
        let answers = health.unready_since.is_none() && !health.out_of_service;
        let name = HostName::from(node.name_any());
        let known = self.health.insert(name.clone(), health.clone());
        if let Some(known) = &known {
            self.nodes.remove(&known.host);
        }
        self.nodes.insert(Arc::clone(&health.host), name);
        known.map_or(!answers, |known| known != health)
    }

    /// A node is gone.
    pub fn lose_node(&mut self, name: &HostName) {
        let health = self.health.remove(name);
        if let Some(host) = health.map(|health| health.host).filter(|host| self.nodes.get(host) == Some(name))
        {
            self.nodes.remove(&host);
        }
    }

    /// By which name placements know a node.
    pub fn host(&self, node: &HostName) -> Option<Arc<str>> {
        self.health.get(node).map(|health| Arc::clone(&health.host))
    }

    fn on(&self, host: &str) -> Option<(&HostName, &Health)> {
        self.health.get_key_value(self.nodes.get(host)?)
    }

    /// A pod was seen that is on a node and not over. If it is now otherwise with its end, it says whose pod it is.
    pub fn see_pod(&mut self, key: &PodKey, pod: &v1::Pod) -> Option<Arc<str>> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let Some(job) = job_of(pod).filter(|_| !node.is_empty()) else { return self.lose_pod(key) };
        let now = Stationed { node: node.into(), deletion: Deletion::of(pod) };
        let is_deleted = now.deletion.is_some();
        let before = self.pods.entry(Arc::clone(&job)).or_default().insert(key.clone(), now.clone());
        self.job_of.insert(key.clone(), Arc::clone(&job));
        (is_deleted && before.as_ref() != Some(&now)).then_some(job)
    }

    /// A pod is over or gone. If it was being deleted, or something is wrong with its node, it says whose pod it was.
    pub fn lose_pod(&mut self, key: &PodKey) -> Option<Arc<str>> {
        let job = self.job_of.remove(key)?;
        let pods = self.pods.get_mut(&job)?;
        let pod = pods.remove(key)?;
        if pods.is_empty() {
            self.pods.remove(&job);
        }
        let well = self.health.get(&pod.node).is_some_and(Health::is_well);
        (pod.deletion.is_some() || !well).then_some(job)
    }

    /// Whether a host is not there, or nobody answers for it.
    pub fn is_gone(&self, host: &str) -> bool {
        self.on(host).is_none_or(|(_, health)| !health.is_known)
    }

    /// Whether pods with these tolerations would not run on a host if they came now. Nothing is said of pods of which they are
    /// not known as long as it is ready.
    pub fn keeps_off(&self, host: &str, tolerations: Option<&[v1::Toleration]>) -> bool {
        let Some((_, health)) = self.on(host) else { return true };
        let tolerates = |taint: &Taint| {
            tolerations.is_none_or(|all| all.iter().any(|own| quota::toleration(own).tolerates(taint)))
        };
        health.unready_since.is_some() || !health.taints.iter().all(tolerates)
    }

    /// Whether one of these pods goes on on a host.
    pub fn goes_on(&self, pods: &[(&PodKey, &Stationed)], host: &str) -> bool {
        let node = self.nodes.get(host);
        let goes_on = |pod: &Stationed| Some(&pod.node) == node && pod.deletion.is_none();
        pods.iter().any(|(_, pod)| goes_on(pod))
    }

    /// The pods that are being deleted on a node, and whose each is.
    pub fn ending_on(&self, node: &HostName) -> impl Iterator<Item = (&PodKey, &Arc<str>)> {
        let ends = move |pod: &Stationed| pod.node == *node && pod.deletion.is_some();
        let ending = self.pods.values().flatten().filter(move |(_, pod)| ends(pod));
        ending.filter_map(|(key, _)| Some((key, self.job_of.get(key)?)))
    }

    /// The pods of these jobs that are on nodes.
    pub fn of_jobs<'a>(
        &'a self,
        jobs: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = (&'a PodKey, &'a Stationed)> {
        jobs.filter_map(|job| self.pods.get(job)).flatten()
    }

    /// Those of these pods that are on nodes.
    pub fn of_pods(&self, pods: impl Iterator<Item = PodKey>) -> impl Iterator<Item = (&PodKey, &Stationed)> {
        pods.filter_map(|pod| self.pods.get(self.job_of.get(&pod)?)?.get_key_value(&pod))
    }

    /// What is lost of these pods, where nobody counts on a node any more that has not been ready for so long.
    pub fn lost(&self, pods: &[(&PodKey, &Stationed)], now: Timestamp, patience: Duration) -> Lost {
        let mut lost = Lost::default();
        for (key, pod) in pods {
            let at = self.lost_at(pod, patience);
            if at.is_some_and(|at| at <= now) {
                lost.pods.insert((*key).clone());
                lost.nodes.insert(pod.node.clone());
            } else {
                lost.others += 1;
                lost.next = lost.next.into_iter().chain(at).min();
            }
        }
        lost
    }

    fn lost_at(&self, pod: &Stationed, patience: Duration) -> Option<Timestamp> {
        let Deletion { asked, due } = pod.deletion?;
        let patience = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        match self.health.get(&pod.node) {
            // Since when it is gone is not written anywhere.
            None => Some(Timestamp(due.0.saturating_add(patience))),
            Some(node) if node.out_of_service => Some(asked),
            Some(node) => {
                node.unready_since.map(|since| due.max(Timestamp(since.0.saturating_add(patience))))
            }
        }
    }
}

fn keeps_off(taint: &Taint) -> bool {
    taint.effect != TaintEffect::PreferNoSchedule
}

/// Whose pod it is: the uid of the job that made it, or of the job that it is, alone or in a group.
fn job_of(pod: &v1::Pod) -> Option<Arc<str>> {
    let mut owners = pod.owner_references().iter();
    let maker = owners.find(|owner| owner.controller == Some(true) && kinds::of_owner(owner).is_some());
    let itself = || {
        pod.labels().get(label::MANAGED)?;
        let group = group::belongs(pod).map(|of| group::uid(&pod.namespace().unwrap_or_default(), &of.group));
        group.or_else(|| pod.uid())
    };
    maker.map(|owner| owner.uid.clone()).or_else(itself).map(Into::into)
}
