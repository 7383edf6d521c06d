//! What the API server says of jobs, Workloads and pods, kept current by watches.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use whalezen_crds::kueue::v1beta2::Workload;

use crate::row::Row;

const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// The watches; they end with it.
pub struct Observer {
    jobs: Store<Job>,
    workloads: Store<Workload>,
    pods: Store<Pod>,
    _watches: JoinSet<()>,
}

impl Observer {
    /// Begins to watch.
    pub fn start(client: &Client) -> Self {
        let mut watches = JoinSet::new();
        Self {
            jobs: watch(client, &mut watches),
            workloads: watch(client, &mut watches),
            pods: watch(client, &mut watches),
            _watches: watches,
        }
    }

    /// Every job of the cluster, by namespace and name.
    pub fn rows(&self) -> Vec<Row> {
        let workloads = self.workloads.state();
        let workloads: HashMap<&str, &Workload> = workloads
            .iter()
            .flat_map(|workload| workload.owner_references().iter().map(|owner| (&*owner.uid, &**workload)))
            .collect();
        let pods = self.pods.state();
        let mut pods_of: HashMap<(Option<&str>, &str), Vec<&Pod>> = HashMap::new();
        for pod in &pods {
            if let Some(job) = pod.labels().get(JOB_NAME_LABEL) {
                pods_of.entry((pod.metadata.namespace.as_deref(), job)).or_default().push(pod);
            }
        }
        let jobs = self.jobs.state();
        let row = |job: &Arc<Job>| {
            let workload = job.metadata.uid.as_deref().and_then(|uid| workloads.get(uid)).copied();
            let name = job.metadata.name.as_deref().unwrap_or_default();
            let pods = pods_of.get(&(job.metadata.namespace.as_deref(), name));
            Row::of(job, workload, pods.map(Vec::as_slice).unwrap_or_default())
        };
        let mut rows: Vec<Row> = jobs.iter().map(row).collect();
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rows
    }
}

fn watch<K>(client: &Client, watches: &mut JoinSet<()>) -> Store<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Default + Debug + Eq + Hash + Unpin + Send + Sync,
{
    let (store, writer) = reflector::store();
    let api: Api<K> = Api::all(client.clone());
    let stream = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    // A watch that breaks is resumed by the stream itself.
    watches.spawn(stream.for_each(|_| std::future::ready(())));
    store
}
