//! What Kueue's objects and the nodes say about where pods are placed.

mod annotations;
mod assignment;

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use whalezen_core::{
    name::PodKey,
    quantity::{Amounts, parse},
    topology::{Layer, Nearness, Node, Pod, Topology, TopologyRequest},
};
use whalezen_crds::kueue::v1beta2 as kueue;

pub use self::{
    annotations::{asked, requested},
    assignment::{read, written},
};
use super::{pods::Template, quota::taint};

/// A `Topology`.
pub fn topology(object: &kueue::Topology) -> Topology {
    let levels = object.spec.levels.iter().map(|level| level.node_label.as_str().into());
    Topology { name: object.name_any().into(), levels: levels.collect() }
}

/// A node, if pods can be bound to it: it is ready and schedulable.
pub fn node(object: &v1::Node) -> Option<Node> {
    let spec = object.spec.as_ref();
    let status = object.status.as_ref()?;
    let is_ready = |condition: &v1::NodeCondition| condition.type_ == "Ready" && condition.status == "True";
    let ready = status.conditions.iter().flatten().any(is_ready);
    if !ready || spec.and_then(|spec| spec.unschedulable).unwrap_or_default() {
        return None;
    }
    // What cannot be read is not there.
    let amount = |(resource, quantity): (&String, &_)| {
        let k8s_openapi::apimachinery::pkg::api::resource::Quantity(text) = quantity;
        Some((resource.as_str().into(), parse(resource, text).ok()?))
    };
    let allocatable: Amounts = status.allocatable.iter().flatten().filter_map(amount).collect();
    let taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    Some(Node {
        name: object.name_any().into(),
        labels: object.labels().clone(),
        taints: taints.filter_map(taint).collect(),
        allocatable,
    })
}

/// A pod, if it takes room of a node that no placement accounts for. As in Kueue, its annotations say whether one does. One
/// whose requests cannot be read takes a pod's place.
pub fn pod(object: &v1::Pod) -> Option<Pod> {
    let spec = object.spec.as_ref()?;
    let node = spec.node_name.as_deref().filter(|name| !name.is_empty())?;
    let phase = object.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") || is_placed(object) {
        return None;
    }
    let requests = Template::read(spec).and_then(|template| template.total()).unwrap_or_default();
    let key = PodKey::new(object.namespace().unwrap_or_default(), object.name_any());
    Some(Pod { key, node: node.into(), requests })
}

/// Whether a placement accounts for a pod: its annotations say that it has one.
pub fn is_placed(object: &v1::Pod) -> bool {
    requested(object.annotations()).is_some_and(|of| request(&of).is_explicit())
}

/// What a pod set asks of its place, if anything.
pub fn request(of: &kueue::PodSetTopologyRequest) -> TopologyRequest {
    let nearness = match (&of.required, &of.preferred, of.unconstrained) {
        (Some(level), ..) => Some(Nearness::Required(level.as_str().into())),
        (None, Some(level), _) => Some(Nearness::Preferred(level.as_str().into())),
        (None, None, Some(true)) => Some(Nearness::Unconstrained),
        _ => None,
    };
    let layer =
        |level: &str, size: i32| Layer { level: level.into(), size: size.try_into().unwrap_or_default() };
    let layers = &of.podset_slice_required_topology_constraints;
    let layers = match &of.pod_set_slice_required_topology {
        Some(level) if layers.is_empty() => vec![layer(level, of.pod_set_slice_size.unwrap_or_default())],
        _ => layers.iter().map(|of| layer(&of.topology, of.size)).collect(),
    };
    TopologyRequest { nearness, layers, group: of.pod_set_group_name.as_deref().map(Arc::from) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use whalezen_crds::kueue::constants::annotation;

    use super::*;

    fn node_of(change: impl FnOnce(&mut Value)) -> Option<Node> {
        let mut object = json!({
            "metadata": { "name": "n", "labels": { "rack": "r" } },
            "spec": { "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] },
            "status": {
                "allocatable": { "cpu": "3500m", "pods": "110", "odd": "many" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        change(&mut object);
        node(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_node_counts_while_it_is_ready_and_schedulable() {
        let node = node_of(|_| {}).unwrap();
        let text: Vec<_> =
            node.allocatable.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect();
        assert_eq!(text, ["cpu=3500", "pods=110"]);
        assert_eq!((node.labels["rack"].as_str(), node.taints.len()), ("r", 1));
        assert!(node_of(|node| node["spec"]["unschedulable"] = json!(true)).is_none());
        assert!(node_of(|node| node["status"]["conditions"][0]["status"] = json!("Unknown")).is_none());
        assert!(node_of(|node| node["status"]["conditions"] = json!([])).is_none());
    }

    fn pod_of(change: impl FnOnce(&mut Value)) -> Option<Pod> {
        let mut object = json!({
            "metadata": { "namespace": "ns", "name": "p" },
            "spec": {
                "nodeName": "n",
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }],
            },
            "status": { "phase": "Running" },
        });
        change(&mut object);
        pod(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_pod_takes_room_from_when_it_is_bound_until_it_is_over_unless_it_was_placed() {
        let pod = pod_of(|_| {}).unwrap();
        assert_eq!((pod.node.as_str(), pod.requests[&"cpu".into()].0), ("n", 1000));
        assert!(pod_of(|pod| pod["spec"]["nodeName"] = json!("")).is_none());
        assert!(pod_of(|pod| pod["status"]["phase"] = json!("Failed")).is_none());
        for name in [annotation::REQUIRED_TOPOLOGY, annotation::PREFERRED_TOPOLOGY] {
            assert!(pod_of(|pod| pod["metadata"]["annotations"] = json!({ name: "rack" })).is_none());
        }
        let mut odd = pod_of(|pod| pod["spec"]["overhead"] = json!({ "cpu": "much" })).unwrap();
        odd.requests.retain(|_, amount| amount.0 > 0);
        assert!(odd.requests.is_empty(), "it takes a pod's place");
    }

    #[test]
    fn annotations_say_where_pods_are_to_be_placed() {
        let asked = |of: &[(&str, &str)]| {
            let of = of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            asked(&of.collect()).unwrap()
        };
        assert_eq!(asked(&[("other", "thing")]), None);
        let near =
            |nearness| Some(TopologyRequest { nearness: Some(nearness), ..TopologyRequest::default() });
        assert_eq!(
            asked(&[(annotation::REQUIRED_TOPOLOGY, "rack")]),
            near(Nearness::Required("rack".into()))
        );
        assert_eq!(
            asked(&[(annotation::PREFERRED_TOPOLOGY, "rack")]),
            near(Nearness::Preferred("rack".into()))
        );
        assert_eq!(asked(&[(annotation::UNCONSTRAINED_TOPOLOGY, "true")]), near(Nearness::Unconstrained));
        let layers = |of: &[(&str, u32)]| {
            let layer = |(level, size): &(&str, u32)| Layer { level: (*level).into(), size: *size };
            of.iter().map(layer).collect::<Vec<_>>()
        };
        let slices = [(annotation::SLICE_REQUIRED_TOPOLOGY, "rack"), (annotation::SLICE_SIZE, "2")];
        assert_eq!(asked(&slices).unwrap().layers, layers(&[("rack", 2)]));
        let text = r#"[{"topology": "block", "size": 4}, {"topology": "rack", "size": 2}]"#;
        let several = asked(&[(annotation::SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS, text)]).unwrap();
        assert_eq!(several.layers, layers(&[("block", 4), ("rack", 2)]));
        let group = asked(&[(annotation::POD_SET_GROUP_NAME, "g"), (annotation::REQUIRED_TOPOLOGY, "rack")]);
        assert_eq!(group.unwrap().group.as_deref(), Some("g"));
    }
}
