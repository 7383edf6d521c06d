//! Who has what, as the kubelet says.

use whalezen_agent::{
    claims::{ClaimSource as _, Claims},
    device::Uuid,
    plugin::given::{Given, by_device},
    view::View,
};
use whalezen_crds::scheduling::v1alpha1::Holder;
use whalezen_kubelet_api::pod_resources::{
    ClaimResource, ContainerDevices, ContainerResources, DynamicResource, ListPodResourcesResponse,
    PodResources,
};

use crate::{
    ground::{Folder, gpu, gpu_id, mig, mig_id, node},
    kubelet::Kubelet,
    life::Plugins,
};

const GPU: &str = "nvidia.com/gpu";

fn holder(pod: &str) -> Holder {
    Holder { namespace: "team".into(), pod: pod.into(), container: "main".into() }
}

#[tokio::test]
async fn a_device_is_held_by_a_container_from_when_it_is_given_until_its_pod_is_gone() {
    let folder = Folder::new("held");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0)]));
    kubelet.until(GPU, (1, 1)).await;
    assert!(!plugins.claims().await.may_hold(&gpu_id(0)));
    kubelet.admit("pod", GPU, 1).await.unwrap();
    assert_eq!(plugins.claims().await.of(&gpu_id(0)), [holder("pod")]);
    kubelet.remove("pod");
    assert!(!plugins.claims().await.may_hold(&gpu_id(0)));
}

#[tokio::test]
async fn a_device_that_was_given_and_is_not_listed_yet_is_held_by_somebody_without_a_name() {
    let folder = Folder::new("promised");
    let mut kubelet = Kubelet::start(folder.path());
    let plugins = Plugins::start(&folder, node(vec![gpu(0), gpu(1)]));
    kubelet.until(GPU, (2, 2)).await;
    kubelet.admit("pod", GPU, 1).await.unwrap();
    // The kubelet takes the pod in later, or never.
    kubelet.remove("pod");
    let claims = plugins.claims().await;
    assert_eq!((claims.of(&gpu_id(0)), claims.may_hold(&gpu_id(1))), (&[Holder::default()][..], false));
}

#[tokio::test]
async fn a_kubelet_that_does_not_answer_is_an_error_and_not_a_free_node() {
    let folder = Folder::new("silent");
    let (_view, seen) = tokio::sync::watch::channel(View::default());
    let given = Given::new(Kubelet::pod_resources(folder.path()), seen);
    assert!(given.claims().await.is_err());
    let mut kubelet = Kubelet::start(folder.path());
    assert!(matches!(given.claims().await, Ok(Claims::Known(_))));
    kubelet.kill();
    assert!(given.claims().await.is_err());
}

#[test]
fn holders_are_those_of_gpus_whoever_gave_them() {
    let container = |name: &str, resource: &str, ids: &[&str]| ContainerResources {
        name: name.into(),
        devices: vec![ContainerDevices {
            resource_name: resource.into(),
            device_ids: ids.iter().map(|&id| id.to_owned()).collect(),
            topology: None,
        }],
        ..ContainerResources::default()
    };
    let pod = |name: &str, containers: Vec<ContainerResources>| PodResources {
        name: name.into(),
        namespace: "team".into(),
        containers,
    };
    let list = ListPodResourcesResponse {
        pod_resources: vec![
            pod("b", vec![container("main", "nvidia.com/gpu.shared", &["GPU-1::0", "GPU-1::1"])]),
            pod("a", vec![container("main", "nvidia.com/gpu.shared", &["GPU-1::2"])]),
            pod("c", vec![container("main", "device.scheduling.gen.io/MIG-1", &["MIG-1"])]),
            pod(
                "d",
                vec![container("main", "example.com/fpga", &["GPU-1"]), container("x", "strange", &["y"])],
            ),
            pod("e", vec![]),
        ],
    };
    let expected =
        [(Uuid::from("GPU-1"), vec![holder("a"), holder("b")]), (Uuid::from("MIG-1"), vec![holder("c")])];
    assert_eq!(by_device(list, &View::default()), expected.into());
}

#[test]
fn what_nvidias_dra_driver_has_given_is_held_and_what_it_means_is_not_guessed_too_small() {
    let view = node(vec![gpu(0), mig(1, &[("1g.10gb", 0), ("3g.40gb", 4)])]);
    let held = |driver: &str, device: &str| {
        let claim = ClaimResource {
            driver_name: driver.into(),
            device_name: device.into(),
            ..ClaimResource::default()
        };
        let claims = vec![DynamicResource { claim_resources: vec![claim], ..DynamicResource::default() }];
        let container = ContainerResources {
            name: "main".into(),
            dynamic_resources: claims,
            ..ContainerResources::default()
        };
        let pod = PodResources { name: "pod".into(), namespace: "team".into(), containers: vec![container] };
        let by = by_device(ListPodResourcesResponse { pod_resources: vec![pod] }, &view);
        by.into_keys().collect::<Vec<_>>()
    };
    let (whole, divided, small, half) = (gpu_id(0), gpu_id(1), mig_id(1, 0), mig_id(1, 4));
    for (device, expected) in [
        ("gpu-0", vec![&whole]),
        ("gpu-1", vec![&divided]),
        ("gpu-1-mig-9-4-4", vec![&half]),
        ("gpu-1-mig-9-2-4", vec![&divided, &small, &half]),
        ("gpu-1-something-new", vec![&divided, &small, &half]),
        ("gpu-7", vec![]),
        ("something-new", vec![&whole, &divided, &small, &half]),
        ("", vec![&whole, &divided, &small, &half]),
    ] {
        assert_eq!(
            held("gpu.nvidia.com", device),
            expected.into_iter().cloned().collect::<Vec<_>>(),
            "{device}"
        );
    }
    assert_eq!(held("other.example.com", "gpu-0"), []);
}
