//! Bringing a cluster up, one component after the other.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, anyhow, bail};
use futures::future::try_join_all;
use futures::try_join;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::binaries::{Binaries, NodeBinaries};
use crate::builder::ClusterBuilder;
use crate::cache::cache_dir;
use crate::cluster::Cluster;
use crate::components::{self, Layout, Nodes};
use crate::credentials;
use crate::ports::free_ports;
use crate::process::Process;
use crate::real::{self, Machine, Network, RealNode, Tools, is_ready, node_names};
use crate::supervisor::Supervisor;

/// A start takes some seconds; this is for a machine that is busy with something else.
const DEADLINE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(15);
/// How many times other ports are tried when somebody else took them first.
const ATTEMPTS: u32 = 4;

/// Starts what `builder` describes.
pub(crate) async fn start(builder: &ClusterBuilder) -> Result<Cluster> {
    let binaries = tokio::task::spawn_blocking(Binaries::ensure).await??;
    let on_nodes = match builder.real_nodes {
        0 => None,
        _ => Some((Tools::find()?, tokio::task::spawn_blocking(NodeBinaries::ensure).await??)),
    };
    let mut attempt = 1;
    let cluster = loop {
        match start_once(builder, &binaries, on_nodes.as_ref()).await {
            Err(error) if attempt < ATTEMPTS && is_port_taken(&error) => attempt += 1,
            result => break result?,
        }
    };
    if builder.keep {
        cluster.keep()?;
    }
    Ok(cluster)
}

fn is_port_taken(error: &Error) -> bool {
    format!("{error:#}").contains("address already in use")
}

async fn start_once(
    builder: &ClusterBuilder,
    binaries: &Binaries,
    on_nodes: Option<&(Tools, NodeBinaries)>,
) -> Result<Cluster> {
    let [etcd_client, etcd_peer, api] = free_ports()?;
    let address = Ipv4Addr::LOCALHOST;
    let layout = Layout { state: new_state_dir(builder)?, etcd_client, etcd_peer, api, address };
    let supervisor = Supervisor::start(binaries.supervisor(), &layout.state)?;
    let result = bring_up(builder, binaries, on_nodes, layout, &supervisor).await;
    if result.is_err() {
        // The first error is the one to report; a supervisor that cannot stop has said so in its own log.
        let _ = supervisor.stop();
    }
    result
}

fn new_state_dir(builder: &ClusterBuilder) -> Result<PathBuf> {
    let name = format!("whalezen-{}", credentials::random_token()?.get(..12).unwrap_or_default());
    let dir = match &builder.state_dir {
        Some(dir) => std::path::absolute(dir)?,
        None if builder.keep => cache_dir()?.join("clusters").join(name),
        None => std::env::temp_dir().join(name),
    };
    let used = fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some());
    if used {
        bail!("{} is not empty: a cluster's state folder is its own and is removed with it", dir.display());
    }
    Ok(dir)
}

async fn bring_up(
    builder: &ClusterBuilder,
    binaries: &Binaries,
    on_nodes: Option<&(Tools, NodeBinaries)>,
    mut layout: Layout,
    supervisor: &Arc<Supervisor>,
) -> Result<Cluster> {
    fs::create_dir(layout.certificates())?;
    let mut real_nodes = Vec::new();
    if let Some((tools, programs)) = on_nodes {
        let network = Network::build(supervisor, &layout).await?;
        layout.address = network.machine();
        let machine = Arc::new(Machine {
            supervisor: Arc::clone(supervisor),
            init: binaries.supervisor().to_owned(),
            binaries: programs.clone(),
            tools: tools.clone(),
            network,
            nodes: builder.real_nodes,
            state: layout.state.clone(),
            clients: layout.kubelet_client().authority,
        });
        for (number, name) in node_names(builder.real_nodes) {
            real_nodes.push(RealNode::new(Arc::clone(&machine), number, name)?);
        }
    }
    // The nodes boot while the control plane starts, and only then look for it.
    let control_plane = control_plane(builder, binaries, layout, supervisor);
    let boots = try_join_all(real_nodes.iter().map(RealNode::boot));
    let (mut cluster, _) = try_join!(control_plane, boots)?;
    cluster.real_nodes = real_nodes;
    for pool in &builder.pools {
        cluster.add_nodes(pool).await?;
    }
    let control_plane = ["kube-apiserver", "etcd"].map(|name| cluster.process(name));
    let control_plane: Vec<&Process> = control_plane.iter().flatten().collect();
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    until(&control_plane, || async { namespaces.get_opt("default").await.ok().flatten() }).await?;
    if !cluster.real_nodes.is_empty() {
        start_kubelets(&cluster).await?;
    }
    // A component with bad flags ends at once: say so now, not when something waits for it.
    cluster.check()?;
    Ok(cluster)
}

/// Starts the kubelets and waits until their nodes are ready.
async fn start_kubelets(cluster: &Cluster) -> Result<()> {
    let kubelets = cluster.real_nodes.iter().map(RealNode::start_kubelet).collect::<Result<Vec<_>>>()?;
    let needed: Vec<&Process> = kubelets.iter().collect();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let all_ready = || async {
        let ready =
            nodes.list(&ListParams::default()).await.ok()?.iter().filter(|node| is_ready(node)).count();
        (ready == kubelets.len()).then_some(())
    };
    until(&needed, all_ready).await.context("the real nodes are not ready")
}

/// Starts every component of the control plane.
async fn control_plane(
    builder: &ClusterBuilder,
    binaries: &Binaries,
    layout: Layout,
    supervisor: &Arc<Supervisor>,
) -> Result<Cluster> {
    let nodes = builder.kind_of_nodes();
    let token = credentials::random_token()?;
    let mut kubelets = Vec::new();
    for (_, name) in node_names(builder.real_nodes) {
        kubelets.push((name, credentials::random_token()?));
    }
    credentials::write_token_file(&layout.tokens(), &token, &kubelets)?;
    credentials::write_service_account_keys(
        &layout.service_account_key(),
        &layout.service_account_public_key(),
    )?;
    credentials::write_client(&layout.front_proxy(), credentials::FRONT_PROXY, None)?;
    if nodes == Nodes::Real {
        let administrators = Some("system:masters");
        credentials::write_client(&layout.kubelet_client(), credentials::KUBELET_CLIENT, administrators)?;
    }
    let spawn = |name: &str, command| Process::spawn(supervisor, name, layout.log(name), &command);

    let etcd = spawn("etcd", components::etcd(binaries, &layout))?;
    // By its own word: on its port another cluster's etcd may answer, had that taken it first.
    until(&[&etcd], || async { etcd.log_contains("serving client traffic").then_some(()) }).await?;

    let flags = &builder.apiserver_flags;
    let apiserver = spawn("kube-apiserver", components::apiserver(binaries, &layout, nodes, flags))?;
    let servers = [&apiserver, &etcd];
    let authority = until(&servers, || async { complete_certificate(&layout) }).await?;
    credentials::write_kubeconfig(&layout.kubeconfig(), &layout.url(), &authority, &token)?;
    for (name, token) in &kubelets {
        credentials::write_kubeconfig(&real::kubeconfig(&layout, name), &layout.url(), &authority, token)?;
    }
    let config = client_config(&layout).await?;
    let client = Client::try_from(config.clone())?;
    until(&servers, || answers_ready(&client)).await?;

    let mut processes = vec![etcd.clone(), apiserver.clone()];
    if builder.controller_manager {
        let flags = &builder.controller_manager_flags;
        let command = components::controller_manager(binaries, &layout, nodes, flags);
        processes.push(spawn("kube-controller-manager", command)?);
    }
    if builder.scheduler {
        processes.push(spawn("kube-scheduler", components::scheduler(binaries, &layout)?)?);
    }
    if nodes == Nodes::Simulated {
        processes.push(spawn("kwok", components::kwok(binaries, &layout)?)?);
    }
    Ok(Cluster {
        binaries: binaries.clone(),
        layout,
        token,
        config,
        client,
        processes: Mutex::new(processes),
        supervisor: Arc::clone(supervisor),
        kept: AtomicBool::new(false),
        nodes_made: AtomicU32::new(0),
        real_nodes: Vec::new(),
    })
}

/// The certificate the API server signed for itself, once it is written to the end.
fn complete_certificate(layout: &Layout) -> Option<Vec<u8>> {
    let pem = fs::read(layout.authority()).ok()?;
    pem.ends_with(b"-----END CERTIFICATE-----\n").then_some(pem)
}

/// From the cluster's own kubeconfig: nothing of the user's environment is in it.
async fn client_config(layout: &Layout) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(layout.kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(config)
}

async fn answers_ready(client: &Client) -> Option<()> {
    let request = http::Request::get("/readyz").body(Vec::new()).ok()?;
    let answer = client.request_text(request).await.ok()?;
    (answer == "ok").then_some(())
}

/// Asks again and again until there is an answer. Fails when one of `needed` ends, with the end
/// of its log, or when the time is up, with the end of the first one's.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    needed: &[&Process],
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask().await {
            return Ok(answer);
        }
        if let Some(ended) = needed.iter().find(|process| !process.is_running()) {
            return Err(failure(ended));
        }
        if Instant::now() > deadline {
            let Some(slow) = needed.first() else { bail!("not ready in time") };
            bail!("{} was not ready in {DEADLINE:?}; {}", slow.name(), log_end(slow));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The error for a component that has ended although the cluster needs it.
pub(crate) fn failure(process: &Process) -> Error {
    let how = match process.exit() {
        Some(exit) if exit.signal != 0 => format!("was ended by signal {}", exit.signal),
        Some(exit) => format!("ended with exit code {}", exit.code),
        None => "was stopped".to_owned(),
    };
    anyhow!("{} {how}; {}", process.name(), log_end(process))
}

fn log_end(process: &Process) -> String {
    format!("the end of its log:\n{}", process.log_tail(20))
}
