//! What everybody who starts a cluster relies on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy.toml allows them in tests; these are their helpers"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use whalezen_e2e::{Cluster, GpuModel, NodePool, kept};

/// How long anything may take on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_mins(1);
/// Tells [`an_owner_for_other_tests`] what to do; without it that test does nothing.
const OWNER_STATE: &str = "WHALEZEN_TEST_OWNER_STATE";

/// One cluster for all tests that only look at it or use names of their own.
async fn shared() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async {
        let pool = NodePool::gpu("a100", 8, GpuModel::A100_SXM4_80GB, 8).zones(2);
        let began = Instant::now();
        let cluster = Cluster::builder().nodes(pool).start().await.unwrap();
        println!("the cluster was ready in {:?}", began.elapsed());
        cluster
    };
    CLUSTER.get_or_init(start).await
}

#[tokio::test]
async fn two_clusters_at_once_are_ready_and_independent() {
    let first = shared().await;
    let second = Cluster::builder().nodes("2 nodes x 4 T4".parse().unwrap()).start().await.unwrap();
    second.kubectl(&["create", "namespace", "only-here"]).await.unwrap();
    let namespaces = first.kubectl(&["get", "namespaces", "-o", "name"]).await.unwrap();
    assert!(!namespaces.contains("only-here"), "{namespaces}");
    for (cluster, nodes) in [(first, 8), (&second, 2)] {
        let status = cluster.kubectl(&["get", "nodes", "--no-headers"]).await.unwrap();
        assert_eq!(status.lines().filter(|line| line.contains(" Ready ")).count(), nodes, "{status}");
    }
    let state = second.state_dir().to_owned();
    second.stop().await.unwrap();
    assert_eq!(what_is_left(&state), Vec::<String>::new());
    first.kubectl(&["get", "--raw", "/readyz"]).await.unwrap();
}

#[tokio::test]
async fn a_gpu_pod_is_scheduled_and_ends_with_its_annotated_exit_code() {
    let pods: Api<Pod> = Api::default_namespaced(shared().await.client());
    for (name, code, phase) in [("good", "0", "Succeeded"), ("bad", "3", "Failed")] {
        let annotations = json!({ "whalezen.dev/duration": "300ms", "whalezen.dev/exit-code": code });
        let pod = gpu_pod(name, 8, &annotations);
        pods.create(&PostParams::default(), &pod).await.unwrap();
        let ended = wait_for_pod(&pods, name, move |pod| phase_of(pod) == Some(phase)).await;
        let node = ended.spec.unwrap().node_name.unwrap();
        assert!(node.starts_with("a100-"), "the scheduler chose {node}");
        let status = ended.status.unwrap();
        assert!(status.pod_ip.is_some() && status.start_time.is_some());
        let state = status.container_statuses.unwrap().remove(0).state.unwrap();
        assert_eq!(state.terminated.unwrap().exit_code.to_string(), code);
    }
}

#[tokio::test]
async fn pods_that_are_seen_before_their_nodes_start_when_the_nodes_appear() {
    let early = NodePool::gpu("early", 1, GpuModel::T4, 1);
    let cluster = Cluster::builder().nodes(early).start().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let late = NodePool::gpu("late", 20, GpuModel::T4, 1);
    let bound_to = |node: String| {
        let mut pod = gpu_pod(&format!("on-{node}"), 1, &json!({}));
        pod.spec.as_mut().unwrap().node_name = Some(node);
        pod
    };
    let create = async |pod: Pod| pods.create(&PostParams::default(), &pod).await.map(|_| ());
    for node in late.node_names() {
        create(bound_to(node)).await.unwrap();
    }
    // One watch tells of all of them in order: when the last runs, the first have been seen.
    create(bound_to("early-0".to_owned())).await.unwrap();
    wait_for_pod(&pods, "on-early-0", |pod| phase_of(pod) == Some("Running")).await;
    cluster.add_nodes(&late).await.unwrap();
    for node in late.node_names() {
        wait_for_pod(&pods, &format!("on-{node}"), |pod| phase_of(pod) == Some("Running")).await;
    }
}

#[tokio::test]
async fn a_pod_without_a_duration_runs_until_it_is_deleted_and_then_goes_promptly() {
    let pods: Api<Pod> = Api::default_namespaced(shared().await.client());
    let pod = pods.create(&PostParams::default(), &gpu_pod("steady", 1, &json!({}))).await.unwrap();
    wait_for_pod(&pods, "steady", |pod| phase_of(pod) == Some("Running")).await;
    pods.delete("steady", &DeleteParams::default()).await.unwrap();
    let uid = pod.metadata.uid.unwrap();
    let gone = conditions::is_deleted(&uid);
    timeout(DEADLINE, await_condition(pods, "steady", gone)).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_job_controller_sees_a_gang_succeed() {
    let jobs: Api<Job> = Api::default_namespaced(shared().await.client());
    let template = gpu_pod("gang", 8, &json!({ "whalezen.dev/duration": "200ms" }));
    let job = json!({
        "metadata": { "name": "gang" },
        "spec": { "parallelism": 8, "completions": 8, "template": template },
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    let complete = conditions::is_job_completed();
    let job = timeout(DEADLINE, await_condition(jobs, "gang", complete)).await.unwrap().unwrap();
    assert_eq!(job.unwrap().status.unwrap().succeeded, Some(8));
}

#[tokio::test]
async fn nodes_carry_what_feature_discovery_and_the_machine_room_would_tell() {
    let nodes: Api<Node> = Api::all(shared().await.client());
    let node = nodes.get("a100-5").await.unwrap();
    let labels = node.metadata.labels.unwrap();
    for (key, value) in [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "81920"),
        ("nvidia.com/gpu.family", "ampere"),
        ("nvidia.com/gpu.compute.major", "8"),
        ("nvidia.com/mig.capable", "true"),
        ("kubernetes.io/hostname", "a100-5"),
        ("topology.kubernetes.io/zone", "zone-1"),
        (whalezen_e2e::RACK_LABEL, "a100-rack-1"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    let allocatable = node.status.unwrap().allocatable.unwrap();
    assert_eq!((allocatable["nvidia.com/gpu"].0.as_str(), allocatable["memory"].0.as_str()), ("8", "2Ti"));
}

#[tokio::test]
async fn a_process_in_a_cluster_is_measured_and_can_be_ended() {
    let cluster = shared().await;
    let mut busy = Command::new("sh");
    busy.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo counted; exit 7"]);
    let busy = cluster.spawn("busy", &busy).unwrap();
    let exit = timeout(DEADLINE, busy.wait()).await.unwrap().unwrap();
    assert_eq!((exit.code, exit.signal), (7, 0));
    assert!(busy.cpu_seconds() > 0.0 && busy.peak_rss_bytes() > 0);
    assert_eq!(busy.log_tail(1), "counted");

    let mut idle = Command::new("sleep");
    let idle = cluster.spawn("idle", idle.arg("600")).unwrap();
    assert!(idle.is_running() && idle.peak_rss_bytes() > 0);
    idle.kill().unwrap();
    assert_eq!(timeout(DEADLINE, idle.wait()).await.unwrap().unwrap().signal, 9);
    idle.terminate().expect("ending what has ended is no error");
}

#[tokio::test]
async fn an_error_of_kubectl_holds_what_kubectl_said() {
    let error = shared().await.kubectl(&["get", "pod", "no-such-pod"]).await.unwrap_err().to_string();
    assert!(error.contains("kubectl get pod no-such-pod") && error.contains("NotFound"), "{error}");
}

#[tokio::test]
async fn a_failed_start_names_the_component_shows_its_log_and_leaves_nothing() {
    let state = scratch("failed");
    let builder = Cluster::builder().state_dir(&state).apiserver_flag("--no-such-flag");
    let error = builder.start().await.err().expect("the flag does not exist").to_string();
    assert!(error.contains("kube-apiserver ended with exit code 1"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
    assert_eq!(what_is_left(&state), Vec::<String>::new());
}

#[tokio::test]
async fn a_folder_that_holds_something_is_not_taken_for_a_state_folder() {
    let state = scratch("used");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("thesis.tex"), "precious").unwrap();
    let error = Cluster::builder().state_dir(&state).start().await.err().expect("refused").to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(fs::read_to_string(state.join("thesis.tex")).unwrap(), "precious");
    fs::remove_dir_all(&state).unwrap();
}

#[tokio::test]
async fn killing_the_owner_leaves_no_process_and_no_state_folder() {
    let state = scratch("killed");
    let mut owner = start_owner(&state, "stay");
    wait_for_line(&mut owner, "ready");
    let running = processes_naming(&state);
    for part in ["etcd", "kube-apiserver", "kube-scheduler", "kwok", "supervisor", "tail"] {
        assert!(running.iter().any(|process| process.contains(part)), "{part} is not in {running:#?}");
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until_nothing_is_left(&state).await;
}

#[tokio::test]
async fn an_owner_killed_while_its_cluster_starts_leaves_nothing_either() {
    let state = scratch("early");
    let mut owner = start_owner(&state, "stay");
    poll("the state folder", || state.join("supervisor.pid").exists()).await;
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until_nothing_is_left(&state).await;
}

#[tokio::test]
async fn a_kept_cluster_outlives_its_owner_until_it_is_stopped() {
    let state = scratch("kept");
    let mut owner = start_owner(&state, "keep");
    assert!(owner.wait().unwrap().success());
    assert!(processes_naming(&state).iter().any(|process| process.contains("kube-apiserver")));
    assert!(state.join("kubeconfig").is_file());
    kept::stop(&state).unwrap();
    assert_eq!(what_is_left(&state), Vec::<String>::new());
}

/// Not a test by itself: other tests run it in a process of its own, which they kill.
#[tokio::test]
async fn an_owner_for_other_tests() {
    let Some(state) = std::env::var_os(OWNER_STATE).map(PathBuf::from) else { return };
    let keep = std::env::var("WHALEZEN_TEST_OWNER_KEEP").is_ok();
    let cluster = Cluster::builder().state_dir(&state).keep(keep).start().await.unwrap();
    // It leaves its parent and its session, as badly behaved programs do.
    let mut stray = Command::new("sh");
    stray.arg("-c").arg(format!("setsid tail -f {}/kubeconfig &", state.display()));
    let stray = cluster.spawn("stray", &stray).unwrap();
    stray.wait().await.unwrap();
    poll("the stray process", || processes_naming(&state).iter().any(|p| p.contains("tail"))).await;
    println!("\nready");
    if !keep {
        std::future::pending::<()>().await;
    }
}

fn start_owner(state: &Path, what: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "an_owner_for_other_tests", "--nocapture"]).env(OWNER_STATE, state);
    if what == "keep" {
        command.env("WHALEZEN_TEST_OWNER_KEEP", "1");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn wait_for_line(owner: &mut Child, wanted: &str) {
    let output = BufReader::new(owner.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line == wanted), "the owner ended too early");
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("whalezen-test-{name}-{}", std::process::id()))
}

/// Processes that have the folder in their command line, this one and its owners apart.
fn processes_naming(state: &Path) -> Vec<String> {
    let wanted = state.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains(wanted)).collect()
}

fn what_is_left(state: &Path) -> Vec<String> {
    let mut left = processes_naming(state);
    if state.exists() {
        left.push(state.display().to_string());
    }
    left
}

async fn wait_until_nothing_is_left(state: &Path) {
    poll("the end of everything", || what_is_left(state).is_empty()).await;
}

async fn poll(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn gpu_pod(name: &str, gpus: u32, annotations: &serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "train",
                "image": "train",
                "resources": { "limits": { "nvidia.com/gpu": gpus.to_string() } },
            }],
        },
    }))
    .unwrap()
}

fn phase_of(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

async fn wait_for_pod(pods: &Api<Pod>, name: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    let condition = |pod: Option<&Pod>| pod.is_some_and(&holds);
    if let Ok(pod) = timeout(DEADLINE, await_condition(pods.clone(), name, condition)).await {
        return pod.unwrap().unwrap();
    }
    panic!("waited in vain for {name}: {:#?}", pods.get(name).await)
}
