//! What pods do on real nodes.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use tokio::time::timeout;
use whalezen_e2e::real::BUSYBOX_IMAGE;
use whalezen_e2e::{Image, Replicas, built_operator};

use crate::ground::{DEADLINE, delete, phase, pod, quiet, ready, run};

#[tokio::test]
async fn nodes_are_ready_with_the_addresses_at_which_they_are_reached() {
    let Some(cluster) = quiet().await else { return };
    let nodes: Api<Node> = Api::all(cluster.client());
    let found = nodes.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.items.len(), 2);
    for (object, node) in found.iter().zip(cluster.real_nodes()) {
        let status = object.status.as_ref().unwrap();
        let addresses = status.addresses.as_ref().unwrap();
        let internal = addresses.iter().find(|address| address.type_ == "InternalIP").unwrap();
        assert_eq!(object.metadata.name.as_deref(), Some(node.name()));
        assert_eq!(internal.address, node.address().to_string());
        let info = status.node_info.as_ref().unwrap();
        assert_eq!(info.kubelet_version, "v1.36.3");
        assert!(info.container_runtime_version.starts_with("containerd://2."));
        for socket in [node.device_plugin_dir().join("kubelet.sock"), node.pod_resources_socket()] {
            assert!(socket.exists(), "{}", socket.display());
        }
    }
    let identity = |node: &Node| {
        let info = node.status.as_ref().unwrap().node_info.clone().unwrap();
        [info.boot_id, info.machine_id]
    };
    let [first, second] = [&found.items[0], &found.items[1]].map(identity);
    assert!(first.iter().zip(&second).all(|(first, second)| first != second), "{first:?} {second:?}");
}

#[tokio::test]
async fn pods_of_two_nodes_reach_each_other_and_their_logs_and_shells_are_reached() {
    let Some(cluster) = quiet().await else { return };
    let [first, second] = cluster.real_nodes() else { panic!("two nodes") };
    let serve = "mkdir /www && hostname > /www/index.html && echo serving && exec httpd -f -p 80 -h /www";
    for (name, node) in [("left", first), ("right", second)] {
        run(&cluster, pod(name, node, serve), ready).await;
        assert_eq!(cluster.kubectl(&["logs", name]).await.unwrap(), "serving\n");
    }
    for (from, to) in [("left", "right"), ("right", "left")] {
        let address = ["get", "pod", to, "-o", "jsonpath={.status.podIP}"];
        let url = format!("http://{}/", cluster.kubectl(&address).await.unwrap());
        // A server takes a moment to listen.
        let ask = format!("until wget -q -O - {url}; do :; done");
        let page = timeout(DEADLINE, cluster.kubectl(&["exec", from, "--", "sh", "-c", &ask])).await;
        assert_eq!(page.unwrap().unwrap(), format!("{to}\n"));
    }
    for name in ["left", "right"] {
        delete(&cluster, name).await;
    }
}

#[tokio::test]
async fn a_pod_ends_with_the_code_of_its_program_and_is_told_the_api_servers_authority() {
    let Some(cluster) = quiet().await else { return };
    let node = &cluster.real_nodes()[0];
    let script = "ls /var/run/secrets/kubernetes.io/serviceaccount/ca.crt && exit 3";
    let mut short = pod("short", node, script);
    short["spec"]["restartPolicy"] = json!("Never");
    let ended = run(&cluster, short, |pod| phase(pod) == Some("Failed")).await;
    let state = ended.status.unwrap().container_statuses.unwrap().remove(0).state.unwrap();
    assert_eq!(state.terminated.unwrap().exit_code, 3);
}

#[tokio::test]
async fn an_image_of_our_own_files_runs_on_every_node() {
    let Some(cluster) = quiet().await else { return };
    // A program without a loader is all that a container needs.
    let image = Image::new("localhost/own:1")
        .file("/program", "/bin/busybox")
        .link("/bin/echo", "/program")
        .entrypoint(&["/bin/echo", "from our own image"]);
    cluster.load_image(&image).await.unwrap();
    for node in cluster.real_nodes() {
        let name = format!("own-{}", node.name());
        let mut pod = pod(&name, node, "");
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["containers"][0]["image"] = json!("localhost/own:1");
        pod["spec"]["containers"][0].as_object_mut().unwrap().remove("command");
        run(&cluster, pod, |pod| phase(pod) == Some("Succeeded")).await;
        assert_eq!(cluster.kubectl(&["logs", &name]).await.unwrap(), "from our own image\n");
    }
}

fn kueue(kind: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({ "name": name, "namespace": "default" });
    json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec })
}

#[tokio::test]
async fn a_job_that_the_operator_admits_runs_on_real_nodes_and_completes() {
    let Some(cluster) = quiet().await else { return };
    cluster.install_operator().await.unwrap();
    let replicas = Replicas::start(&cluster, &built_operator().unwrap()).await.unwrap();
    let container = json!({
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "echo trained $JOB_COMPLETION_INDEX"],
        "resources": { "requests": { "cpu": "100m" } },
    });
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "train" } },
    });
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "default",
            "labels": { "kueue.x-k8s.io/queue-name": "main" },
        },
        "spec": {
            "suspend": true,
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "template": {
                "metadata": { "labels": { "app": "train" } },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container],
                    "topologySpreadConstraints": [spread],
                },
            },
        },
    });
    let quota = json!([{ "coveredResources": ["cpu"], "flavors": [
        { "name": "default", "resources": [{ "name": "cpu", "nominalQuota": 1 }] },
    ] }]);
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        kueue("ResourceFlavor", "default", &json!({})),
        kueue("ClusterQueue", "shared", &json!({ "namespaceSelector": {}, "resourceGroups": quota })),
        kueue("LocalQueue", "main", &json!({ "clusterQueue": "shared" })),
        job,
    ] });
    cluster.kubectl_apply_stdin(&objects.to_string()).await.unwrap();
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    let complete = conditions::is_job_completed();
    let done = timeout(DEADLINE, await_condition(jobs.clone(), "train", complete)).await;
    let words = replicas.last_words();
    assert!(done.is_ok(), "the Job does not complete: {:#?}{words}", jobs.get("train").await);
    let columns = "jsonpath={range .items[*]}{.spec.nodeName}{\"\\n\"}{end}";
    let places = cluster.kubectl(&["get", "pods", "--selector=app=train", "-o", columns]).await.unwrap();
    let mut places: Vec<&str> = places.lines().collect();
    places.sort_unstable();
    assert_eq!(places, ["node-1", "node-2"]);
    let admitted = ["get", "workloads", "-o", "jsonpath={.items[*].status.admission.clusterQueue}"];
    assert_eq!(cluster.kubectl(&admitted).await.unwrap(), "shared");
}
