//! What is seen of the cluster, as one stream of events.
//!
//! Each kind has a task of its own that lists, watches, and starts over when the API server says so; objects that
//! vanished while it was not looking are reported as gone. An object that cannot be read is reported too, and the
//! watch goes on.

use std::{collections::BTreeSet, fmt::Debug};

use futures::{StreamExt, pin_mut};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{LimitRange, Namespace},
        node::v1::RuntimeClass,
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use whalezen_crds::{kueue::v1beta2 as kueue, scheduling::v1alpha1::SchedulingPolicy};
use whalezen_dialects::{policies, write::Target};

/// How many events may wait for the engine before the watches wait too.
const BACKLOG: usize = 256;

/// An object that was seen.
#[derive(Debug)]
pub enum Object {
    /// A `ResourceFlavor`.
    Flavor(Box<kueue::ResourceFlavor>),
    /// A ClusterQueue.
    ClusterQueue(Box<kueue::ClusterQueue>),
    /// A `Cohort`.
    Cohort(Box<kueue::Cohort>),
    /// An `AdmissionCheck`.
    AdmissionCheck(Box<kueue::AdmissionCheck>),
    /// A `SchedulingPolicy`.
    SchedulingPolicy(Box<SchedulingPolicy>),
    /// A LocalQueue.
    LocalQueue(Box<kueue::LocalQueue>),
    /// A Workload.
    Workload(Box<kueue::Workload>),
    /// A `WorkloadPriorityClass`.
    WorkloadPriorityClass(Box<kueue::WorkloadPriorityClass>),
    /// A `PriorityClass`.
    PriorityClass(Box<PriorityClass>),
    /// A Namespace.
    Namespace(Box<Namespace>),
    /// A `LimitRange`.
    LimitRange(Box<LimitRange>),
    /// A `RuntimeClass`.
    RuntimeClass(Box<RuntimeClass>),
    /// A Job.
    Job(Box<Job>),
}

/// A kind that is watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// `ResourceFlavor`.
    Flavor,
    /// ClusterQueue.
    ClusterQueue,
    /// `Cohort`.
    Cohort,
    /// `AdmissionCheck`.
    AdmissionCheck,
    /// `SchedulingPolicy`.
    SchedulingPolicy,
    /// LocalQueue.
    LocalQueue,
    /// Workload.
    Workload,
    /// `WorkloadPriorityClass`.
    WorkloadPriorityClass,
    /// `PriorityClass`.
    PriorityClass,
    /// Namespace.
    Namespace,
    /// `LimitRange`.
    LimitRange,
    /// `RuntimeClass`.
    RuntimeClass,
    /// Job.
    Job,
}

impl Kind {
    /// Every kind that is watched.
    pub const ALL: [Self; 13] = [
        Self::Flavor,
        Self::ClusterQueue,
        Self::Cohort,
        Self::AdmissionCheck,
        Self::SchedulingPolicy,
        Self::LocalQueue,
        Self::Workload,
        Self::WorkloadPriorityClass,
        Self::PriorityClass,
        Self::Namespace,
        Self::LimitRange,
        Self::RuntimeClass,
        Self::Job,
    ];

    /// The address of an object of this kind.
    pub fn target(self, namespace: &str, name: &str) -> Target {
        let (group, version, kind, plural) = match self {
            Self::Flavor => ("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors"),
            Self::ClusterQueue => ("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues"),
            Self::Cohort => ("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts"),
            Self::AdmissionCheck => ("kueue.x-k8s.io", "v1beta2", "AdmissionCheck", "admissionchecks"),
            Self::SchedulingPolicy => return policies::target(name),
            Self::LocalQueue => ("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues"),
            Self::Workload => ("kueue.x-k8s.io", "v1beta2", "Workload", "workloads"),
            Self::WorkloadPriorityClass => {
                ("kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses")
            }
            Self::PriorityClass => ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::LimitRange => ("", "v1", "LimitRange", "limitranges"),
            Self::RuntimeClass => ("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
            Self::Job => ("batch", "v1", "Job", "jobs"),
        };
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(ToOwned::to_owned);
        Target { group, version, kind, plural, namespace, name: name.to_owned() }
    }
}

/// Something that was seen.
#[derive(Debug)]
pub enum Seen {
    /// An object, new or changed.
    Object(Object),
    /// An object is gone.
    Gone {
        /// Its kind.
        kind: Kind,
        /// Its namespace, empty if the kind has none.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// An object is there and cannot be read.
    Unreadable {
        /// Its kind.
        kind: Kind,
        /// What could be read.
        metadata: Box<ObjectMeta>,
        /// Why not more.
        problem: String,
    },
    /// Everything of this kind has been seen that was there when this round began.
    Synced(Kind, u64),
}

/// The watches of everything.
pub struct Watches {
    /// What they see.
    pub seen: mpsc::Receiver<Seen>,
    round: watch::Sender<u64>,
}

impl Watches {
    /// Has everything listed anew, and says which round this is. A watch may be far behind without knowing: it waits to
    /// connect again, or its connection went silent.
    pub fn start_over(&self) -> u64 {
        self.round.send_modify(|round| *round += 1);
        *self.round.borrow()
    }
}

/// Starts to watch everything. Beside another scheduler (`beside`) our own definitions need not be installed: then
/// there are no policies. For who decides that would be a brake that is off while the API server starts.
pub fn everything(client: &Client, beside: bool) -> Watches {
    let (to, seen) = mpsc::channel(BACKLOG);
    let (round, rounds) = watch::channel(0);
    let start = |client: &Client| (client.clone(), to.clone(), rounds.clone());
    let absent = beside.then_some(Kind::SchedulingPolicy);
    spawn(start(client), Kind::Flavor, absent, |o| Object::Flavor(Box::new(o)));
    spawn(start(client), Kind::ClusterQueue, absent, |o| Object::ClusterQueue(Box::new(o)));
    spawn(start(client), Kind::Cohort, absent, |o| Object::Cohort(Box::new(o)));
    spawn(start(client), Kind::AdmissionCheck, absent, |o| Object::AdmissionCheck(Box::new(o)));
    spawn(start(client), Kind::SchedulingPolicy, absent, |o| Object::SchedulingPolicy(Box::new(o)));
    spawn(start(client), Kind::LocalQueue, absent, |o| Object::LocalQueue(Box::new(o)));
    spawn(start(client), Kind::Workload, absent, |o| Object::Workload(Box::new(o)));
    spawn(start(client), Kind::WorkloadPriorityClass, absent, |o| Object::WorkloadPriorityClass(Box::new(o)));
    spawn(start(client), Kind::PriorityClass, absent, |o| Object::PriorityClass(Box::new(o)));
    spawn(start(client), Kind::Namespace, absent, |o| Object::Namespace(Box::new(o)));
    spawn(start(client), Kind::LimitRange, absent, |o| Object::LimitRange(Box::new(o)));
    spawn(start(client), Kind::RuntimeClass, absent, |o| Object::RuntimeClass(Box::new(o)));
    spawn(start(client), Kind::Job, absent, |o| Object::Job(Box::new(o)));
    Watches { seen, round }
}

fn spawn<K>(
    (client, to, mut rounds): (Client, mpsc::Sender<Seen>, watch::Receiver<u64>),
    kind: Kind,
    may_be_absent: Option<Kind>,
    object: fn(K) -> Object,
) where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client);
    tokio::spawn(async move {
        let mut known = Known::default();
        loop {
            let round = *rounds.borrow_and_update();
            let events = watcher(api.clone(), watcher::Config::default()).default_backoff();
            pin_mut!(events);
            loop {
                let event = tokio::select! {
                    biased;
                    again = rounds.changed() => match again {
                        Ok(()) => break,
                        // The engine is gone.
                        Err(_) => return,
                    },
                    event = events.next() => event,
                };
                let seen = match event {
                    Some(Ok(event)) => known.translate(event, kind, round, object),
                    Some(Err(watcher::Error::InitialListFailed(kube::Error::Api(status))))
                        if status.code == 404 && may_be_absent == Some(kind) =>
                    {
                        vec![Seen::Synced(kind, round)]
                    }
                    Some(Err(problem)) => {
                        tracing::warn!(?kind, "watching: {problem}");
                        continue;
                    }
                    None => break,
                };
                for event in seen {
                    if to.send(event).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
}

type Name = (Box<str>, Box<str>);

/// The names that were seen, so that it can be told which are gone after a list.
#[derive(Default)]
struct Known {
    names: BTreeSet<Name>,
    listed: Option<BTreeSet<Name>>,
}

impl Known {
    fn translate<K>(
        &mut self,
        event: watcher::Event<DeserializeGuard<K>>,
        kind: Kind,
        round: u64,
        object: fn(K) -> Object,
    ) -> Vec<Seen>
    where
        K: Resource<DynamicType = ()>,
    {
        match event {
            watcher::Event::Init => {
                self.listed = Some(BTreeSet::new());
                vec![]
            }
            watcher::Event::InitApply(guard) | watcher::Event::Apply(guard) => {
                let name = name(&guard);
                if let Some(listed) = &mut self.listed {
                    listed.insert(name.clone());
                }
                self.names.insert(name);
                vec![read(guard, kind, object)]
            }
            watcher::Event::Delete(guard) => {
                let name = name(&guard);
                self.names.remove(&name);
                vec![gone(kind, name)]
            }
            watcher::Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let vanished: Vec<Name> = self.names.difference(&listed).cloned().collect();
                self.names = listed;
                vanished.into_iter().map(|name| gone(kind, name)).chain([Seen::Synced(kind, round)]).collect()
            }
        }
    }
}

fn name<K: Resource<DynamicType = ()>>(object: &DeserializeGuard<K>) -> Name {
    (object.namespace().unwrap_or_default().into(), object.name_any().into())
}

fn gone(kind: Kind, (namespace, name): Name) -> Seen {
    Seen::Gone { kind, namespace: namespace.into(), name: name.into() }
}

fn read<K: Resource<DynamicType = ()>>(
    guard: DeserializeGuard<K>,
    kind: Kind,
    object: fn(K) -> Object,
) -> Seen {
    match guard.0 {
        Ok(read) => Seen::Object(object(read)),
        Err(invalid) => {
            Seen::Unreadable { kind, metadata: Box::new(invalid.metadata), problem: invalid.error }
        }
    }
}
