//! What is offered under which name, and how it is handed out.

use std::collections::BTreeMap;

use whalezen_agent::{
    device::Uuid,
    plugin::{
        allocation::{Refusal, VISIBLE_DEVICES, Ways, allocate},
        inventory,
        offer::{Offer, offers},
        unit::ResourceName,
    },
    view::View,
};
use whalezen_kubelet_api::{HEALTHY, UNHEALTHY};

use crate::ground::{Folder, broken, gpu, gpu_id, inventory, mig, mig_id, node, profile};

const BOTH: Ways = Ways { cdi: true, files: true };

/// Names of resources, and the ids of their devices.
fn offered(view: &View) -> BTreeMap<String, Vec<Uuid>> {
    let ids = |offer: Offer| offer.units.into_iter().map(|unit| unit.id).collect();
    offers(&inventory(view)).into_iter().map(|(name, offer)| (name.to_string(), ids(offer))).collect()
}

fn whole_gpus(view: &View) -> Offer {
    offers(&inventory(view)).remove(&ResourceName::gpu()).unwrap()
}

#[test]
fn every_device_is_offered_once_in_the_order_of_the_node() {
    let view = node(vec![mig(2, &[("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb", 1)]), gpu(1), gpu(0)]);
    let expected = [
        ("nvidia.com/gpu", vec![gpu_id(0), gpu_id(1)]),
        ("nvidia.com/mig-1g.10gb", vec![mig_id(2, 0), mig_id(2, 1)]),
        ("nvidia.com/mig-3g.40gb", vec![mig_id(2, 4)]),
    ];
    assert_eq!(offered(&view), expected.map(|(name, ids)| (name.to_owned(), ids)).into());
}

#[test]
fn a_gpu_on_its_way_into_mig_mode_and_an_instance_that_is_half_made_are_not_offered() {
    let mut view = node(vec![gpu(0), mig(1, &[("1g.10gb", 0), ("2g.20gb", 2), ("3g.40gb", 4)]), mig(2, &[])]);
    view.gpus[0].gpu.mig.as_mut().unwrap().pending = true;
    let instances = &mut view.gpus[1].gpu.mig.as_mut().unwrap().instances;
    instances[0].computes.clear();
    instances[1].computes[0].slices = 1;
    assert_eq!(offered(&view), [("nvidia.com/mig-3g.40gb".to_owned(), vec![mig_id(1, 4)])].into());

    let mut old = node(vec![gpu(0)]);
    old.gpus[0].gpu.mig = None;
    assert_eq!(offered(&old), [("nvidia.com/gpu".to_owned(), vec![gpu_id(0)])].into());
    assert_eq!(offered(&node(vec![])), BTreeMap::new());
}

#[test]
fn a_device_for_one_pod_has_a_name_of_its_own_and_one_that_goes_has_none() {
    let mut view = node(vec![gpu(0), gpu(1), mig(2, &[("3g.40gb", 0)])]);
    view.withheld = [mig_id(2, 0), gpu_id(1)].into();
    view.assigned = [(mig_id(2, 0), ("team".to_owned(), "pod".to_owned()))].into();
    let own = format!("device.scheduling.gen.io/{}", mig_id(2, 0));
    assert_eq!(
        offered(&view),
        [(own, vec![mig_id(2, 0)]), ("nvidia.com/gpu".into(), vec![gpu_id(0)])].into()
    );
}

#[test]
fn health_and_numa_node_are_told_and_a_name_that_the_kubelet_refuses_is_not() {
    let mut view = node(vec![gpu(0), broken(gpu(5)), gpu(3)]);
    view.gpus[0].gpu.numa = None;
    view.gpus[2].gpu.uuid = Uuid::from("x".repeat(64));
    let devices = whole_gpus(&view).devices();
    assert_eq!(devices.len(), 2);
    assert_eq!((devices[0].health.as_str(), &devices[0].topology), (HEALTHY, &None));
    assert_eq!(devices[1].health, UNHEALTHY);
    assert_eq!(devices[1].topology.as_ref().unwrap().nodes[0].id, 1);
}

#[test]
fn a_container_gets_names_files_and_the_variable_in_the_order_of_the_node() {
    let folder = Folder::new("files");
    let view = node(vec![mig(1, &[("1g.10gb", 0), ("1g.10gb", 1)])]);
    let inventory = inventory::inventory(&view, &folder.device_files());
    let offer = offers(&inventory).remove(&ResourceName::mig(profile("1g.10gb"))).unwrap();
    let asked = [mig_id(1, 1).to_string(), mig_id(1, 0).to_string(), mig_id(1, 1).to_string()];
    let response = allocate(&offer, &asked, BOTH).unwrap();
    assert_eq!(response.envs[VISIBLE_DEVICES], format!("{},{}", mig_id(1, 0), mig_id(1, 1)));
    let names = response.cdi_devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    assert_eq!(names, [mig_id(1, 0), mig_id(1, 1)].map(|id| format!("scheduling.gen.io/gpu={id}")));
    let dev = folder.path().join("dev");
    let files =
        response.devices.iter().map(|file| file.host_path.strip_prefix(dev.to_str().unwrap()).unwrap());
    let expected = [
        "/nvidiactl",
        "/nvidia-uvm",
        "/nvidia1",
        "/nvidia-caps/nvidia-cap12",
        "/nvidia-caps/nvidia-cap13",
        "/nvidia-caps/nvidia-cap21",
        "/nvidia-caps/nvidia-cap22",
    ];
    assert_eq!(files.collect::<Vec<_>>(), expected, "those that are there, each once");

    let neither = allocate(&offer, &asked, Ways { cdi: false, files: false }).unwrap();
    assert!(neither.cdi_devices.is_empty() && neither.devices.is_empty() && neither.envs.len() == 1);
    assert_eq!(allocate(&offer, &[], BOTH).unwrap().envs.len(), 0);
}

#[test]
fn what_is_unhealthy_or_gone_is_not_handed_out() {
    let offer = whole_gpus(&node(vec![gpu(0), broken(gpu(1))]));
    let ask = |id: &str| allocate(&offer, &[gpu_id(0).to_string(), id.to_owned()], BOTH).unwrap_err();
    assert_eq!(ask("GPU-gone"), Refusal::Unknown("GPU-gone".into()));
    assert_eq!(ask(gpu_id(1).as_str()), Refusal::Unhealthy { id: gpu_id(1), why: "Xid79".into() });
}

#[test]
fn a_name_of_an_assigned_device_is_one_that_the_kubelet_takes() {
    let name = ResourceName::of(&Uuid::from("MIG-41b3359c-e721-56e5-8009-12e5797ed514"));
    let (domain, own) = name.as_str().split_once('/').unwrap();
    assert!(own.len() <= 63 && domain.len() <= 253 && !domain.ends_with("kubernetes.io"));
    let longest = "/var/lib/kubelet/device-plugins/".len() + name.socket().len();
    assert!(longest <= 107, "{longest} bytes");
}
