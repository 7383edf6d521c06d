//! One write, from data to an answer.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use futures::{StreamExt, stream};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client, Error, ResourceExt, Result,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use whalezen_core::name::WorkloadKey;
use whalezen_crds::{
    kueue::{
        constants::label,
        v1beta2::{ProvisioningRequestConfigSpec, Workload},
    },
    scheduling::v1alpha1::GPUNode,
};
use whalezen_dialects::{
    kueue::{
        jobs::{AnyJob, Priority, Whole, binding, build, group, kinds, pod, slices},
        provisioning::build::{self as provisioning, Placed, Requested},
    },
    write::{Target, Verb, Write},
};

use crate::{metrics::Metrics, watch::resource};

/// How many pods of a Workload are bound at a time.
const BOUND_AT_A_TIME: usize = 8;

/// What is to be written.
#[derive(Clone, Debug)]
pub enum Order {
    /// Nothing; a Workload is only read.
    Look {
        /// The Workload.
        workload: WorkloadKey,
        /// Its uid.
        uid: String,
    },
    /// This.
    Write(Box<Write>),
    /// A Workload for this Job.
    CreateWorkload {
        /// The Job.
        job: Target,
        /// Which of its groups, if those are queued by themselves.
        number: Option<u32>,
        /// Its priority.
        priority: Priority,
        /// The Workload whose place it takes, if the Job has one and grows.
        after: Option<WorkloadKey>,
    },
    /// Pods of this Job past their scheduling gate.
    Ungate {
        /// The Job.
        job: Target,
        /// What the pods are marked with.
        mark: String,
        /// How many there is quota for.
        room: u32,
    },
    /// Pods of this Workload bound to the domains that were chosen for them.
    Bind {
        /// The Workload.
        workload: WorkloadKey,
        /// What the pods are marked with.
        mark: String,
    },
    /// This waiting Workload as its Job is now.
    UpdateWorkload {
        /// The Job.
        job: Target,
        /// Which of its groups, if those are queued by themselves.
        number: Option<u32>,
        /// The Workload.
        workload: WorkloadKey,
        /// The Workload's `resourceVersion` that this was decided on.
        version: u64,
        /// Its priority.
        priority: Priority,
    },
    /// This, unless there is a Job of this uid.
    IfGone {
        /// Where the Job was.
        job: Target,
        /// Its uid.
        uid: String,
        /// What to write.
        write: Box<Write>,
    },
    /// A pod of this uid, if it is there and somebody hid it from the watch.
    Show {
        /// Where it was.
        job: Target,
        /// Its uid.
        uid: String,
    },
    /// A request to the cluster autoscaler for the pods of a Workload.
    AskForNodes {
        /// The Workload.
        workload: WorkloadKey,
        /// The `resourceVersion` that this was decided on.
        version: u64,
        /// The request's name.
        request: String,
        /// How to ask.
        config: Box<ProvisioningRequestConfigSpec>,
        /// What its flavors add to its pods.
        placed: BTreeMap<String, Placed>,
    },
    /// This Job's template as its Workload remembers it.
    RestoreJob {
        /// The Job.
        job: Target,
        /// The Workload's name.
        workload: String,
        /// How many of its pods are lost and not waited for.
        lost: usize,
    },
}

impl Order {
    /// The uid of the object that is meant, where one is named.
    pub fn uid(&self) -> Option<&str> {
        match self {
            Self::Look { uid, .. } => Some(uid),
            Self::Write(write) => write.body.pointer("/metadata/uid")?.as_str(),
            _ => None,
        }
    }
}

/// An object as the API server answered with it.
#[derive(Debug)]
pub enum Answer {
    /// A Workload.
    Workload(Box<Workload>),
    /// A Workload that was just made.
    Made(Box<Workload>),
    /// A job.
    Job(AnyJob),
    /// A request to the cluster autoscaler.
    ProvisioningRequest(Box<DynamicObject>),
    /// What is known of a node's GPUs.
    GpuNode(Box<GPUNode>),
    /// Something of which the watch is early enough, or that is gone.
    Other,
}

/// Sends orders.
#[derive(Clone)]
pub struct Sender {
    client: Client,
    metrics: Arc<Metrics>,
}

impl Sender {
    /// A sender that counts its requests.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { client, metrics }
    }

    /// Carries an order out.
    pub async fn carry_out(&self, order: Order) -> Result<Answer> {
        match order {
            // The watch is late and will tell.
            Order::IfGone { job, uid, .. } | Order::Show { job, uid } if self.shows(&job, &uid).await? => {
                Ok(Answer::Other)
            }
            Order::Write(write) | Order::IfGone { write, .. } => self.write(*write).await,
            Order::Look { workload, .. } => {
                let api: Api<Workload> = Api::namespaced(self.client.clone(), &workload.namespace);
                let answer = self.count("GET", "workloads", api.get(&workload.name).await)?;
                Ok(Answer::Workload(Box::new(answer)))
            }
            Order::CreateWorkload { job, number, priority, after } => {
                let job = self.whole(&job, number).await?;
                let workload = match after {
                    None => build::workload(&job, priority),
                    Some(before) => {
                        let api: Api<Workload> = Api::namespaced(self.client.clone(), &before.namespace);
                        let before = self.count("GET", "workloads", api.get(&before.name).await)?;
                        build::successor(&job, &before, priority)
                    }
                };
                let namespace = workload.metadata.namespace.clone().unwrap_or_default();
                let api: Api<Workload> = Api::namespaced(self.client.clone(), &namespace);
                let answer = api.create(&PostParams::default(), &workload).await;
                Ok(Answer::Made(Box::new(self.count("POST", "workloads", answer)?)))
            }
            Order::Ungate { job, mark, room } => {
                let namespace = job.namespace.unwrap_or_default();
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
                let of_job =
                    ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job.name));
                let pods = self.count("GET", "pods", api.list(&of_job).await)?;
                for write in slices::open_gates(&pods.items, &mark, room) {
                    self.write(write).await?;
                }
                Ok(Answer::Other)
            }
            Order::Bind { workload, mark } => {
                let api: Api<Workload> = Api::namespaced(self.client.clone(), &workload.namespace);
                let now = self.count("GET", "workloads", api.get(&workload.name).await)?;
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &workload.namespace);
                let marked = ListParams::default().labels(label::POD_SET);
                let pods = self.count("GET", "pods", api.list(&marked).await)?;
                let writes = stream::iter(binding::bind(&now, &pods.items, &mark));
                let writes = writes.map(|write| self.write(write)).buffer_unordered(BOUND_AT_A_TIME);
                // One that is refused does not keep the others.
                let answers: Vec<_> = writes.collect().await;
                answers.into_iter().find(Result::is_err).unwrap_or(Ok(Answer::Other))
            }
            Order::UpdateWorkload { job, number, workload, version, priority } => {
                let job = self.whole(&job, number).await?;
                self.write(build::update(&job, &workload, version, priority)).await
            }
            Order::Show { .. } => Ok(Answer::Other),
            Order::AskForNodes { workload, version, request, config, placed } => {
                let api: Api<Workload> = Api::namespaced(self.client.clone(), &workload.namespace);
                let workload = self.count("GET", "workloads", api.get(&workload.name).await)?;
                if workload.metadata.resource_version.as_deref() != Some(&version.to_string()) {
                    return Ok(Answer::Workload(Box::new(workload)));
                }
                self.ask_for_nodes(&provisioning::requested(&workload, &request, &config, &placed)).await
            }
            Order::RestoreJob { job, workload, lost } => {
                let namespace = job.namespace.clone().unwrap_or_default();
                let workloads: Api<Workload> = Api::namespaced(self.client.clone(), &namespace);
                let workload = self.count("GET", "workloads", workloads.get(&workload).await)?;
                let job = self.job(&job).await?;
                match job.restore(&workload, lost) {
                    Some(write) => self.write(write).await,
                    None => Ok(Answer::Job(job)),
                }
            }
        }
    }

    /// Whether there is a job of this uid. If pods of it are hidden from the watch, they are shown again.
    async fn shows(&self, target: &Target, uid: &str) -> Result<bool> {
        let there = self.there(target, uid).await?;
        for job in &there {
            if let AnyJob::Pod(pod) = job
                && let Some(write) = pod::show(pod)
            {
                self.write(write).await?;
            }
        }
        Ok(!there.is_empty())
    }

    /// What there is of a job of this uid: itself, or if it is a group its pods.
    async fn there(&self, target: &Target, uid: &str) -> Result<Vec<AnyJob>> {
        if let Some(name) = group::of_uid(uid) {
            let api: Api<Pod> =
                Api::namespaced(self.client.clone(), target.namespace.as_deref().unwrap_or_default());
            let mut pods = self.count("GET", "pods", api.list(&ListParams::default()).await)?.items;
            pods.retain(|pod| group::belongs(pod).is_some_and(|of| of.group == name));
            return Ok(pods.into_iter().map(|pod| AnyJob::Pod(Box::new(pod))).collect());
        }
        match self.job(target).await {
            Ok(job) if job.identity().1.uid.as_deref() == Some(uid) => Ok(vec![job]),
            Ok(_) => Ok(vec![]),
            // By the code: where the whole kind is gone, there is no reason with it.
            Err(Error::Api(status)) if status.code == 404 => Ok(vec![]),
            Err(problem) => Err(problem),
        }
    }

    /// The pod templates first: the autoscaler looks for them as soon as it sees the request.
    async fn ask_for_nodes(&self, wanted: &Requested) -> Result<Answer> {
        for template in wanted.templates() {
            self.write(template).await?;
        }
        let request = serde_json::from_value(wanted.request().clone()).map_err(Error::SerdeError)?;
        let api = self.dynamic(wanted.target());
        let made = api.create(&PostParams::default(), &request).await;
        let made = self.count("POST", wanted.target().plural, made)?;
        for template in wanted.hand_over(made.metadata.uid.as_deref().unwrap_or_default()) {
            self.write(template).await?;
        }
        Ok(Answer::ProvisioningRequest(Box::new(made)))
    }

    /// Sends a write and reads the answer as the type that it is.
    async fn write(&self, write: Write) -> Result<Answer> {
        let namespace = write.target.namespace.clone().unwrap_or_default();
        match write.target.kind {
            "Workload" => {
                let api: Api<Workload> = Api::namespaced(self.client.clone(), &namespace);
                self.send(api, write)
                    .await
                    .map(|o| o.map_or(Answer::Other, |o| Answer::Workload(Box::new(o))))
            }
            "GPUNode" => {
                let answer = self.send(Api::<GPUNode>::all(self.client.clone()), write).await?;
                Ok(answer.map_or(Answer::Other, |o| Answer::GpuNode(Box::new(o))))
            }
            kind if kind == kinds::JOB.kind => {
                let api: Api<Job> = Api::namespaced(self.client.clone(), &namespace);
                let answer = self.send(api, write).await?;
                Ok(answer.map_or(Answer::Other, |o| Answer::Job(AnyJob::Batch(Box::new(o)))))
            }
            kind if kind == kinds::POD.kind => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
                let answer = self.send(api, write).await?;
                Ok(answer.map_or(Answer::Other, |o| Answer::Job(AnyJob::Pod(Box::new(o)))))
            }
            kind => {
                let kind = kinds::find(kind);
                let answer = self.send(self.dynamic(&write.target), write).await?;
                let job = kind.zip(answer).map(|(kind, o)| AnyJob::Described(kind, Box::new(o)));
                Ok(job.map_or(Answer::Other, Answer::Job))
            }
        }
    }

    async fn send<K>(&self, api: Api<K>, write: Write) -> Result<Option<K>>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let Write { target, status, verb, body } = write;
        let (params, patch) = match verb {
            Verb::Apply { manager } => (PatchParams::apply(manager).force(), Patch::Apply(body)),
            Verb::Merge => (PatchParams::default(), Patch::Merge(body)),
            Verb::Json => {
                let operations = serde_json::from_value(body).map_err(Error::SerdeError)?;
                (PatchParams::default(), Patch::Json(operations))
            }
            Verb::Delete => return self.delete(&api, &target, &body).await,
        };
        if status {
            let answer = api.patch_status(&target.name, &params, &patch).await;
            self.count("PATCH", &format!("{}/status", target.plural), answer).map(Some)
        } else {
            let answer = api.patch(&target.name, &params, &patch).await;
            self.count("PATCH", target.plural, answer).map(Some)
        }
    }

    async fn delete<K>(&self, api: &Api<K>, target: &Target, preconditions: &Value) -> Result<Option<K>>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let uid = preconditions.get("uid").and_then(Value::as_str).map(ToOwned::to_owned);
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::default()
        };
        match self.count("DELETE", target.plural, api.delete(&target.name, &params).await) {
            Ok(either) => Ok(either.left()),
            Err(Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn job(&self, target: &Target) -> Result<AnyJob> {
        let namespace = target.namespace.clone().unwrap_or_default();
        match kinds::find(target.kind) {
            Some(kind) if *kind == kinds::POD => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
                Ok(AnyJob::Pod(Box::new(self.count("GET", "pods", api.get(&target.name).await)?)))
            }
            Some(kind) if *kind != kinds::JOB => {
                let answer = self.dynamic(target).get(&target.name).await;
                Ok(AnyJob::Described(kind, Box::new(self.count("GET", target.plural, answer)?)))
            }
            _ => {
                let api: Api<Job> = Api::namespaced(self.client.clone(), &namespace);
                Ok(AnyJob::Batch(Box::new(self.count("GET", "jobs", api.get(&target.name).await)?)))
            }
        }
    }

    /// A job, with what its Workload is made from.
    async fn whole(&self, target: &Target, number: Option<u32>) -> Result<Whole> {
        let job = self.job(target).await?;
        if let AnyJob::Pod(pod) = &job
            && let Some(group) = group::belongs(pod)
        {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
            let managed = ListParams::default().labels(&format!("{}=true", label::MANAGED));
            let mut pods = self.count("GET", "pods", api.list(&managed).await)?.items;
            pods.retain(|pod| group::belongs(pod).is_some_and(|of| of.group == group.group));
            return group::whole(&pods).map_err(|problem| Error::Service(problem.into()));
        }
        let whole = match job.identity().0.makes() {
            Some(made) => {
                let made = made.target(target.namespace.as_deref().unwrap_or_default(), &target.name);
                job.whole_by(&self.job(&made).await?)
            }
            None => job.whole_of(number),
        };
        // It could be read a moment ago: whoever changed it since is seen soon.
        whole.map_err(|problem| Error::Service(problem.into()))
    }

    fn dynamic(&self, target: &Target) -> Api<DynamicObject> {
        let resource = resource(target);
        match &target.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn count<T>(&self, method: &'static str, resource: &str, answer: Result<T>) -> Result<T> {
        let code = match &answer {
            Ok(_) => Some(if method == "POST" { 201 } else { 200 }),
            Err(Error::Api(status)) => Some(status.code),
            Err(_) => None,
        };
        self.metrics.request(method, resource, code);
        answer
    }
}
