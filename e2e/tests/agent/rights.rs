//! What an agent may write: its own GPUNode, labels and annotations of its own node, and nothing else.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use whalezen_crds::scheduling::v1alpha1::{GPUNode, READY};

use crate::post::{Post, client_with, condition};

const H100: &str = r#"gpus = [{ model = "H100-80", mig = true }]"#;

#[tokio::test]
async fn an_agent_with_the_token_of_another_node_writes_nothing() {
    let mut post = Post::new(H100).await;
    let other = Post::new(H100).await;
    let stolen = post.kubeconfig(&other.name).await;
    post.start_with(&stolen);
    let refusal = format!("the token of {} may not write {}", other.name, post.name);
    post.watching("refusal", async || {
        let log = post.log();
        if log.contains(&refusal) { Ok(()) } else { Err(log) }
    })
    .await;
    assert_eq!(post.gpu_node().await, None);
    assert_eq!(other.gpu_node().await, None);
    post.kill().await;
    post.start().await;
    post.until("ready", |status| condition(status, READY).0 == "True").await;
}

#[tokio::test]
async fn a_token_of_an_agent_is_good_for_its_own_node_and_nothing_else() {
    let post = Post::new(H100).await;
    let other = Post::new(H100).await;
    // Whatever roles it is given: even an administrator's.
    let name = format!("too-much-{}", post.name);
    let account = format!("--serviceaccount=whalezen-agent:{name}");
    for arguments in [
        ["create", "serviceaccount", &name, "--namespace=whalezen-agent"],
        ["create", "clusterrolebinding", &name, "--clusterrole=cluster-admin"],
    ] {
        let more = if arguments[1] == "clusterrolebinding" { Some(account.as_str()) } else { None };
        post.cluster.kubectl(&arguments.into_iter().chain(more).collect::<Vec<_>>()).await.unwrap();
    }
    let client = client_with(post.cluster, post.token(&name, &post.name).await);
    let refused = |what: &str, result: Result<(), kube::Error>| {
        let error = result.expect_err(what).to_string();
        assert!(error.contains("agent-own-node.whalezen.dev"), "{what}: {error}");
    };
    let own = Writer { client: client.clone(), node: post.name.clone() };
    post.watching("the policy in force", async || {
        let pods: Api<Pod> = Api::namespaced(client.clone(), "whalezen-agent");
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match pods.create(&params, &pod()).await {
            Err(error) if error.to_string().contains("does not write /pods") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    own.node(json!({ "metadata": { "labels": { "nvidia.com/mig.config.state": "success", "gpu.memory.free.percent": "80" } } })).await.unwrap();
    own.node(json!({ "metadata": { "annotations": { "scheduling.gen.io/mig-config-state": "success" } } }))
        .await
        .unwrap();
    own.gpu_node(json!({})).await.unwrap();
    own.status(json!({ "driverVersion": "1" })).await.unwrap();

    for (what, patch) in [
        (
            "a label of others",
            json!({ "metadata": { "labels": { "node-restriction.kubernetes.io/x": "y" } } }),
        ),
        ("a label taken away", json!({ "metadata": { "labels": { "kubernetes.io/hostname": null } } })),
        ("taking over", json!({ "metadata": { "labels": { "scheduling.gen.io/mig-manager": "whalezen" } } })),
        ("an annotation of others", json!({ "metadata": { "annotations": { "x": "y" } } })),
        ("a cordon", json!({ "spec": { "unschedulable": true } })),
        ("a finalizer", json!({ "metadata": { "finalizers": ["x.dev/y"] } })),
    ] {
        refused(what, own.node(patch).await);
    }
    let foreign = Writer { client: client.clone(), node: other.name.clone() };
    refused("another node", foreign.node(json!({ "metadata": { "labels": { "nvidia.com/x": "y" } } })).await);
    refused("another GPUNode", foreign.gpu_node(json!({})).await);
    refused("the spec", own.spec(json!({ "gpus": [] })).await);
    let all = DeleteParams::default();
    refused("deleting", Api::<GPUNode>::all(client.clone()).delete(&post.name, &all).await.map(|_| ()));
    let (every, gpu_nodes) = (ListParams::default(), Api::<GPUNode>::all(client.clone()));
    refused("deleting all", gpu_nodes.delete_collection(&all, &every).await.map(|_| ()));

    // A token that is of no node is good for nothing.
    let loose =
        post.cluster.kubectl(&["create", "token", "whalezen-agent", "-n", "whalezen-agent"]).await.unwrap();
    let loose =
        Writer { client: client_with(post.cluster, loose.trim().to_owned()), node: post.name.clone() };
    refused(
        "a token of no node",
        loose.node(json!({ "metadata": { "labels": { "nvidia.com/x": "y" } } })).await,
    );
    post.cluster.kubectl(&["delete", "clusterrolebinding", &name]).await.unwrap();
}

/// The roles themselves give no right to anything else.
#[tokio::test]
async fn the_role_gives_no_right_to_pods_nor_to_the_spec() {
    let cluster = crate::post::cluster().await;
    let agent = "--as=system:serviceaccount:whalezen-agent:whalezen-agent";
    for (verb, resource, may) in [
        ("patch", "gpunodes.scheduling.gen.io --subresource=status", "yes"),
        ("patch", "gpunodes.scheduling.gen.io", "no"),
        ("delete", "gpunodes.scheduling.gen.io", "no"),
        ("get", "pods", "no"),
        ("create", "pods", "no"),
        ("patch", "nodes --subresource=status", "no"),
        ("get", "secrets", "no"),
    ] {
        let asked: Vec<&str> = resource.split(' ').collect();
        let answer = cluster.kubectl(&[&["auth", "can-i", verb, agent], asked.as_slice()].concat()).await;
        let said = answer.unwrap_or_else(|error| error.to_string());
        assert_eq!((said.trim() == "yes"), may == "yes", "{verb} {resource}: {said}");
    }
}

/// Who writes about a node.
struct Writer {
    client: Client,
    node: String,
}

impl Writer {
    async fn node(&self, patch: Value) -> Result<(), kube::Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        api.patch(&self.node, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
    }

    async fn gpu_node(&self, spec: Value) -> Result<(), kube::Error> {
        let api: Api<GPUNode> = Api::all(self.client.clone());
        let object = GPUNode::new(&self.node, serde_json::from_value(spec).unwrap());
        api.create(&PostParams::default(), &object).await.map(|_| ())
    }

    async fn spec(&self, spec: Value) -> Result<(), kube::Error> {
        let api: Api<GPUNode> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "spec": spec, "metadata": { "labels": { "x": "y" } } }));
        api.patch(&self.node, &PatchParams::default(), &patch).await.map(|_| ())
    }

    async fn status(&self, status: Value) -> Result<(), kube::Error> {
        let api: Api<GPUNode> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&self.node, &PatchParams::default(), &patch).await.map(|_| ())
    }
}

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "probe" },
        "spec": { "serviceAccountName": "whalezen-agent", "containers": [{ "name": "c", "image": "i" }] },
    }))
    .unwrap()
}
