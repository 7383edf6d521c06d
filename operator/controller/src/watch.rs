//! What is seen of the cluster, as one stream of events.
//!
//! Each kind has a task of its own that lists, watches, and starts over when the API server says so; objects that
//! vanished while it was not looking are reported as gone. An object that cannot be read is reported too, and the
//! watch goes on. Of a kind that need not be installed there are no objects while it is not, and it is looked for again.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use futures::{StreamExt, pin_mut};
use k8s_openapi::{
    api::{
        core::v1::{LimitRange, Namespace, Node, Pod},
        node::v1::RuntimeClass,
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use whalezen_core::name::WorkloadKey;
use whalezen_crds::{
    kueue::{constants::label, v1beta2 as kueue},
    scheduling::v1alpha1::{GPUNode, MIGPolicy, SchedulingPolicy},
};
use whalezen_dialects::{
    kueue::{
        jobs::{
            AnyJob,
            kinds::{JOB, JobKind, POD},
        },
        mig,
        provisioning::request,
        settings::Frameworks,
    },
    policies,
    write::Target,
};

use crate::readable::{Readable, Unreadable};

/// How many events may wait for the engine before the watches wait too.
const BACKLOG: usize = 256;
/// How long it takes until a kind is looked for again that is not installed.
const ABSENT_PAUSE: Duration = Duration::from_secs(10);

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
    /// A `Topology`.
    Topology(Box<kueue::Topology>),
    /// A node.
    Node(Box<Node>),
    /// A pod on a node.
    Pod(Box<Pod>),
    /// A pod of a queued job that is on no node yet.
    WaitingPod(Box<Pod>),
    /// A job.
    Job(AnyJob),
    /// A `ProvisioningRequestConfig`.
    ProvisioningRequestConfig(Box<kueue::ProvisioningRequestConfig>),
    /// A `ProvisioningRequest`.
    ProvisioningRequest(Box<DynamicObject>),
    /// A `GPUNode`.
    GpuNode(Box<GPUNode>),
    /// A `MIGPolicy`.
    MigPolicy(Box<MIGPolicy>),
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
    /// `Topology`.
    Topology,
    /// Node.
    Node,
    /// Pods that take room of a node.
    Pod,
    /// Pods of queued jobs that are on no node yet.
    WaitingPod,
    /// A kind of jobs.
    Job(&'static JobKind),
    /// `ProvisioningRequestConfig`.
    ProvisioningRequestConfig,
    /// `ProvisioningRequest`.
    ProvisioningRequest,
    /// `GPUNode`.
    GpuNode,
    /// `MIGPolicy`.
    MigPolicy,
}

impl Kind {
    /// Every kind that is watched where these jobs are managed. Beside another scheduler (`beside`) admission checks are
    /// that one's to answer, and GPUs are divided for nobody.
    pub fn all(frameworks: &Frameworks, beside: bool) -> BTreeSet<Self> {
        let own = [
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
            Self::Topology,
            Self::Node,
            Self::Pod,
            Self::WaitingPod,
        ];
        let answered =
            [Self::ProvisioningRequestConfig, Self::ProvisioningRequest, Self::GpuNode, Self::MigPolicy];
        let answered = answered.into_iter().filter(|_| !beside);
        own.into_iter().chain(answered).chain(frameworks.seen().into_iter().map(Self::Job)).collect()
    }

    /// Which objects of this kind are watched: of pods those that take room of a node, of those that do not yet the ones of
    /// queued jobs, and as jobs those that are queued by themselves. One that does no more is gone.
    fn selection(self) -> watcher::Config {
        let all = watcher::Config::default();
        match self {
            Self::Pod => all.fields("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"),
            Self::Job(kind) if *kind == POD => all.labels(&format!("{}=true", label::MANAGED)),
            Self::WaitingPod => all.fields("spec.nodeName=,status.phase=Pending").labels(label::POD_SET),
            _ => all,
        }
    }

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
            Self::Topology => ("kueue.x-k8s.io", "v1beta2", "Topology", "topologies"),
            Self::Node => ("", "v1", "Node", "nodes"),
            Self::Pod | Self::WaitingPod => ("", "v1", "Pod", "pods"),
            Self::Job(kind) => return kind.target(namespace, name),
            Self::ProvisioningRequestConfig => {
                ("kueue.x-k8s.io", "v1beta2", "ProvisioningRequestConfig", "provisioningrequestconfigs")
            }
            Self::GpuNode => return mig::target(name),
            Self::MigPolicy => ("scheduling.gen.io", "v1alpha1", "MIGPolicy", "migpolicies"),
            Self::ProvisioningRequest => return request::target(&WorkloadKey::new(namespace, ""), name),
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
    Synced {
        /// The kind.
        kind: Kind,
        /// The round.
        round: u64,
        /// Whether the API server knows the kind.
        installed: bool,
    },
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

/// Starts to watch everything, and these kinds of jobs. Beside another scheduler (`beside`) our own definitions need not be
/// installed: then there are no policies. For who decides that would be a brake that is off while the API server starts.
pub fn everything(client: &Client, frameworks: &Frameworks, beside: bool) -> Watches {
    let (to, seen) = mpsc::channel(BACKLOG);
    let (round, rounds) = watch::channel(0);
    let start = Start { client, to, rounds };
    start.watch(Kind::Flavor, |o| Object::Flavor(Box::new(o)));
    start.watch(Kind::ClusterQueue, |o| Object::ClusterQueue(Box::new(o)));
    start.watch(Kind::Cohort, |o| Object::Cohort(Box::new(o)));
    start.watch(Kind::AdmissionCheck, |o| Object::AdmissionCheck(Box::new(o)));
    start.watch_if_there(Api::all(client.clone()), Kind::SchedulingPolicy, beside, |o| {
        Object::SchedulingPolicy(Box::new(o))
    });
    start.watch(Kind::LocalQueue, |o| Object::LocalQueue(Box::new(o)));
    start.watch(Kind::Workload, |o| Object::Workload(Box::new(o)));
    start.watch(Kind::WorkloadPriorityClass, |o| Object::WorkloadPriorityClass(Box::new(o)));
    start.watch(Kind::PriorityClass, |o| Object::PriorityClass(Box::new(o)));
    start.watch(Kind::Namespace, |o| Object::Namespace(Box::new(o)));
    start.watch(Kind::LimitRange, |o| Object::LimitRange(Box::new(o)));
    start.watch(Kind::RuntimeClass, |o| Object::RuntimeClass(Box::new(o)));
    start.watch(Kind::Topology, |o| Object::Topology(Box::new(o)));
    start.watch(Kind::Node, |o| Object::Node(Box::new(o)));
    start.watch(Kind::Pod, |o| Object::Pod(Box::new(o)));
    start.watch(Kind::WaitingPod, |o| Object::WaitingPod(Box::new(o)));
    for kind in frameworks.seen() {
        match kind {
            // These are there always.
            kind if *kind == JOB => start.watch(Kind::Job(kind), |o| Object::Job(AnyJob::Batch(Box::new(o)))),
            kind if *kind == POD => start.watch(Kind::Job(kind), |o| Object::Job(AnyJob::Pod(Box::new(o)))),
            kind => {
                let api = Api::all_with(client.clone(), &resource(&kind.target("", "")));
                let object = move |o| Object::Job(AnyJob::Described(kind, Box::new(o)));
                start.watch_if_there(api, Kind::Job(kind), true, object);
            }
        }
    }
    if !beside {
        start.watch(Kind::ProvisioningRequestConfig, |o| Object::ProvisioningRequestConfig(Box::new(o)));
        let kind = Kind::ProvisioningRequest;
        let api = Api::all_with(client.clone(), &resource(&kind.target("", "")));
        start.watch_if_there(api, kind, true, |o| Object::ProvisioningRequest(Box::new(o)));
        // Who installed an older version of our definitions has no agents.
        start.watch_if_there(Api::all(client.clone()), Kind::GpuNode, true, |o| Object::GpuNode(Box::new(o)));
        start.watch_if_there(Api::all(client.clone()), Kind::MigPolicy, true, |o| {
            Object::MigPolicy(Box::new(o))
        });
    }
    Watches { seen, round }
}

/// How the API server calls the kind of an object.
pub fn resource(target: &Target) -> ApiResource {
    ApiResource {
        group: target.group.to_owned(),
        version: target.version.to_owned(),
        api_version: target.api_version(),
        kind: target.kind.to_owned(),
        plural: target.plural.to_owned(),
    }
}

/// What the watches of all kinds begin with.
struct Start<'a> {
    client: &'a Client,
    to: mpsc::Sender<Seen>,
    rounds: watch::Receiver<u64>,
}

impl Start<'_> {
    fn watch<K>(&self, kind: Kind, object: fn(K) -> Object)
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
    {
        self.watch_if_there(Api::all(self.client.clone()), kind, false, object);
    }

    fn watch_if_there<K>(
        &self,
        api: Api<Readable<K>>,
        kind: Kind,
        may_be_absent: bool,
        object: impl Fn(K) -> Object + Send + 'static,
    ) where
        K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
    {
        let known = Known { kind, object, names: BTreeSet::new(), listed: None };
        tokio::spawn(watch_on(api, known, may_be_absent, self.to.clone(), self.rounds.clone()));
    }
}

/// Watches for as long as somebody wants to know.
async fn watch_on<K, F>(
    api: Api<Readable<K>>,
    mut known: Known<F>,
    may_be_absent: bool,
    to: mpsc::Sender<Seen>,
    mut rounds: watch::Receiver<u64>,
) where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
    F: Fn(K) -> Object,
{
    loop {
        let round = *rounds.borrow_and_update();
        let events = watcher(api.clone(), known.kind.selection()).default_backoff();
        pin_mut!(events);
        let mut absent = false;
        loop {
            let event = tokio::select! {
                biased;
                again = rounds.changed() => match again {
                    Ok(()) => break,
                    // The engine is gone.
                    Err(_) => return,
                },
                () = sleep(ABSENT_PAUSE), if absent => break,
                event = events.next(), if !absent => event,
            };
            let seen = match event {
                Some(Ok(event)) => known.translate(event, round),
                Some(Err(problem)) if may_be_absent && is_absent(&problem) => {
                    absent = true;
                    known.all_gone(round)
                }
                Some(Err(problem)) => {
                    tracing::warn!(kind = ?known.kind, "watching: {problem}");
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
}

/// Whether the API server does not know the kind.
fn is_absent(problem: &watcher::Error) -> bool {
    match problem {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

type Name = (Box<str>, Box<str>);

/// The names that were seen of a kind, so that it can be told which are gone after a list.
struct Known<F> {
    kind: Kind,
    object: F,
    names: BTreeSet<Name>,
    listed: Option<BTreeSet<Name>>,
}

impl<F> Known<F> {
    fn translate<K>(&mut self, event: watcher::Event<Readable<K>>, round: u64) -> Vec<Seen>
    where
        K: Resource,
        F: Fn(K) -> Object,
    {
        match event {
            watcher::Event::Init => {
                self.listed = Some(BTreeSet::new());
                vec![]
            }
            watcher::Event::InitApply(read) | watcher::Event::Apply(read) => {
                let name = name(&read);
                if let Some(listed) = &mut self.listed {
                    listed.insert(name.clone());
                }
                self.names.insert(name);
                vec![self.read(read)]
            }
            watcher::Event::Delete(read) => {
                let name = name(&read);
                self.names.remove(&name);
                vec![gone(self.kind, name)]
            }
            watcher::Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                self.only(listed, round, true)
            }
        }
    }

    /// There are no objects of this kind.
    fn all_gone(&mut self, round: u64) -> Vec<Seen> {
        self.listed = None;
        self.only(BTreeSet::new(), round, false)
    }

    /// There are these objects and no others.
    fn only(&mut self, there: BTreeSet<Name>, round: u64, installed: bool) -> Vec<Seen> {
        let vanished: Vec<Name> = self.names.difference(&there).cloned().collect();
        self.names = there;
        let synced = Seen::Synced { kind: self.kind, round, installed };
        vanished.into_iter().map(|name| gone(self.kind, name)).chain([synced]).collect()
    }

    fn read<K>(&self, read: Readable<K>) -> Seen
    where
        F: Fn(K) -> Object,
    {
        match read.0 {
            Ok(read) => Seen::Object((self.object)(read)),
            Err(Unreadable { metadata, problem }) => {
                Seen::Unreadable { kind: self.kind, metadata: Box::new(metadata), problem }
            }
        }
    }
}

fn name<K: Resource>(object: &Readable<K>) -> Name {
    (object.namespace().unwrap_or_default().into(), object.name_any().into())
}

fn gone(kind: Kind, (namespace, name): Name) -> Seen {
    Seen::Gone { kind, namespace: namespace.into(), name: name.into() }
}
