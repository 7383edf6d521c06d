//! Two replicas of the operator, as the Deployment would run them: with the service account's rights and no more.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use serde_json::json;

use crate::cluster::Cluster;
use crate::install::manifests;
use crate::ports::{free_ports, own_address};
use crate::process::Process;

const NAMESPACE: &str = "whalezen-system";
const NAME: &str = "whalezen-operator";

/// The operator that was built in the same profile as the running program.
pub fn built_operator() -> Result<PathBuf> {
    built(NAME, "whalezen-controller")
}

/// The simulator, which plays an operator's decisions again, that was built in the same profile as the running program.
pub(crate) fn built_simulator() -> Result<PathBuf> {
    built("whalezen-sim", "whalezen-simulator")
}

/// A program beside the running one, or a folder above where that is a test.
fn built(program: &str, package: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join(program));
    beside.into_iter().find(|file| file.is_file()).with_context(|| {
        format!(
            "{program} is not built: `make demo` and `make test` build it, and so does `cargo build -p {package}`"
        )
    })
}

/// The replicas and the lease that says which of them writes.
pub struct Replicas {
    operator: PathBuf,
    config: PathBuf,
    flags: Vec<String>,
    kubeconfig: PathBuf,
    /// Where each keeps its decision log, in a folder of its name.
    logs: PathBuf,
    started: u32,
    processes: Vec<Process>,
    /// Where each that was started serves, by its name.
    addresses: BTreeMap<String, SocketAddr>,
    /// The ports at which the API server looks for the operator, and who has which.
    endpoints: BTreeMap<u16, Option<String>>,
    /// How to reach the API server that the lease is in. A client lives no longer than the runtime that made it, and
    /// several tests may ask.
    administrator: kube::Config,
}

impl Replicas {
    /// Starts both with the configuration that they are installed with.
    pub async fn start(cluster: &Cluster, operator: &Path) -> Result<Self> {
        let config = manifests("kustomize/base/operator/controller_manager_config.yaml");
        Self::start_with(cluster, operator, &config, &[]).await
    }

    /// Starts both with this configuration file and these further flags.
    pub async fn start_with(
        cluster: &Cluster,
        operator: &Path,
        config: &Path,
        flags: &[&str],
    ) -> Result<Self> {
        let mut replicas = Self {
            operator: operator.to_owned(),
            config: config.to_owned(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            kubeconfig: kubeconfig(cluster).await?,
            logs: cluster.state_dir().join("decisions"),
            started: 0,
            processes: Vec::new(),
            addresses: BTreeMap::new(),
            endpoints: free_ports::<2>()?.map(|port| (port, None)).into(),
            administrator: cluster.config.clone(),
        };
        replicas.publish_endpoints(cluster).await?;
        replicas.start_another(cluster)?;
        replicas.start_another(cluster)?;
        Ok(replicas)
    }

    /// Starts one more, as the Deployment does for one that ended.
    pub fn start_another(&mut self, cluster: &Cluster) -> Result<()> {
        self.started += 1;
        let identity = format!("replica-{}", self.started);
        let [port] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let serving = self.take_endpoint(&identity).map_or("0".to_owned(), |port| format!(":{port}"));
        let mut command = Command::new(&self.operator);
        command
            .arg(format!("--lease-namespace={NAMESPACE}"))
            .arg(format!("--lease-name={NAME}"))
            .arg(format!("--identity={identity}"))
            .arg(format!("--metrics-bind-address={address}"))
            .arg(format!("--serving-bind-address={serving}"))
            .arg(format!("--decision-log={}", self.logs.join(&identity).display()))
            .arg("--config")
            .arg(&self.config)
            .args(&self.flags)
            .env("KUBECONFIG", &self.kubeconfig);
        self.processes.push(cluster.spawn(&identity, &command)?);
        self.addresses.insert(identity, address);
        Ok(())
    }

    /// A port at which the API server looks for the operator and none that runs has.
    fn take_endpoint(&mut self, identity: &str) -> Option<u16> {
        let runs = |name: &String| self.processes.iter().any(|process| process.name() == name);
        let (port, owner) = self.endpoints.iter_mut().find(|(_, owner)| !owner.as_ref().is_some_and(runs))?;
        *owner = Some(identity.to_owned());
        Some(*port)
    }

    /// Tells the API server where the replicas are, as the controllers of a real cluster do by the Service.
    async fn publish_endpoints(&self, cluster: &Cluster) -> Result<()> {
        let Some(address) = own_address() else { return Ok(()) };
        for port in self.endpoints.keys() {
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("{NAME}-{port}"),
                    "namespace": NAMESPACE,
                    "labels": { "kubernetes.io/service-name": NAME },
                },
                "addressType": "IPv4",
                "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
                "ports": [{ "name": "https", "port": port, "protocol": "TCP" }],
            });
            cluster.kubectl_apply_stdin(&slice.to_string()).await.context("where the replicas serve")?;
        }
        Ok(())
    }

    /// The ports at which the API server looks for the operator.
    pub fn endpoints(&self) -> Vec<u16> {
        self.endpoints.keys().copied().collect()
    }

    /// Where a replica serves.
    pub fn address(&self, identity: &str) -> Option<SocketAddr> {
        self.addresses.get(identity).copied()
    }

    /// The folders of the decision logs, of those too that were killed.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.addresses.keys().map(|identity| self.logs.join(identity)).collect()
    }

    /// Those that were started and not killed.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Ends all of them as a power cut would.
    pub fn kill_all(&mut self) -> Result<()> {
        self.processes.drain(..).try_for_each(|process| process.kill())
    }

    /// The replica that holds the lease, or `None` when nobody does or the holder is dead.
    pub async fn leader(&self) -> Result<Option<String>> {
        let client = kube::Client::try_from(self.administrator.clone())?;
        let lease = Api::<Lease>::namespaced(client, NAMESPACE).get_opt(NAME).await?;
        let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
        Ok(holder.filter(|holder| {
            self.processes.iter().any(|process| process.name() == holder && process.is_running())
        }))
    }

    /// Waits until one leads.
    pub async fn elected(&self) -> Result<String> {
        loop {
            if let Some(leader) = self.leader().await? {
                return Ok(leader);
            }
            if self.processes.iter().all(|process| !process.is_running()) {
                bail!("no replica of the operator runs{}", self.last_words());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the API server passes requests on to the replicas. Each definition in which it is told whom to trust
    /// has changed by then, for which the API server ends every watch of its objects.
    pub async fn reached(&self) -> Result<()> {
        let client = kube::Client::try_from(self.administrator.clone())?;
        let api: Api<APIService> = Api::all(client);
        loop {
            let found = api.get("v1beta1.visibility.kueue.x-k8s.io").await?;
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            if conditions.iter().any(|condition| condition.type_ == "Available" && condition.status == "True")
            {
                return Ok(());
            }
            self.check()?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends the leader as a power cut would, and says which it was.
    pub async fn kill_leader(&mut self) -> Result<String> {
        let leader = self.leader().await?.context("nobody leads")?;
        let Some(at) = self.processes.iter().position(|process| process.name() == leader) else {
            bail!("{leader} is none of these replicas");
        };
        self.processes.remove(at).kill()?;
        Ok(leader)
    }

    /// Fails when a replica has ended that nobody killed.
    pub fn check(&self) -> Result<()> {
        match self.processes.iter().find(|process| !process.is_running()) {
            Some(ended) => {
                bail!("{} has ended by itself; its log ends with:\n{}", ended.name(), ended.log_tail(20))
            }
            None => Ok(()),
        }
    }

    /// The ends of the replicas' logs, for a report of what went wrong.
    pub fn last_words(&self) -> String {
        let each = self
            .processes
            .iter()
            .map(|process| format!("\nThe log of {} ends with:\n{}", process.name(), process.log_tail(15)));
        each.collect()
    }
}

/// A kubeconfig with a token of the operator's service account, so that every run also shows that the roles suffice.
async fn kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    let token =
        cluster.kubectl(&["create", "token", NAME, "--namespace", NAMESPACE, "--duration=24h"]).await?;
    let file = cluster.state_dir().join("operator-kubeconfig");
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "operator",
        "contexts": [{ "name": "operator", "context": { "cluster": "cluster", "user": "operator" } }],
        "clusters": [{ "name": "cluster", "cluster": { "server": cluster.url(), "certificate-authority": cluster.authority() } }],
        "users": [{ "name": "operator", "user": { "token": token.trim() } }],
    });
    std::fs::write(&file, content.to_string())?;
    Ok(file)
}
