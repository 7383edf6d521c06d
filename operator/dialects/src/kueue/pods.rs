//! What a pod template asks for, and how much that is in all.
//!
//! Requests follow Kubernetes' rule for a pod's effective request: the larger of the running containers together
//! (with sidecars) and of any one init container beside the sidecars started before it; pod-level requests, where
//! they are given, in place of the containers'; and the overhead on top. What a namespace or a runtime class adds
//! to a template is in [`resources`](super::resources).

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Container, NodeSelectorTerm, PodSpec, PodTemplateSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use whalezen_core::{
    flavor::NodeDemand,
    labels::Requirement,
    quantity::{Amount, Amounts, parse},
    topology::TopologyRequest,
};

use super::{
    quota::{operator, toleration},
    topology,
};

type Quantities = BTreeMap<String, Quantity>;

/// Pods of one template, as an object asks for them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pods {
    /// The name of the pod set.
    pub name: Arc<str>,
    /// How many.
    pub count: u32,
    /// How many are enough, if fewer are.
    pub min_count: Option<u32>,
    /// What each asks for.
    pub template: Template,
    /// Where they are to be placed, if it says so.
    pub topology: Option<TopologyRequest>,
}

/// What of a pod template decides what its pods request and where they may run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Template {
    /// What the containers ask for.
    pub containers: Vec<Asks>,
    /// What the init containers ask for, in order.
    pub init: Vec<Init>,
    /// What the pod asks for as a whole, if it does.
    pub pod: Option<Asks>,
    /// What running the pod takes beside its containers.
    pub overhead: Amounts,
    /// The `RuntimeClass`, from which the overhead is if the template has none.
    pub runtime_class: Option<String>,
    /// What the pods demand of their nodes.
    pub demand: NodeDemand,
}

/// What an init container asks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Init {
    /// Its resources.
    pub asks: Asks,
    /// Whether it goes on running beside the containers.
    pub sidecar: bool,
}

/// Requests and limits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Asks {
    /// What is set aside.
    pub requests: Amounts,
    /// What is never exceeded.
    pub limits: Amounts,
}

/// The pods of a template, or what is wrong with it.
pub fn pods(
    name: &str,
    template: &PodTemplateSpec,
    count: i32,
    min_count: Option<i32>,
) -> Result<Pods, String> {
    let none = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&none);
    let problem = |problem: String| format!("pod set {name}: {problem}");
    let counted = |what, of| u32::try_from(of).map_err(|_| problem(format!("the {what} {of} is negative")));
    Ok(Pods {
        name: name.into(),
        count: counted("count", count)?,
        min_count: min_count.map(|least| counted("minimum count", least)).transpose()?,
        template: Template::read(spec).map_err(problem)?,
        topology: template
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.annotations.as_ref())
            .map_or(Ok(None), topology::asked)
            .map_err(problem)?,
    })
}

impl Template {
    /// What a pod spec asks for.
    pub fn read(spec: &PodSpec) -> Result<Self, String> {
        let init = |container: &Container| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            Ok(Init { asks: asks_of(container)?, sidecar })
        };
        Ok(Self {
            containers: spec.containers.iter().map(asks_of).collect::<Result<_, _>>()?,
            init: spec.init_containers.iter().flatten().map(init).collect::<Result<_, String>>()?,
            pod: spec.resources.as_ref().map(|resources| asks("the pod", resources)).transpose()?,
            overhead: read("the overhead", spec.overhead.as_ref())?,
            runtime_class: spec.runtime_class_name.clone(),
            demand: demand(spec)?,
        })
    }

    /// Whether both ask for the same of everything but nodes.
    pub fn asks_as(&self, other: &Self) -> bool {
        let of = |template: &Self| {
            (template.overhead.clone(), template.runtime_class.clone(), template.pod.clone())
        };
        self.containers == other.containers && self.init == other.init && of(self) == of(other)
    }

    /// What one pod requests in all.
    pub fn total(&self) -> Result<Amounts, String> {
        let mut running = Amounts::new();
        for container in &self.containers {
            add(&mut running, &container.requests)?;
        }
        let mut sidecars = Amounts::new();
        let mut starting = Amounts::new();
        for Init { asks, sidecar } in &self.init {
            if *sidecar {
                add(&mut sidecars, &asks.requests)?;
                raise(&mut starting, &sidecars);
            } else {
                let mut beside = sidecars.clone();
                add(&mut beside, &asks.requests)?;
                raise(&mut starting, &beside);
            }
        }
        add(&mut running, &sidecars)?;
        raise(&mut running, &starting);
        for (resource, amount) in self.pod.iter().flat_map(|asks| &asks.requests) {
            if counts_for_pods(resource.as_str()) {
                running.insert(resource.clone(), *amount);
            }
        }
        add(&mut running, &self.overhead)?;
        Ok(running)
    }
}

/// Whether a resource can be asked for by a pod as a whole (Kubernetes' KEP-2837).
fn counts_for_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// What the pods demand of their nodes.
fn demand(spec: &PodSpec) -> Result<NodeDemand, String> {
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    Ok(NodeDemand {
        selector: spec.node_selector.clone().unwrap_or_default(),
        affinity: terms.iter().map(term).collect::<Result<_, _>>()?,
        tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
    })
}

fn term(of: &NodeSelectorTerm) -> Result<Vec<Requirement>, String> {
    let requirement = |of: &k8s_openapi::api::core::v1::NodeSelectorRequirement| {
        let operator = operator(&of.operator).ok_or_else(|| {
            format!("node affinity on {:?} has the unknown operator {:?}", of.key, of.operator)
        })?;
        Ok(Requirement { key: of.key.clone(), operator, values: of.values.clone().unwrap_or_default() })
    };
    of.match_expressions.iter().flatten().map(requirement).collect()
}

fn asks_of(container: &Container) -> Result<Asks, String> {
    let place = format!("container {}", container.name);
    container.resources.as_ref().map_or_else(|| Ok(Asks::default()), |resources| asks(&place, resources))
}

fn asks(place: &str, resources: &ResourceRequirements) -> Result<Asks, String> {
    Ok(Asks {
        requests: read(place, resources.requests.as_ref())?,
        limits: read(place, resources.limits.as_ref())?,
    })
}

fn read(place: &str, quantities: Option<&Quantities>) -> Result<Amounts, String> {
    let amount = |(resource, quantity): (&String, &Quantity)| {
        let amount = parse(resource, &quantity.0)
            .map_err(|problem| format!("{place} requests {resource}: {problem}"))?;
        Ok((resource.as_str().into(), amount))
    };
    quantities.into_iter().flatten().map(amount).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) -> Result<(), String> {
    for (resource, amount) in more {
        let entry = sum.entry(resource.clone()).or_insert(Amount::ZERO);
        *entry = entry
            .checked_add(*amount)
            .ok_or_else(|| format!("the requests for {resource} of one pod exceed what can be counted"))?;
    }
    Ok(())
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (resource, amount) in at_least {
        let entry = to.entry(resource.clone()).or_insert(Amount::ZERO);
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn total(spec: Value) -> Result<Amounts, String> {
        Template::read(&serde_json::from_value(spec).unwrap())?.total()
    }

    fn container(name: &str, requests: &Value) -> Value {
        json!({"name": name, "resources": {"requests": requests}})
    }

    fn amounts(of: &[(&str, i64)]) -> Amounts {
        of.iter().map(|(name, amount)| ((*name).into(), Amount(*amount))).collect()
    }

    #[test]
    fn containers_add_up() {
        let pod = json!({"containers": [
            container("a", &json!({"cpu": "500m", "nvidia.com/gpu": "2"})),
            container("b", &json!({"cpu": "1"})),
        ]});
        assert_eq!(total(pod), Ok(amounts(&[("cpu", 1500), ("nvidia.com/gpu", 2)])));
    }

    #[test]
    fn an_init_container_counts_when_it_needs_more_and_sidecars_always() {
        let sidecar = |name: &str, cpu: &str| json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let init = |cpu: &str| container("i", &json!({"cpu": cpu}));
        for (containers, inits, want) in [
            // The init container beside the sidecar that was started before it.
            (vec![], vec![sidecar("s", "1"), init("4")], 5000),
            (vec![init("1")], vec![sidecar("s", "1"), init("4")], 5000),
            // One that is started before the sidecar runs alone.
            (vec![init("1")], vec![init("4"), sidecar("s", "1")], 4000),
            (vec![init("4")], vec![init("1"), sidecar("s", "1")], 5000),
            (vec![init("1")], vec![sidecar("s", "2"), sidecar("t", "3")], 6000),
            (vec![init("3"), init("3")], vec![init("5"), init("5")], 6000),
        ] {
            let pod = json!({"containers": containers, "initContainers": inits});
            assert_eq!(total(pod.clone()), Ok(amounts(&[("cpu", want)])), "{pod}");
        }
    }

    #[test]
    fn the_overhead_comes_on_top_of_everything() {
        let pod = json!({
            "containers": [container("a", &json!({"cpu": "1"}))],
            "initContainers": [container("i", &json!({"cpu": "4"}))],
            "overhead": {"cpu": "250m", "memory": "1Mi"},
        });
        assert_eq!(total(pod), Ok(amounts(&[("cpu", 4250), ("memory", 1 << 20)])));
    }

    #[test]
    fn a_pod_level_request_replaces_what_the_containers_say_of_what_a_pod_can_ask_for() {
        let pod = json!({
            "containers": [container("a", &json!({"cpu": "1", "nvidia.com/gpu": "1"}))],
            "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "2Mi", "nvidia.com/gpu": "8"}},
            "overhead": {"cpu": "1"},
        });
        let want = amounts(&[("cpu", 4000), ("hugepages-2Mi", 2 << 20), ("nvidia.com/gpu", 1)]);
        assert_eq!(total(pod), Ok(want));
    }

    #[test]
    fn what_cannot_be_counted_names_the_container_and_the_resource() {
        for (quantity, problem) in [
            ("-1", "container a requests cpu: \"-1\" is negative"),
            ("x", "container a requests cpu: \"x\" is not a quantity"),
            ("1e30", "container a requests cpu: \"1e30\" is too large"),
        ] {
            let pod = json!({"containers": [container("a", &json!({"cpu": quantity}))]});
            assert_eq!(total(pod), Err(problem.to_owned()));
        }
        let huge = json!({"memory": "9223372036854775807"});
        let pod = json!({"containers": [container("a", &huge), container("b", &huge)]});
        assert!(total(pod).unwrap_err().contains("exceed what can be counted"));
    }

    #[test]
    fn an_unknown_affinity_operator_is_refused() {
        let pod = json!({"containers": [], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "Near"}]}
            ]}
        }}});
        assert!(total(pod).unwrap_err().contains("\"Near\""));
    }
}
