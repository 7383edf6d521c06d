//! A node with GPUs and its agent.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::OnceCell,
    time::{Instant, sleep},
};
use whalezen_crds::scheduling::v1alpha1::{
    GPUNode, GPUNodeStatus, GpuDevice, LAYOUT_APPLIED, MIGPolicy, MigInstance,
};
use whalezen_e2e::{Bound, Cluster, NodePool, Process, manifests};
use whalezen_mock_nvml::{
    control::{Control, library},
    machine::{client::Place, fault::Fault, load::Load},
    refusal::Refusal,
};

/// How long anything may take on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_mins(1);
const NAMESPACE: &str = "whalezen-agent";

/// One cluster for all tests: each takes a node of its own.
pub async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async {
        let cluster = Cluster::builder()
            .nodes(NodePool::cpu("gpu", 32, 8, "64Gi"))
            .with_scheduler(false)
            .with_controller_manager(false)
            .with_kwok(false)
            .start()
            .await
            .unwrap();
        cluster.apply_dir(manifests("crds")).await.unwrap();
        cluster
            .kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])
            .await
            .unwrap();
        cluster.apply_dir(manifests("kustomize/agent")).await.unwrap();
        cluster
    };
    CLUSTER.get_or_init(start).await
}

/// A node, its GPUs and, once it is started, its agent.
pub struct Post {
    pub cluster: &'static Cluster,
    pub client: Client,
    pub name: String,
    pub control: Control,
    folder: PathBuf,
    agents: Vec<Process>,
    programs: Vec<Child>,
    pub flags: Vec<String>,
}

impl Post {
    /// A node of nobody else's with these GPUs, as a machine file has them. Its agent is not started yet.
    pub async fn new(gpus: &str) -> Self {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let cluster = cluster().await;
        let name = format!("gpu-{}", TAKEN.fetch_add(1, Ordering::Relaxed));
        let folder = cluster.state_dir().join(&name);
        fs::create_dir_all(&folder).unwrap();
        let config = folder.join("gpus.toml");
        fs::write(&config, format!("require_root = false\n{gpus}")).unwrap();
        let control = Control::open(&config).unwrap();
        Self {
            cluster,
            client: cluster.client(),
            name,
            control,
            folder,
            agents: Vec::new(),
            programs: Vec::new(),
            flags: Vec::new(),
        }
    }

    /// The same, with its agent.
    pub async fn started(gpus: &str) -> Self {
        let mut post = Self::new(gpus).await;
        post.start().await;
        post
    }

    /// Starts an agent with the node's own token.
    pub async fn start(&mut self) -> Process {
        let kubeconfig = self.kubeconfig(&self.name).await;
        self.start_with(&kubeconfig)
    }

    /// Starts an agent with some other token.
    pub fn start_with(&mut self, kubeconfig: &PathBuf) -> Process {
        let own = std::env::current_exe().unwrap();
        let agent = own.ancestors().skip(1).take(2).map(|folder| folder.join("whalezen-agent"));
        let agent = agent.into_iter().find(|file| file.is_file());
        let agent =
            agent.expect("whalezen-agent is not built: `make test` builds it, and so does `make build`");
        let mut command = Command::new(agent);
        command
            .arg(format!("--node-name={}", self.name))
            .arg(format!("--nvml-library={}", library().unwrap().display()))
            .arg("--look-interval-ms=200")
            .arg("--nvml-patience-ms=1000")
            .arg(format!("--lock-file={}", self.folder.join("agent.lock").display()))
            .args(["--no-kubelet", "--no-metrics"])
            .args(&self.flags)
            .env("KUBECONFIG", kubeconfig)
            .env("WHALEZEN_MOCK_NVML", self.folder.join("gpus.toml"));
        let process =
            self.cluster.spawn(&format!("agent-{}-{}", self.name, self.agents.len()), &command).unwrap();
        self.agents.push(process.clone());
        process
    }

    /// A token of an account in the agents' namespace that is bound to a node, as that of a pod there is.
    pub async fn token(&self, account: &str, node: &str) -> String {
        self.cluster.bound_token(NAMESPACE, account, Bound::Node(node)).await.unwrap()
    }

    /// A kubeconfig with such a token.
    pub async fn kubeconfig(&self, node: &str) -> PathBuf {
        let (url, authority) = (self.cluster.url(), self.cluster.authority());
        let file = self.folder.join(format!("kubeconfig-{node}"));
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "agent",
            "contexts": [{ "name": "agent", "context": { "cluster": "cluster", "user": "agent" } }],
            "clusters": [{ "name": "cluster", "cluster": { "server": url, "certificate-authority": authority } }],
            "users": [{ "name": "agent", "user": { "token": self.token("whalezen-agent", node).await } }],
        });
        fs::write(&file, content.to_string()).unwrap();
        file
    }

    /// Ends the agent as a power cut would.
    pub async fn kill(&mut self) {
        for agent in self.agents.iter().filter(|agent| agent.is_running()) {
            agent.kill().unwrap();
            agent.wait().await.unwrap();
        }
    }

    /// What the agents of the node logged.
    pub fn log(&self) -> String {
        self.agents.iter().map(|agent| fs::read_to_string(agent.log()).unwrap()).collect()
    }
}

/// What the API server has.
impl Post {
    pub fn gpu_nodes(&self) -> Api<GPUNode> {
        Api::all(self.client.clone())
    }

    pub async fn gpu_node(&self) -> Option<GPUNode> {
        self.gpu_nodes().get_opt(&self.name).await.unwrap()
    }

    /// Waits until the status is so.
    pub async fn until(&self, what: &str, is: impl Fn(&GPUNodeStatus) -> bool) -> GPUNodeStatus {
        let mut last = None;
        self.watching(what, async || {
            last = self.gpu_node().await.and_then(|node| node.status);
            last.clone().filter(|status| is(status)).ok_or_else(|| format!("{last:#?}"))
        })
        .await
    }

    /// Waits until something is there; what is there instead is told if it never is.
    pub async fn watching<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
        let until = Instant::now() + DEADLINE;
        loop {
            let instead = match look().await {
                Ok(found) => return found,
                Err(instead) => instead,
            };
            if Instant::now() >= until {
                let log = self.log();
                let tail: Vec<&str> = log.lines().rev().take(30).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                panic!("{}: no {what}; instead {instead}\nthe agent's log:\n{}", self.name, tail.join("\n"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the layout of each GPU is these instances, such as `3g.40gb@4`, and the condition says so.
    pub async fn until_layout(&self, layouts: &[&str]) -> Vec<Vec<MigInstance>> {
        let status = self
            .until(&format!("layout {layouts:?}"), |status| {
                let there: Vec<String> = status.gpus.iter().map(layout).collect();
                there == layouts && condition(status, LAYOUT_APPLIED) == ("True", "Applied")
            })
            .await;
        status.gpus.into_iter().map(|gpu| gpu.mig.unwrap().instances).collect()
    }

    /// A policy about this node alone.
    pub async fn policy(&self, mut spec: Value) {
        spec["nodeSelector"] = json!({ "matchLabels": { "kubernetes.io/hostname": self.name } });
        let object = json!({
            "apiVersion": "scheduling.gen.io/v1alpha1",
            "kind": "MIGPolicy",
            "metadata": { "name": self.name },
            "spec": spec,
        });
        let api: Api<MIGPolicy> = Api::all(self.client.clone());
        api.patch(&self.name, &PatchParams::apply("a-person").force(), &Patch::Apply(object)).await.unwrap();
    }

    /// Writes the spec of the GPUNode, as the operator does.
    pub async fn assign(&self, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.gpu_nodes().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Sets labels of the node, or takes them away.
    pub async fn label(&self, labels: Value) {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        self.nodes().patch(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The value of a label of the node.
    pub async fn label_of(&self, key: &str) -> Option<String> {
        let node = self.nodes().get(&self.name).await.unwrap();
        node.metadata.labels.unwrap_or_default().get(key).cloned()
    }
}

/// What befalls the machine.
impl Post {
    /// Lets calls fail or hang.
    pub fn fault(
        &self,
        function: &str,
        gpu: Option<usize>,
        returns: Option<Refusal>,
        hang_ms: u64,
        times: Option<u64>,
    ) {
        let fault = Fault { function: function.to_owned(), gpu, after: 0, times, returns, hang_ms, seen: 0 };
        self.control.inject(fault).unwrap();
    }

    /// Starts a program that uses an instance; it ends with the test.
    pub fn program(&mut self, gpu: usize, instance: &MigInstance) {
        let child = Command::new("sleep").arg("3600").spawn().unwrap();
        let gi = u32::try_from(instance.gpu_instance_id).unwrap();
        self.control.attach(child.id(), gpu, Some(Place { gi, ci: 0 }), Load::default()).unwrap();
        self.programs.push(child);
    }

    /// Ends all programs.
    pub fn end_programs(&mut self) {
        for mut program in self.programs.drain(..) {
            program.kill().unwrap();
            program.wait().unwrap();
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.end_programs();
        for agent in &self.agents {
            drop(agent.kill());
        }
    }
}

/// The instances of a GPU, such as `1g.10gb@0 3g.40gb@4`.
pub fn layout(gpu: &GpuDevice) -> String {
    let instances = gpu.mig.iter().flat_map(|mig| &mig.instances);
    let mut words: Vec<(i32, String)> =
        instances.map(|there| (there.start, format!("{}@{}", there.profile, there.start))).collect();
    words.sort();
    words.into_iter().map(|(_, word)| word).collect::<Vec<_>>().join(" ")
}

/// Status and reason of a condition.
pub fn condition<'a>(status: &'a GPUNodeStatus, kind: &str) -> (&'a str, &'a str) {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind);
    found.map_or(("", ""), |condition| (&condition.status, &condition.reason))
}

/// The message of a condition.
pub fn message(status: &GPUNodeStatus, kind: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind);
    found.map(|condition| condition.message.clone()).unwrap_or_default()
}

/// What a client may do that has only this token.
pub fn client_with(cluster: &Cluster, token: String) -> Client {
    let mut config = kube::Config::new(cluster.url().parse().unwrap());
    let authority = fs::read(cluster.authority()).unwrap();
    config.root_cert = Some(certificates(&authority));
    config.auth_info.token = Some(token.into());
    Client::try_from(config).unwrap()
}

fn certificates(pem: &[u8]) -> Vec<Vec<u8>> {
    use base64::Engine as _;

    let text = String::from_utf8_lossy(pem);
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let decode = |block: &str| {
        let body = block.split("-----END").next().unwrap_or_default();
        let body: String = body.split_whitespace().collect();
        base64::engine::general_purpose::STANDARD.decode(body).unwrap()
    };
    blocks.map(decode).collect()
}
