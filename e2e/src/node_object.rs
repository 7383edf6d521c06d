//! The Node objects of a pool: what a kubelet, the cloud and NVIDIA's GPU feature discovery
//! would have written about such a machine.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::gpu_model::GpuModel;
use crate::node_pool::NodePool;

/// The label that names a node's rack: `<pool>-rack-<n>`.
pub const RACK_LABEL: &str = "whalezen.dev/rack";
/// The label that names a node's pool.
pub const POOL_LABEL: &str = "whalezen.dev/pool";

/// Nodes count up from here; pods have 10.128.0.0/9 (`stages/options.yaml`), services 10.96.0.0/16.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Driver and CUDA versions that the nodes claim to run: full, then its parts.
const DRIVER: (&str, [&str; 3]) = ("570.172.08", ["570", "172", "08"]);
const CUDA: (&str, [&str; 2]) = ("12.8", ["12", "8"]);

/// The pool's nodes, already Ready: they can take pods as soon as they exist. `before` is how
/// many nodes the cluster has had, which gives each an address of its own.
pub(crate) fn nodes(pool: &NodePool, before: u32, now: &Time) -> Vec<Node> {
    pool.node_names().zip(0..).map(|(name, index)| node(pool, &name, index, before + index, now)).collect()
}

fn node(pool: &NodePool, name: &str, index: u32, serial: u32, now: &Time) -> Node {
    let address = Ipv4Addr::from(FIRST_ADDRESS.to_bits() + serial);
    let capacity = capacity(pool);
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels(pool, name, index)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: (!pool.taints.is_empty()).then(|| pool.taints.clone()),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            addresses: Some(vec![
                NodeAddress { type_: "Hostname".to_owned(), address: name.to_owned() },
                NodeAddress { type_: "InternalIP".to_owned(), address: address.to_string() },
            ]),
            allocatable: Some(capacity.clone()),
            capacity: Some(capacity),
            conditions: Some(conditions(now)),
            node_info: Some(system_info()),
            phase: Some("Running".to_owned()),
            ..NodeStatus::default()
        }),
    }
}

fn capacity(pool: &NodePool) -> BTreeMap<String, Quantity> {
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), Quantity(pool.cpus.to_string())),
        ("memory".to_owned(), Quantity(pool.memory.clone())),
        ("ephemeral-storage".to_owned(), Quantity("1Ti".to_owned())),
        ("pods".to_owned(), Quantity("110".to_owned())),
    ]);
    if let Some((_, gpus)) = pool.gpus {
        capacity.insert("nvidia.com/gpu".to_owned(), Quantity(gpus.to_string()));
    }
    capacity
}

fn labels(pool: &NodePool, name: &str, index: u32) -> BTreeMap<String, String> {
    // Contiguous runs, so that a rack is never cut by the border of a zone more than it must be.
    let zone = u64::from(index) * u64::from(pool.zones) / u64::from(pool.nodes.max(1));
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/hostname", name.to_owned()),
        ("node.kubernetes.io/instance-type", pool.name.clone()),
        ("topology.kubernetes.io/region", "local".to_owned()),
        ("topology.kubernetes.io/zone", format!("zone-{zone}")),
        (RACK_LABEL, format!("{}-rack-{}", pool.name, index / pool.nodes_per_rack)),
        (POOL_LABEL, pool.name.clone()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    if let Some((model, gpus)) = &pool.gpus {
        labels.extend(gpu_labels(model, *gpus));
    }
    labels.extend(pool.labels.clone());
    labels
}

/// The labels of GPU feature discovery 0.17 for a node without MIG instances or sharing.
fn gpu_labels(model: &GpuModel, gpus: u32) -> BTreeMap<String, String> {
    let (driver, [driver_major, driver_minor, driver_revision]) = DRIVER;
    let (cuda, [cuda_major, cuda_minor]) = CUDA;
    [
        ("cuda.driver-version.full", driver.to_owned()),
        ("cuda.driver-version.major", driver_major.to_owned()),
        ("cuda.driver-version.minor", driver_minor.to_owned()),
        ("cuda.driver-version.revision", driver_revision.to_owned()),
        ("cuda.driver.major", driver_major.to_owned()),
        ("cuda.driver.minor", driver_minor.to_owned()),
        ("cuda.driver.rev", driver_revision.to_owned()),
        ("cuda.runtime-version.full", cuda.to_owned()),
        ("cuda.runtime-version.major", cuda_major.to_owned()),
        ("cuda.runtime-version.minor", cuda_minor.to_owned()),
        ("cuda.runtime.major", cuda_major.to_owned()),
        ("cuda.runtime.minor", cuda_minor.to_owned()),
        ("gpu.compute.major", model.compute.0.to_string()),
        ("gpu.compute.minor", model.compute.1.to_string()),
        ("gpu.count", gpus.to_string()),
        ("gpu.family", model.family.to_owned()),
        ("gpu.machine", model.machine.to_owned()),
        ("gpu.memory", model.memory_mib.to_string()),
        ("gpu.mode", "compute".to_owned()),
        ("gpu.present", "true".to_owned()),
        ("gpu.product", model.product.to_owned()),
        ("gpu.replicas", "1".to_owned()),
        ("gpu.sharing-strategy", "none".to_owned()),
        ("mig.capable", model.mig_capable.to_string()),
        ("mig.strategy", "single".to_owned()),
        ("mps.capable", "false".to_owned()),
        ("vgpu.present", "false".to_owned()),
    ]
    .map(|(key, value)| (format!("nvidia.com/{key}"), value))
    .into()
}

fn conditions(now: &Time) -> Vec<NodeCondition> {
    [
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ]
    .map(|(type_, status, reason)| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: None,
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    })
    .into()
}

fn system_info() -> NodeSystemInfo {
    NodeSystemInfo {
        architecture: "amd64".to_owned(),
        operating_system: "linux".to_owned(),
        kubelet_version: "v1.36.3".to_owned(),
        os_image: "kwok".to_owned(),
        container_runtime_version: "kwok://0.8.0".to_owned(),
        ..NodeSystemInfo::default()
    }
}
