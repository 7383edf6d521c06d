//! Where a test takes place, and how it looks at what happens there.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};
use whalezen_e2e::{Cluster, GpuModel, NodePool, Replicas, built_operator};

use crate::objects::{GPU, cluster_queue, flavor, job, kueue, local_queue, namespace};

/// How long anything may take on a machine that is busy with other things.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// The LocalQueue that every ground has.
pub const QUEUE: &str = "main";

/// A cluster with the operator in it.
pub struct Site {
    pub cluster: Cluster,
    /// Both replicas. Only a test with a site of its own may harm them.
    pub replicas: tokio::sync::Mutex<Replicas>,
    logs: Mutex<Vec<PathBuf>>,
}

/// The site that all tests share that disturb nobody.
pub async fn shared() -> Arc<Site> {
    static SITE: OnceCell<Arc<Site>> = OnceCell::const_new();
    let start = || async {
        let site = Site::start(32, true).await;
        policies_in_force(&site).await;
        site
    };
    Arc::clone(SITE.get_or_init(start).await)
}

impl Site {
    /// Starts a cluster of this many nodes with eight GPUs each, and the operator.
    pub async fn start(nodes: u32, policies: bool) -> Arc<Self> {
        Self::start_with(nodes, policies, "configuration.yaml").await
    }

    /// The same with a configuration of its own: a file beside this one.
    pub async fn start_with(nodes: u32, policies: bool, configuration: &str) -> Arc<Self> {
        Self::start_with_flags(nodes, policies, configuration, &[]).await
    }

    /// The same with further flags.
    pub async fn start_with_flags(
        nodes: u32,
        policies: bool,
        configuration: &str,
        flags: &[&str],
    ) -> Arc<Self> {
        let given = std::env::var_os("WHALEZEN_OPERATOR").map(PathBuf::from);
        let operator = given.unwrap_or_else(|| built_operator().unwrap());
        let pool = NodePool::gpu("a100", nodes, GpuModel::A100_SXM4_80GB, 8);
        let cluster = Cluster::builder().nodes(pool).start().await.unwrap();
        if policies {
            cluster.install_operator().await.unwrap();
        } else {
            cluster.install_operator_without_policies().await.unwrap();
        }
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kueue").join(configuration);
        let replicas = Replicas::start_with(&cluster, &operator, &config, flags).await.unwrap();
        let elected = timeout(DEADLINE, replicas.elected()).await;
        elected.unwrap_or_else(|_| panic!("no replica leads{}", replicas.last_words())).unwrap();
        let reached = timeout(DEADLINE, replicas.reached()).await;
        reached.unwrap_or_else(|_| panic!("no replica is reached{}", replicas.last_words())).unwrap();
        let site = Self { cluster, replicas: replicas.into(), logs: Mutex::default() };
        site.note_logs().await;
        Arc::new(site)
    }

    /// Remembers the logs of the replicas that run now.
    pub async fn note_logs(&self) {
        let replicas = self.replicas.lock().await;
        let mut logs = self.logs.lock().unwrap();
        for process in replicas.processes() {
            if !logs.iter().any(|log| log == process.log()) {
                logs.push(process.log().to_owned());
            }
        }
    }

    /// What the replicas logged, whether they still run or not.
    pub fn log(&self) -> String {
        let logs = self.logs.lock().unwrap();
        logs.iter().map(|log| String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned()).collect()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

/// The API server takes note of new policies and of their parameters after a moment.
pub async fn policies_in_force(site: &Arc<Site>) {
    let ground = Ground::bare(site, "policy-probe").await;
    ground.apply(&local_queue(&ground.name, "default", "none")).await;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let named = job("probe", 1, 1, None);
    let mut unnamed = named.clone();
    unnamed["metadata"]["labels"] = json!({});
    let mut wrong = named.clone();
    wrong["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = json!("0");
    let mut gated = kueue(
        "Workload",
        "probe",
        json!({"spec": {"queueName": QUEUE, "podSets": [{
            "name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        }]}}),
    );
    gated["metadata"]["annotations"] = json!({"kueue.x-k8s.io/admission-gated-by": "?"});
    ground
        .until("the policies' effect", async || {
            for job in [&named, &unnamed] {
                let job = serde_json::from_value(job.clone()).unwrap();
                let made = ground.api("Job").create(&params, &job).await.unwrap();
                if made.data["spec"]["suspend"] != true {
                    return false;
                }
            }
            for refused in [&wrong, &gated] {
                let object = serde_json::from_value(refused.clone()).unwrap();
                let api = ground.api(refused["kind"].as_str().unwrap());
                if api.create(&params, &object).await.is_ok() {
                    return false;
                }
            }
            true
        })
        .await;
}

/// A test's own place in a site: a namespace, and queues and a flavor of the same name.
pub struct Ground {
    pub site: Arc<Site>,
    client: Client,
    pub name: String,
}

impl Ground {
    /// A place with a ClusterQueue of this many GPUs, to which the LocalQueue [`QUEUE`] leads.
    pub async fn new(name: &str, gpus: u32) -> Self {
        let ground = Self::bare(&shared().await, name).await;
        ground.queues(gpus).await;
        ground
    }

    /// A namespace without queues.
    pub async fn empty(name: &str) -> Self {
        Self::bare(&shared().await, name).await
    }

    /// A namespace without queues in a site of the test's own.
    pub async fn bare(site: &Arc<Site>, name: &str) -> Self {
        let ground = Self { site: Arc::clone(site), client: site.cluster.client(), name: name.to_owned() };
        ground.apply(&namespace(name)).await;
        ground
    }

    /// The same place once more, for a task of its own.
    pub fn again(&self) -> Self {
        Self { site: Arc::clone(&self.site), client: self.client.clone(), name: self.name.clone() }
    }

    /// Makes the flavor and the queues.
    pub async fn queues(&self, gpus: u32) {
        self.apply(&flavor(&self.name)).await;
        self.apply(&cluster_queue(&self.name, &self.name, gpus)).await;
        self.apply(&local_queue(&self.name, QUEUE, &self.name)).await;
        self.is_active(&self.name).await;
    }

    /// The objects of a kind, in this namespace if they live in one.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Job" | "CronJob" => ("batch", "v1"),
            "Deployment" | "StatefulSet" => ("apps", "v1"),
            "LeaderWorkerSet" => ("leaderworkerset.x-k8s.io", "v1"),
            "Pod" | "PodTemplate" | "Namespace" | "Node" | "LimitRange" => ("", "v1"),
            "RuntimeClass" => ("node.k8s.io", "v1"),
            "Event" => ("events.k8s.io", "v1"),
            "PriorityClass" => ("scheduling.k8s.io", "v1"),
            "SchedulingPolicy" | "GPUNode" | "MIGPolicy" => ("scheduling.gen.io", "v1alpha1"),
            "JobSet" => ("jobset.x-k8s.io", "v1alpha2"),
            "PyTorchJob" | "JAXJob" | "TFJob" | "XGBoostJob" | "PaddleJob" => ("kubeflow.org", "v1"),
            "MPIJob" => ("kubeflow.org", "v2beta1"),
            "RayJob" | "RayCluster" => ("ray.io", "v1"),
            "AppWrapper" => ("workload.codeflare.dev", "v1beta2"),
            "ProvisioningRequest" => ("autoscaling.x-k8s.io", "v1"),
            "TrainJob" => ("trainer.kubeflow.org", "v1alpha1"),
            "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1"),
            _ => ("kueue.x-k8s.io", "v1beta2"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let of_the_cluster = match group {
            "kueue.x-k8s.io" => !matches!(kind, "LocalQueue" | "Workload"),
            "" => matches!(kind, "Namespace" | "Node"),
            "node.k8s.io" | "scheduling.k8s.io" | "scheduling.gen.io" | "apiextensions.k8s.io" => true,
            _ => false,
        };
        if of_the_cluster {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.name, &resource)
        }
    }
}

/// What people do.
impl Ground {
    /// Applies an object as `kubectl apply --server-side` does.
    pub async fn apply(&self, object: &Value) -> Value {
        self.try_apply(object).await.unwrap_or_else(|error| panic!("{object}: {error}"))
    }

    /// The same, where the API server may refuse it.
    pub async fn try_apply(&self, object: &Value) -> Result<Value, String> {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let params = PatchParams::apply("a-person").force();
        let applied = self.api(kind).patch(name, &params, &Patch::Apply(object)).await;
        applied.map(|object| value(&object)).map_err(|error| error.to_string())
    }

    /// Creates an object.
    pub async fn create(&self, object: Value) -> Value {
        self.try_create(object.clone()).await.unwrap_or_else(|error| panic!("{object}: {error}"))
    }

    /// The same, where the API server may refuse it.
    pub async fn try_create(&self, object: Value) -> Result<Value, String> {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let object = serde_json::from_value(object).unwrap();
        let created = self.api(&kind).create(&PostParams::default(), &object).await;
        created.map(|object| value(&object)).map_err(|error| error.to_string())
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        self.try_patch(kind, name, patch).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))
    }

    /// The same, where the API server may refuse it.
    pub async fn try_patch(&self, kind: &str, name: &str, patch: Value) -> Result<Value, String> {
        let patched = self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.map(|object| value(&object)).map_err(|error| error.to_string())
    }

    /// Changes an object's status by a merge patch, as its controller does.
    pub async fn patch_status(&self, kind: &str, name: &str, status: Value) -> Value {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self.api(kind).patch_status(name, &PatchParams::default(), &patch).await;
        value(&patched.unwrap_or_else(|error| panic!("{kind} {name}: {error}")))
    }

    /// Deletes an object and what belongs to it, and does not wait for its end.
    pub async fn delete(&self, kind: &str, name: &str) {
        let deleted = self.api(kind).delete(name, &DeleteParams::background()).await;
        deleted.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    /// Runs kubectl in this namespace.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let arguments = [&["--namespace", &*self.name], arguments].concat();
        self.site.cluster.kubectl(&arguments).await.unwrap()
    }
}

/// What people see.
impl Ground {
    /// An object, if it is there.
    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api(kind).get_opt(name).await.unwrap().map(|object| value(&object))
    }

    /// Watches an object until this holds of it.
    pub async fn sees(&self, kind: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let last = Mutex::new(Value::Null);
        let condition = |object: Option<&DynamicObject>| {
            let object = object.map_or(Value::Null, value);
            let holds = !object.is_null() && holds(&object);
            *last.lock().unwrap() = object;
            holds
        };
        let seen = timeout(DEADLINE, await_condition(self.api(kind), name, condition)).await;
        if !matches!(seen, Ok(Ok(_))) {
            let last = serde_json::to_string_pretty(&*last.lock().unwrap()).unwrap();
            let log = self.site.log_tail();
            panic!("{kind} {name} is not seen to be so: {what}\nIt is: {last}\nThe operator says:\n{log}");
        }
        last.into_inner().unwrap()
    }

    /// Watches an object until it is gone.
    pub async fn gone(&self, kind: &str, name: &str) {
        self.gone_within(DEADLINE, kind, name).await;
    }

    /// The same, for what may take longer.
    pub async fn gone_within(&self, deadline: Duration, kind: &str, name: &str) {
        let gone = await_condition(self.api(kind), name, |object: Option<&DynamicObject>| object.is_none());
        if timeout(deadline, gone).await.is_err() {
            let left = self.get(kind, name).await;
            panic!("{kind} {name} does not go: {left:#?}\nThe operator says:\n{}", self.site.log_tail());
        }
    }

    /// The pods of a Job.
    pub async fn pods(&self, job: &str) -> Vec<Value> {
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        self.api("Pod").list(&of_job).await.unwrap().iter().map(value).collect()
    }

    /// The name of a Job's Workload, once it has one.
    pub async fn workload_of(&self, job: &str) -> String {
        self.workload_of_kind("Job", job).await
    }

    /// The name of the Workload of a job of this kind, once it has one.
    pub async fn workload_of_kind(&self, kind: &str, job: &str) -> String {
        let job = self.get(kind, job).await.unwrap();
        let of_job = format!("kueue.x-k8s.io/job-uid={}", text(&job, "/metadata/uid"));
        let of_job = ListParams::default().labels(&of_job);
        let found = Mutex::new(String::new());
        self.until("a Workload", async || {
            let workloads = self.api("Workload").list(&of_job).await.unwrap();
            let name = workloads.items.first().and_then(|workload| workload.metadata.name.clone());
            *found.lock().unwrap() = name.clone().unwrap_or_default();
            name.is_some()
        })
        .await;
        found.into_inner().unwrap()
    }

    /// A Job's Workload once this holds of it.
    pub async fn workload(&self, job: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let name = self.workload_of(job).await;
        self.sees("Workload", &name, what, holds).await
    }

    /// A Job's Workload once it is admitted.
    pub async fn admitted(&self, job: &str) -> Value {
        self.workload(job, "is admitted", |workload| is(workload, "Admitted")).await
    }

    /// Why a Job's Workload waits, once it waits for this reason.
    pub async fn waits(&self, job: &str, reason: &str) -> String {
        let what = format!("waits by reason of {reason}");
        let workload = self
            .workload(job, &what, |workload| {
                condition(workload, "QuotaReserved")
                    .is_some_and(|c| c["status"] == "False" && c["reason"] == reason)
            })
            .await;
        condition(&workload, "QuotaReserved").unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// A Job once all of its pods run.
    pub async fn runs(&self, job: &str) -> Value {
        let all = |job: &Value| job["status"]["active"] == job["spec"]["parallelism"];
        self.sees("Job", job, "runs", |job| all(job) && job["status"]["ready"] == job["status"]["active"])
            .await
    }

    /// A Workload once its Job ended so.
    pub async fn finished(&self, job: &str, reason: &str) -> Value {
        let what = format!("is finished by reason of {reason}");
        let ended = |workload: &Value| {
            condition(workload, "Finished").is_some_and(|c| c["status"] == "True" && c["reason"] == reason)
        };
        self.workload(job, &what, ended).await
    }

    /// A ClusterQueue once it is active.
    pub async fn is_active(&self, queue: &str) -> Value {
        self.sees("ClusterQueue", queue, "is active", |queue| is(queue, "Active") && is_current(queue)).await
    }

    /// Why a ClusterQueue is not active, once it is not by this reason.
    pub async fn is_inactive(&self, queue: &str, reason: &str) -> String {
        let what = format!("is inactive by reason of {reason}");
        let inactive = |queue: &Value| {
            condition(queue, "Active").is_some_and(|c| c["status"] == "False" && c["reason"] == reason)
                && is_current(queue)
        };
        let queue = self.sees("ClusterQueue", queue, &what, inactive).await;
        condition(&queue, "Active").unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// A ClusterQueue once so many wait in it, and so many are admitted and use so many GPUs of its first flavor.
    pub async fn counts(&self, queue: &str, pending: u32, admitted: u32, gpus: u32) -> Value {
        let what = format!("has {pending} waiting, {admitted} admitted and {gpus} GPUs used");
        self.sees("ClusterQueue", queue, &what, |queue| {
            let status = &queue["status"];
            let used = |list: &str| used(queue, list, 0, GPU) == gpus.to_string();
            status["pendingWorkloads"] == pending
                && status["admittedWorkloads"] == admitted
                && status["reservingWorkloads"] == admitted
                && used("flavorsUsage")
                && used("flavorsReservation")
        })
        .await
    }

    /// An Event about an object, once there is one of this reason that says this.
    pub async fn told(&self, kind: &str, name: &str, reason: &str, says: &str) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let events = self.api("Event").list(&ListParams::default()).await.unwrap();
            let events: Vec<Value> = events.iter().map(value).collect();
            if events.iter().any(|event| {
                event["regarding"]["kind"] == kind
                    && event["regarding"]["name"] == name
                    && event["reason"] == reason
                    && text(event, "/note").contains(says)
            }) {
                return;
            }
            if Instant::now() > deadline {
                let told: Vec<String> = events
                    .iter()
                    .map(|e| format!("{} {} {}", e["regarding"]["name"], e["reason"], e["note"]))
                    .collect();
                panic!(
                    "no event {reason} about {kind} {name} says {says:?}; there are:\n{}\nThe operator says:\n{}",
                    told.join("\n"),
                    self.site.log_tail()
                );
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Ground {
    /// Asks again and again until it is so.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !holds().await {
            let late = Instant::now() > deadline;
            assert!(!late, "waited in vain for {what}\nThe operator says:\n{}", self.site.log_tail());
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let log = self.site.log();
        assert!(std::thread::panicking() || !log.contains("panicked at"), "the operator panicked:\n{log}");
    }
}

fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

/// The condition of this type.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Whether a condition is `True`.
pub fn is(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == "True")
}

/// Whether the `Active` condition is about the spec as it is.
pub fn is_current(object: &Value) -> bool {
    condition(object, "Active").is_some_and(|c| c["observedGeneration"] == object["metadata"]["generation"])
}

/// The text at a JSON pointer.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What a queue's status says is used of a resource of its flavor at this index.
pub fn used(queue: &Value, list: &str, flavor: usize, resource: &str) -> String {
    let resources = queue["status"][list][flavor]["resources"].as_array();
    let entry = resources.into_iter().flatten().find(|entry| entry["name"] == resource);
    entry.map(|entry| text(entry, "/total").to_owned()).unwrap_or_default()
}
