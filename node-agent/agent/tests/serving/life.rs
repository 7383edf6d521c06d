//! The plugins' life with a kubelet.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, task::JoinHandle};
use whalezen_agent::{
    claims::{ClaimSource as _, Claims},
    plugin::{
        allocation::VISIBLE_DEVICES,
        given::Given,
        set::{self, Config},
        unit::ResourceName,
    },
    view::View,
};
use whalezen_kubelet_api::KUBELET_SOCKET;

use crate::{
    ground::{Folder, broken, gpu, gpu_id, islands, mig, mig_id, node, profile},
    kubelet::Kubelet,
};

const GPU: &str = "nvidia.com/gpu";

/// The plugins of one node.
pub struct Plugins {
    pub view: watch::Sender<View>,
    pub given: Arc<Given>,
    task: JoinHandle<()>,
}

impl Plugins {
    pub fn start(folder: &Folder, view: View) -> Self {
        Self::start_in(folder.path(), folder.path().join("cdi"), view, Duration::from_secs(5))
    }

    fn start_in(folder: &Path, cdi: PathBuf, view: View, patience: Duration) -> Self {
        let (view, seen) = watch::channel(view);
        let given = Arc::new(Given::new(Kubelet::pod_resources(folder), seen.clone()));
        let config = Config {
            folder: folder.into(),
            cdi: Some(cdi),
            files: true,
            dev: folder.join("dev"),
            minors: folder.join("mig-minors"),
            patience,
        };
        let run = set::run(config, seen, Arc::clone(&given) as _);
        Self { view, given, task: tokio::spawn(run) }
    }

    /// What the kubelet says, and what is promised.
    pub async fn claims(&self) -> Claims {
        self.given.claims().await.unwrap()
    }

    /// As if the agent was killed.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Ends it in good order.
    async fn end(self) {
        drop(self.view);
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn devices_are_offered_and_a_container_gets_those_that_go_together() {
    let folder = Folder::new("offer");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, islands(&[4, 4]));
    kubelet.until(GPU, (8, 8)).await;

    let visible = |answer: &whalezen_kubelet_api::device_plugin::ContainerAllocateResponse| {
        answer.envs[VISIBLE_DEVICES].split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let first = kubelet.admit("one", GPU, 1).await.unwrap();
    assert_eq!(visible(&first), [gpu_id(0).to_string()]);
    let second = kubelet.admit("four", GPU, 4).await.unwrap();
    assert_eq!(visible(&second), [4, 5, 6, 7].map(|index| gpu_id(index).to_string()));
    assert_eq!(second.cdi_devices[0].name, format!("scheduling.gen.io/gpu={}", gpu_id(4)));
    let file = std::fs::read_to_string(folder.path().join("cdi/whalezen.json")).unwrap();
    assert!(file.contains(gpu_id(4).as_str()));
    assert!(kubelet.admit("too-many", GPU, 4).await.is_err());
    plugins.end().await;
    kubelet.until(GPU, (8, 0)).await;
    let left = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with("wz-")).count(), 0, "no socket is left behind");
}

#[tokio::test]
async fn a_kubelet_that_is_started_again_knows_the_devices_again() {
    let folder = Folder::new("again");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0), gpu(1), mig(2, &[("1g.10gb", 0)])]));
    let mig_name = ResourceName::mig(profile("1g.10gb"));
    for round in 0..3 {
        kubelet.until(GPU, (2, 2)).await;
        kubelet.until(mig_name.as_str(), (1, 1)).await;
        kubelet.admit(&format!("pod-{round}"), mig_name.as_str(), 1).await.unwrap();
        kubelet.remove(&format!("pod-{round}"));
        kubelet.kill();
        kubelet.start_again();
    }
    kubelet.until(GPU, (2, 2)).await;
    assert_eq!(kubelet.registrations(GPU), 4, "once for each kubelet");
    plugins.end().await;
}

#[tokio::test]
async fn a_kubelet_that_comes_later_is_found() {
    let folder = Folder::new("later");
    // The folder is not there either.
    let inner = folder.path().join("plugins");
    let plugins = Plugins::start_in(&inner, folder.path().into(), node(vec![gpu(0)]), Duration::from_secs(5));
    tokio::task::yield_now().await;
    std::fs::create_dir(&inner).unwrap();
    let mut kubelet = Kubelet::start(&inner);
    kubelet.until(GPU, (1, 1)).await;
    plugins.end().await;
}

#[tokio::test]
async fn an_agent_that_was_killed_and_started_again_offers_the_same_and_what_is_given_stays() {
    let folder = Folder::new("agent");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0), gpu(1)]));
    kubelet.until(GPU, (2, 2)).await;
    kubelet.admit("pod", GPU, 1).await.unwrap();
    plugins.kill().await;

    let plugins = Plugins::start(&folder, node(vec![gpu(0), gpu(1)]));
    kubelet.until(GPU, (2, 2)).await;
    assert!(kubelet.admit("other", GPU, 2).await.is_err());
    assert!(plugins.claims().await.may_hold(&gpu_id(0)));
    plugins.end().await;
}

#[tokio::test]
async fn resources_come_and_go_with_the_layout() {
    let folder = Folder::new("layout");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0)]));
    let [one, three] = ["1g.10gb", "3g.40gb"].map(|name| ResourceName::mig(profile(name)));
    kubelet.until(GPU, (1, 1)).await;

    plugins.view.send_replace(node(vec![mig(0, &[("1g.10gb", 0), ("3g.40gb", 4)])]));
    kubelet.until(GPU, (0, 0)).await;
    kubelet.until(one.as_str(), (1, 1)).await;
    kubelet.until(three.as_str(), (1, 1)).await;

    plugins.view.send_replace(node(vec![gpu(0)]));
    kubelet.until(GPU, (1, 1)).await;
    kubelet.until(three.as_str(), (0, 0)).await;
    assert_eq!(kubelet.registrations(GPU), 1, "one that comes back soon was never gone");
    plugins.end().await;
}

#[tokio::test]
async fn a_device_that_fails_is_unhealthy_and_not_given_and_comes_back() {
    let folder = Folder::new("health");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0), gpu(1)]));
    kubelet.until(GPU, (2, 2)).await;
    plugins.view.send_replace(node(vec![broken(gpu(0)), gpu(1)]));
    kubelet.until(GPU, (2, 1)).await;
    let given = kubelet.admit("pod", GPU, 1).await.unwrap();
    assert_eq!(given.envs[VISIBLE_DEVICES], gpu_id(1).to_string());
    plugins.view.send_replace(node(vec![gpu(0), gpu(1)]));
    kubelet.until(GPU, (2, 2)).await;
    plugins.end().await;
}

#[tokio::test]
async fn an_assigned_device_goes_to_who_knows_its_name_and_to_nobody_else() {
    let folder = Folder::new("assigned");
    let mut kubelet = Kubelet::start(folder.path());
    let mut two = node(vec![mig(0, &[("3g.40gb", 0), ("3g.40gb", 4)])]);
    two.withheld = [mig_id(0, 0)].into();
    two.assigned = [(mig_id(0, 0), ("team".to_owned(), "assigned".to_owned()))].into();
    let plugins = Plugins::start(&folder, two);
    let (shared, own) = (ResourceName::mig(profile("3g.40gb")), ResourceName::of(&mig_id(0, 0)));
    kubelet.until(shared.as_str(), (1, 1)).await;
    kubelet.until(own.as_str(), (1, 1)).await;

    let other = kubelet.admit("other", shared.as_str(), 1).await.unwrap();
    assert_eq!(other.envs[VISIBLE_DEVICES], mig_id(0, 4).to_string());
    assert!(kubelet.admit("another", shared.as_str(), 1).await.is_err());
    let assigned = kubelet.admit("assigned", own.as_str(), 1).await.unwrap();
    assert_eq!(assigned.envs[VISIBLE_DEVICES], mig_id(0, 0).to_string());
    assert_eq!(assigned.cdi_devices[0].name, format!("scheduling.gen.io/gpu={}", mig_id(0, 0)));
    assert_eq!(plugins.claims().await.of(&mig_id(0, 0))[0].pod, "assigned");
    plugins.end().await;
}

#[tokio::test]
async fn a_device_that_is_to_go_is_given_to_nobody_once_that_is_said_or_is_known_to_be_given() {
    let folder = Folder::new("leaving");
    let mut kubelet = Kubelet::start(folder.path());
    let view = node(vec![mig(0, &[("1g.10gb", 0), ("1g.10gb", 1)])]);
    let plugins = Plugins::start(&folder, view.clone());
    let name = ResourceName::mig(profile("1g.10gb"));
    kubelet.until(name.as_str(), (2, 2)).await;
    let given = kubelet.admit("pod", name.as_str(), 1).await.unwrap().envs[VISIBLE_DEVICES].clone();
    assert_eq!(given, mig_id(0, 0).to_string());

    // From here on who wants to destroy it may ask who has it. The kubelet has not heard of it yet.
    plugins.view.send_replace(View { withheld: [mig_id(0, 1)].into(), ..view });
    assert!(kubelet.admit("late", name.as_str(), 1).await.is_err());
    let claims = plugins.claims().await;
    assert!(claims.may_hold(&mig_id(0, 0)) && !claims.may_hold(&mig_id(0, 1)));
    kubelet.until(name.as_str(), (1, 1)).await;
    plugins.end().await;
}

#[tokio::test]
async fn a_kubelet_that_refuses_forgets_or_disconnects_is_told_again() {
    let folder = Folder::new("stubborn");
    let mut kubelet = Kubelet::start(folder.path());
    kubelet.refuse(true);
    let plugins = Plugins::start_in(
        folder.path(),
        folder.path().into(),
        node(vec![gpu(0)]),
        Duration::from_millis(300),
    );
    let until = async |times: usize| {
        while kubelet.registrations(GPU) < times {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), until(1)).await.unwrap();
    kubelet.refuse(false);
    kubelet.until(GPU, (1, 1)).await;
    let known = kubelet.registrations(GPU);

    kubelet.forget_next();
    kubelet.disconnect(GPU);
    kubelet.until(GPU, (1, 0)).await;
    kubelet.until(GPU, (1, 1)).await;
    assert!(kubelet.registrations(GPU) >= known + 2, "once it forgot, once it did not");
    plugins.end().await;
}

#[tokio::test]
async fn a_file_in_the_place_of_a_socket_harms_nothing_but_its_resource() {
    let folder = Folder::new("file");
    std::fs::write(folder.path().join("wz-gpu.sock"), "not a socket").unwrap();
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0), mig(1, &[("7g.80gb", 0)])]));
    kubelet.until(ResourceName::mig(profile("7g.80gb")).as_str(), (1, 1)).await;
    assert_eq!(kubelet.counts(GPU), (0, 0));
    std::fs::remove_file(folder.path().join("wz-gpu.sock")).unwrap();
    kubelet.until(GPU, (1, 1)).await;
    assert!(folder.path().join(KUBELET_SOCKET).exists());
    plugins.end().await;
}

#[tokio::test]
async fn nothing_new_is_offered_while_the_cdi_file_cannot_be_written() {
    let folder = Folder::new("nocdi");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0)]));
    kubelet.until(GPU, (1, 1)).await;
    std::fs::create_dir(folder.path().join("cdi/.whalezen.json.new")).unwrap();
    plugins.view.send_replace(node(vec![broken(gpu(0)), gpu(1)]));
    // What was offered before is told as it is.
    kubelet.until(GPU, (1, 0)).await;
    std::fs::remove_dir(folder.path().join("cdi/.whalezen.json.new")).unwrap();
    kubelet.until(GPU, (2, 1)).await;
    plugins.end().await;
}
