//! The node's labels.

use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::json;
use whalezen_agent::{
    device::{Driver, Load},
    labels::{
        Labels,
        free::{Threshold, percent, settle},
        product,
        publish::{MANAGER, split},
        wanted,
    },
    sense::Sensed,
    view::View,
};

use crate::ground::{broken, gpu, gpu_id, islands, mig, node};

const GIB: u64 = 1 << 30;

/// What was read: so many GiB of each GPU's 80 are free.
fn sensed(free: &[u64], at: Instant) -> Sensed {
    let mut sensed = Sensed::default();
    for (index, free) in (0..).zip(free) {
        let load = Load { memory_free: Some(free * GIB), ..Load::default() };
        sensed.note(&gpu_id(index), load, at);
    }
    sensed
}

fn with_driver(view: View) -> View {
    View { driver: Some(Driver::default()), ..view }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_node_is_labelled_as_node_feature_discovery_and_nvidias_would_do_it() {
    let now = Instant::now();
    let view = with_driver(islands(&[2, 2]));
    let none = Labels::new();
    let all = wanted(&view, &sensed(&[80, 80, 40, 40], now), now, &none, &none, Threshold::default());
    let expected = [
        ("gpu.features.nvlink", "true"),
        ("gpu.memory.free.percent", "75"),
        ("nvidia.com/gpu.count", "4"),
        ("nvidia.com/gpu.memory", "81920"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/mig.capable", "true"),
        ("nvidia.com/mig.strategy", "mixed"),
    ];
    assert_eq!(all, labels(&expected));

    for theirs in [
        [("nvidia.com/gfd.timestamp", "1"), ("nvidia.com/gpu.count", "4")],
        [("nvidia.com/gpu.deploy.gpu-feature-discovery", "true"), ("unrelated", "x")],
    ] {
        let left = wanted(&view, &sensed(&[80; 4], now), now, &none, &labels(&theirs), Threshold::default());
        let ours = [("gpu.features.nvlink", "true"), ("gpu.memory.free.percent", "100")];
        assert_eq!(left, labels(&ours), "NVIDIA's own are left to NVIDIA's own");
    }
}

#[test]
fn a_label_that_somebody_else_has_set_is_theirs() {
    let now = Instant::now();
    let view = with_driver(node(vec![gpu(0)]));
    let theirs = labels(&[("gpu.memory.free.percent", "always"), ("nvidia.com/gpu.product", "Mine")]);
    let ours = wanted(&view, &sensed(&[80], now), now, &Labels::new(), &theirs, Threshold::default());
    assert_eq!(ours.get("gpu.memory.free.percent"), None);
    assert_eq!(ours.get("nvidia.com/gpu.product"), None);
    assert_eq!(ours["nvidia.com/gpu.count"], "1");
}

#[test]
fn what_is_not_known_is_not_said() {
    let now = Instant::now();
    let none = Labels::new();
    let of = |view: &View, free: &[u64], at| {
        wanted(view, &sensed(free, at), now, &none, &none, Threshold::default())
    };
    assert_eq!(of(&node(vec![gpu(0)]), &[80], now), none, "no driver");
    assert_eq!(of(&with_driver(node(vec![])), &[], now), none, "no GPU");
    let two = with_driver(node(vec![gpu(0), gpu(1)]));
    assert!(!of(&two, &[80], now).contains_key("gpu.memory.free.percent"), "one was never read");
    let late = now.checked_sub(Duration::from_mins(1)).unwrap();
    assert!(!of(&two, &[80, 80], late).contains_key("gpu.memory.free.percent"), "nor lately");

    let mut mixed = two.clone();
    mixed.gpus[1].gpu.model = "NVIDIA A30".into();
    let said = of(&mixed, &[80, 80], now);
    assert!(!said.contains_key("nvidia.com/gpu.product") && said["nvidia.com/gpu.count"] == "2");
}

#[test]
fn free_memory_is_that_of_gpus_that_take_work_and_the_least_of_the_last_minute() {
    let start = Instant::now();
    let view = node(vec![gpu(0), broken(gpu(1)), mig(2, &[])]);
    assert_eq!(percent(&view, &sensed(&[40, 80, 80], start), start), Some(75));
    assert_eq!(percent(&view, &sensed(&[0, 80, 0], start), start), Some(0));
    let broken_only = node(vec![broken(gpu(0))]);
    assert_eq!(percent(&broken_only, &sensed(&[80], start), start), None);

    // A job that frees its memory between two steps does not make a free node.
    let one = node(vec![gpu(0)]);
    let mut sensed = sensed(&[8], start);
    let free = |sensed: &mut Sensed, after: u64| {
        let at = start + Duration::from_secs(after);
        sensed.note(&gpu_id(0), Load { memory_free: Some(80 * GIB), ..Load::default() }, at);
        percent(&one, sensed, at)
    };
    assert_eq!(free(&mut sensed, 2), Some(10));
    assert_eq!(free(&mut sensed, 59), Some(10));
    assert_eq!(free(&mut sensed, 60), Some(100));
}

#[test]
fn the_label_changes_only_past_the_threshold() {
    let five = Threshold::default();
    for (said, truth, label) in [
        (None, 70, 70),
        (Some(70), 74, 70),
        (Some(70), 66, 70),
        (Some(70), 75, 75),
        (Some(70), 65, 65),
        (Some(98), 100, 100),
        (Some(3), 0, 0),
        (Some(0), 4, 0),
        (Some(255), 97, 97),
    ] {
        assert_eq!(settle(said, truth, five), label, "{said:?} said, {truth} true");
    }
    assert!(Threshold::new(0).is_err() && Threshold::new(51).is_err() && Threshold::new(50).is_ok());
}

#[test]
fn a_product_is_the_value_of_a_label() {
    for (model, value) in [
        ("NVIDIA A100-SXM4-80GB", Some("NVIDIA-A100-SXM4-80GB")),
        ("NVIDIA H100 80GB HBM3 (rev. 1)", Some("NVIDIA-H100-80GB-HBM3--rev.-1")),
        ("  ", None),
        ("", None),
    ] {
        assert_eq!(product(model).as_deref(), value, "{model:?}");
    }
}

#[test]
fn the_api_server_knows_whose_a_label_is() {
    let entry = |manager: &str, operation: &str, label: &str| {
        let fields = json!({ "f:metadata": { "f:labels": { ".": {}, format!("f:{label}"): {} } } });
        json!({ "manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields })
    };
    let meta: ObjectMeta = serde_json::from_value(json!({
        "name": "node-1",
        "labels": { "a/ours": "1", "theirs": "2", "updated": "3" },
        "managedFields": [
            entry(MANAGER, "Apply", "a/ours"),
            entry(MANAGER, "Apply", "gone"),
            entry(MANAGER, "Update", "updated"),
            entry("kubectl", "Update", "theirs"),
        ],
    }))
    .unwrap();
    assert_eq!(split(&meta), (labels(&[("a/ours", "1")]), labels(&[("theirs", "2"), ("updated", "3")])));
    assert_eq!(split(&ObjectMeta::default()), (Labels::new(), Labels::new()));
}

proptest! {
    #[test]
    fn the_label_is_never_further_from_the_truth_than_the_threshold(
        threshold in 1..=50_u8,
        truths in prop::collection::vec(0..=100_u8, 1..50),
    ) {
        let mut said = None;
        for truth in truths {
            let label = settle(said, truth, Threshold::new(threshold).unwrap());
            prop_assert!(label.abs_diff(truth) < threshold);
            prop_assert!(label == truth || said == Some(label), "it is the truth or it stays");
            prop_assert_eq!(settle(Some(label), truth, Threshold::new(threshold).unwrap()), label, "and is settled");
            said = Some(label);
        }
    }

    #[test]
    fn any_product_is_a_label_value_that_the_api_server_takes(model in ".{0,100}") {
        if let Some(value) = product(&model) {
            prop_assert!(value.len() <= 63);
            prop_assert!(value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
            let ends = [value.chars().next(), value.chars().last()];
            prop_assert!(ends.iter().all(|end| end.is_some_and(|letter| letter.is_ascii_alphanumeric())));
        }
    }
}
