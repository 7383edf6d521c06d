//! The messages are the kubelet's, byte for byte, and sockets outlive what happens to either side.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]

use std::time::Duration;

use prost::Message as _;
use tonic::{Request, Response, Status};
use whalezen_kubelet_api::{
    HEALTHY,
    device_plugin::{
        self, AllocateResponse, CdiDevice, ContainerAllocateResponse, Device, NumaNode, TopologyInfo,
    },
    pod_resources::{
        AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices, ContainerResources,
        GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
        PodResources,
        pod_resources_lister_client::PodResourcesListerClient,
        pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
    },
    socket,
};

/// Made of the field numbers of Kubernetes' own files by hand: tag, length, value.
#[test]
fn a_device_is_written_as_the_kubelet_reads_it() {
    let device = Device {
        id: "GPU-1".into(),
        health: HEALTHY.into(),
        topology: Some(TopologyInfo { nodes: vec![NumaNode { id: 1 }] }),
    };
    let wire = b"\x0a\x05GPU-1\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01";
    assert_eq!(device.encode_to_vec(), wire);
    assert_eq!(Device::decode(&wire[..]).unwrap(), device);
}

#[test]
fn an_allocation_is_written_as_the_kubelet_reads_it() {
    let answer = AllocateResponse {
        container_responses: vec![ContainerAllocateResponse {
            envs: [("A".into(), "b".into())].into(),
            devices: vec![device_plugin::DeviceSpec {
                container_path: "/c".into(),
                host_path: "/h".into(),
                permissions: "rw".into(),
            }],
            cdi_devices: vec![CdiDevice { name: "v/c=n".into() }],
            ..ContainerAllocateResponse::default()
        }],
    };
    let inner = b"\x0a\x06\x0a\x01A\x12\x01b\x1a\x0c\x0a\x02/c\x12\x02/h\x1a\x02rw\x2a\x07\x0a\x05v/c=n";
    let wire = [&[0x0a, u8::try_from(inner.len()).unwrap()], &inner[..]].concat();
    assert_eq!(answer.encode_to_vec(), wire);
}

#[test]
fn fields_of_a_newer_kubelet_are_passed_over() {
    // Field 15, a string.
    let wire = b"\x0a\x05GPU-1\x7a\x03new";
    assert_eq!(Device::decode(&wire[..]).unwrap().id, "GPU-1");
}

struct OnePod;

#[tonic::async_trait]
impl PodResourcesLister for OnePod {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let devices =
            ContainerDevices { resource_name: "nvidia.com/gpu".into(), ..ContainerDevices::default() };
        let container = ContainerResources {
            name: "main".into(),
            devices: vec![devices],
            ..ContainerResources::default()
        };
        let pod = PodResources { name: "pod".into(), namespace: "team".into(), containers: vec![container] };
        Ok(Response::new(ListPodResourcesResponse { pod_resources: vec![pod] }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

/// Serves until the returned handle is aborted.
fn serve(path: &std::path::Path) -> tokio::task::JoinHandle<()> {
    let incoming = socket::listen(path).unwrap();
    tokio::spawn(async move {
        tonic::transport::Server::builder()
            .add_service(PodResourcesListerServer::new(OnePod))
            .serve_with_incoming(incoming)
            .await
            .unwrap();
    })
}

#[tokio::test]
async fn a_channel_finds_a_server_that_came_later_and_one_that_was_started_again() {
    let folder = Folder::new("wire-restart");
    let path = folder.0.join("kubelet.sock");
    let mut client = PodResourcesListerClient::new(socket::connect(&path));
    assert!(client.list(ListPodResourcesRequest {}).await.is_err(), "nobody is there");

    for _ in 0..2 {
        let server = serve(&path);
        let answer = tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                // The first call after a restart may still meet the old connection.
                if let Ok(answer) = client.list(ListPodResourcesRequest {}).await {
                    return answer.into_inner();
                }
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(answer.await.unwrap().pod_resources[0].containers[0].name, "main");
        server.abort();
        let _ = server.await;
    }
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_taken_over_and_a_file_is_not() {
    let folder = Folder::new("wire-left");
    let path = folder.0.join("plugin.sock");
    drop(socket::listen(&path).unwrap());
    let before = socket::identity(&path).unwrap();
    let again = socket::listen(&path).unwrap();
    assert_ne!(socket::identity(&path).unwrap(), before, "another socket under the same name is another one");
    drop(again);

    std::fs::remove_file(&path).unwrap();
    assert_eq!(socket::identity(&path), None);
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(socket::identity(&path), None);
    assert!(matches!(socket::listen(&path), Err(socket::ListenError::NoSocket(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");

    let long = folder.0.join("x".repeat(120));
    assert!(matches!(socket::listen(&long), Err(socket::ListenError::Io { .. })));
}

/// A folder of its own, removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("whalezen-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
