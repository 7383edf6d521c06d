//! Who is heard, and what is understood.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use whalezen_crds::scheduling::v1alpha1::{LayoutPin, MIGPolicy, MIGPolicySpec, WantedInstance};

use super::*;
use crate::layout::testing::{counts, h100, instance};

const FILE: &str = r#"
version: v1
mig-configs:
  halves:
    - devices: all
      mig-enabled: true
      mig-devices: {"3g.40gb": 2}
  others:
    - devices: [5]
      mig-enabled: false
  parts:
    - devices: all
      mig-enabled: true
      mig-devices: {"1c.3g.40gb": 1}
"#;

/// What there is to say something: nothing, at first.
struct Place {
    node: Node,
    spec: GPUNodeSpec,
    policies: Vec<MIGPolicy>,
}

impl Place {
    fn new() -> Self {
        let labels = [("pool".to_owned(), "h100".to_owned())].into();
        let node = Node { name: "node-a".to_owned(), labels, ..Node::default() };
        Self { node, spec: GPUNodeSpec::default(), policies: Vec::new() }
    }

    fn policy(mut self, name: &str, spec: MIGPolicySpec) -> Self {
        self.policies.push(MIGPolicy::new(name, spec));
        self
    }

    fn label(mut self, value: &str) -> Self {
        self.node.labels.insert(CONFIG_LABEL.to_owned(), value.to_owned());
        self
    }

    fn assigned(mut self, word: &str) -> Self {
        let placed = instance(word);
        let wanted = WantedInstance {
            profile: placed.profile.to_string(),
            start: placed.start.into(),
            assignment: None,
        };
        self.spec.gpus = vec![WantedGpu { uuid: "GPU-0a".to_owned(), instances: vec![wanted] }];
        self
    }

    fn wish(&self) -> Wish {
        self.with(|sources| wish(&h100(""), sources))
    }

    fn with<T>(&self, ask: impl FnOnce(&Sources<'_>) -> T) -> T {
        let policies = Policies::read(&self.policies);
        let configurations = Configurations::parse(FILE).unwrap();
        ask(&Sources {
            node: &self.node,
            spec: &self.spec,
            policies: &policies,
            configurations: &configurations,
        })
    }
}

fn dynamic() -> MIGPolicySpec {
    MIGPolicySpec {
        mode: LayoutMode::Dynamic,
        default_config: Some("all-balanced".to_owned()),
        ..MIGPolicySpec::default()
    }
}

fn pinned(pin: LayoutPin) -> MIGPolicySpec {
    MIGPolicySpec { pins: vec![pin], ..dynamic() }
}

fn pin() -> LayoutPin {
    LayoutPin {
        uuid: Some("GPU-0a".to_owned()),
        mig_enabled: true,
        mig_devices: [("7g.80gb".to_owned(), 1)].into(),
        ..LayoutPin::default()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what is a result")]
fn on(words: &str) -> Result<Option<Target>, WishError> {
    Ok(Some(Target::On(Wanted::Counts(counts(words)))))
}

#[test]
fn a_pin_goes_before_an_assignment_that_before_the_label_and_that_before_the_default() {
    let all = || Place::new().policy("p", pinned(pin())).assigned("4g.40gb@0").label("halves");
    assert_eq!((all().wish().source, all().wish().target), (LayoutSource::Pin, on("7g.80gb")));

    let unpinned = || Place::new().policy("p", dynamic()).assigned("4g.40gb@0").label("halves");
    let placed = Target::On(Wanted::Placed(vec![instance("4g.40gb@0")]));
    assert_eq!(unpinned().wish().source, LayoutSource::Assignment);
    assert_eq!(unpinned().wish().target, Ok(Some(placed)));

    let labelled = Place::new().policy("p", dynamic()).label("halves").wish();
    assert_eq!((labelled.source, labelled.target), (LayoutSource::Label, on("3g.40gb 3g.40gb")));

    let default = Place::new().policy("p", dynamic()).wish();
    assert_eq!(default.source, LayoutSource::Default);
    assert_eq!(default.target, on("1g.10gb 1g.10gb 2g.20gb 3g.40gb"));

    let nobody = Place::new().wish();
    assert_eq!((nobody.source, nobody.target, nobody.policy), (LayoutSource::Nobody, Ok(None), None));
}

#[test]
fn what_is_assigned_counts_only_where_the_policy_is_dynamic() {
    let fixed = || MIGPolicySpec { mode: LayoutMode::Static, ..dynamic() };
    let place = Place::new().policy("p", fixed()).assigned("4g.40gb@0");
    assert_eq!(place.wish().source, LayoutSource::Default);
    assert!(place.with(|sources| is_not_heard(&h100(""), sources)));
    let without = Place::new().assigned("4g.40gb@0");
    assert_eq!(without.wish().source, LayoutSource::Nobody);
    let heard = Place::new().policy("p", dynamic()).assigned("4g.40gb@0");
    assert!(!heard.with(|sources| is_not_heard(&h100(""), sources)));
}

#[test]
fn of_several_policies_the_highest_decides_and_of_these_the_first_by_name() {
    let policy = |priority, config: &str| MIGPolicySpec {
        priority,
        default_config: Some(config.to_owned()),
        ..MIGPolicySpec::default()
    };
    let place = Place::new()
        .policy("z", policy(5, "all-disabled"))
        .policy("c", policy(7, "all-enabled"))
        .policy("b", policy(7, "all-7g.80gb"));
    assert_eq!(place.wish().policy.as_deref(), Some("b"));
    assert_eq!(place.wish().target, on("7g.80gb"));
}

#[test]
fn a_policy_is_about_the_nodes_and_models_that_it_selects() {
    let selector = |key: &str, operator: &str| LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: None,
        }]),
        match_labels: None,
    };
    let selecting = |node_selector, models: &[&str]| MIGPolicySpec {
        node_selector: Some(node_selector),
        models: models.iter().map(|&model| model.to_owned()).collect(),
        ..dynamic()
    };
    let table = [
        (selecting(selector("pool", "Exists"), &[]), true),
        (selecting(selector("pool", "DoesNotExist"), &[]), false),
        (selecting(selector("pool", "Exists"), &["NVIDIA H100 80GB HBM3"]), true),
        (selecting(selector("pool", "Exists"), &["NVIDIA A100-SXM4-40GB"]), false),
        (selecting(selector("pool", "Near"), &[]), false),
    ];
    for (spec, about) in table {
        let place = Place::new().policy("p", spec.clone());
        assert_eq!(place.wish().policy.is_some(), about, "{spec:?}");
    }
    let broken = Policies::read(&[MIGPolicy::new("bad", selecting(selector("pool", "Near"), &[]))]);
    assert!(broken.broken[0].contains("MIGPolicy bad"), "{:?}", broken.broken);
}

#[test]
fn a_pin_is_of_a_gpu_or_of_gpus_of_a_node() {
    let table = [
        (pin(), true),
        (LayoutPin { uuid: Some("GPU-0b".to_owned()), ..pin() }, false),
        (LayoutPin { uuid: None, node: Some("node-a".to_owned()), ..pin() }, true),
        (LayoutPin { uuid: None, node: Some("node-b".to_owned()), ..pin() }, false),
        (LayoutPin { node: Some("node-b".to_owned()), ..pin() }, false),
        (LayoutPin { uuid: None, node: Some("node-a".to_owned()), devices: vec![1], ..pin() }, false),
        (LayoutPin { uuid: None, node: Some("node-a".to_owned()), devices: vec![1, 0], ..pin() }, true),
        (LayoutPin { uuid: None, node: None, ..pin() }, false),
    ];
    for (pin, pins) in table {
        let source = Place::new().policy("p", pinned(pin.clone())).wish().source;
        assert_eq!(source == LayoutSource::Pin, pins, "{pin:?}");
    }
}

#[test]
fn a_default_layout_is_for_devices_by_index_and_pci_id_and_the_last_counts() {
    let layout = |filter: &[&str], devices: &[i32], devices_of: &str| DeviceLayout {
        device_filter: filter.iter().map(|&filter| filter.to_owned()).collect(),
        devices: devices.to_vec(),
        mig_enabled: true,
        mig_devices: [(devices_of.to_owned(), 1)].into(),
    };
    let table = [
        (vec![layout(&[], &[], "7g.80gb"), layout(&["0x233010de"], &[0], "4g.40gb")], on("4g.40gb")),
        (vec![layout(&[], &[], "7g.80gb"), layout(&[], &[1], "4g.40gb")], on("7g.80gb")),
        (vec![layout(&["0x20B010DE"], &[], "7g.80gb")], Ok(None)),
        (Vec::new(), Ok(None)),
    ];
    for (default_layout, target) in table {
        let spec = MIGPolicySpec { default_layout, ..MIGPolicySpec::default() };
        assert_eq!(Place::new().policy("p", spec).wish().target, target);
    }
}

#[test]
fn what_cannot_be_understood_is_said_and_does_nothing() {
    let pinned_to = |name: &str| {
        Place::new().policy("p", pinned(LayoutPin { mig_devices: [(name.to_owned(), 1)].into(), ..pin() }))
    };
    let table = [
        (Place::new().label("no-such-layout"), "no-such-layout"),
        (Place::new().label("parts"), "part of a GPU instance"),
        (pinned_to("half"), "not a MIG profile"),
        (pinned_to("1c.3g.40gb"), "part of a GPU instance"),
    ];
    for (place, why) in table {
        let error = place.wish().target.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_configuration_that_is_not_about_a_gpu_leaves_it_as_it_is() {
    assert_eq!(Place::new().label("others").wish().target, Ok(None));
}
