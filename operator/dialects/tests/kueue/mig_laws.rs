//! Workloads that come and go on nodes whose GPUs are divided for them, with watches that are late, agents that take their
//! time, a device plugin that gives any instance of a profile to whoever comes, and an operator that starts anew.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};
use whalezen_core::workload::Timestamp;
use whalezen_dialects::{
    kueue::{
        mig::{CHECK, Step},
        objects::Objects,
    },
    write::Write,
};
use whalezen_mig::{Counts, Existing, Instance, Layout, Model, Wanted, transition};

use crate::{
    mig::{asking, gpu, gpu_node, holding, node, policy, there},
    object::{Object, check},
    seen::{NOW, key, see, seen},
};

const NODES: [&str; 2] = ["a", "b"];
const GPUS: [&str; 2] = ["0", "1"];
/// Each workload's profile, and how many pods it has.
const WORKLOADS: [(&str, &str, u32); 5] =
    [("u", "3g.40gb", 1), ("v", "3g.40gb", 2), ("w", "1g.10gb", 3), ("x", "4g.40gb", 1), ("y", "7g.80gb", 1)];

#[derive(Clone, Debug)]
enum Happening {
    /// A workload gets its quota.
    Reserve(usize),
    /// The operator has a turn for a workload, on time or when its wait is over.
    Turn(usize, bool),
    /// … or for a node.
    Tidy(usize),
    /// An agent looks after one of its GPUs and reports.
    Agent(usize),
    /// The device plugin tells the kubelet what there is.
    Plugin(usize),
    /// A workload's pods start, if they may.
    Start(usize),
    /// A workload is over, or was told to stop and has.
    End(usize),
    /// The operator sees what happened to the objects of a kind.
    See(usize),
    /// It starts anew.
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let workload = || 0..WORKLOADS.len();
    let node = || 0..NODES.len();
    prop_oneof![
        5 => workload().prop_map(Happening::Reserve),
        12 => (workload(), prop::bool::weighted(0.05)).prop_map(|(w, late)| Happening::Turn(w, late)),
        2 => node().prop_map(Happening::Tidy),
        4 => node().prop_map(Happening::Agent),
        4 => node().prop_map(Happening::Plugin),
        6 => workload().prop_map(Happening::Start),
        1 => workload().prop_map(Happening::End),
        12 => (0..3_usize).prop_map(Happening::See),
        1 => Just(Happening::Restart),
    ]
}

/// A GPU by its node and its uuid.
type Gpu = (&'static str, &'static str);

struct World {
    /// Its nodes.
    names: &'static [&'static str],
    operator: Objects,
    version: u64,
    gpu_nodes: BTreeMap<&'static str, Object>,
    nodes: BTreeMap<&'static str, Object>,
    workloads: BTreeMap<&'static str, Object>,
    /// What there really is.
    instances: BTreeMap<Gpu, BTreeSet<Instance>>,
    /// Who really uses what.
    used: BTreeMap<(Gpu, Instance), &'static str>,
    /// What was not seen yet, by kind.
    unseen: [VecDeque<Object>; 3],
}

impl World {
    fn new(nodes: usize) -> Self {
        let names = &NODES[..nodes];
        let mut world = Self {
            names,
            operator: seen([]),
            version: 10,
            gpu_nodes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            workloads: BTreeMap::new(),
            instances: names.iter().flat_map(|n| GPUS.map(|g| ((*n, g), BTreeSet::new()))).collect(),
            used: BTreeMap::new(),
            unseen: Default::default(),
        };
        for name in names {
            let gpus = GPUS.map(|uuid| gpu(uuid, ""));
            world.gpu_nodes.insert(*name, gpu_node(name, &gpus));
            world.nodes.insert(*name, node(name, &json!({})));
        }
        for (name, profile, pods) in WORKLOADS {
            world.workloads.insert(name, asking(name, profile, pods));
        }
        world.restart();
        world
    }

    fn restart(&mut self) {
        self.operator = seen([]);
        self.operator.apply_mig_policy(&policy("p", "Dynamic").read());
        self.unseen = Default::default();
        let all = self.gpu_nodes.values().chain(self.nodes.values()).chain(self.workloads.values());
        for object in all.cloned().collect::<Vec<_>>() {
            self.see(&object);
        }
    }

    fn see(&mut self, object: &Object) {
        match object.0["kind"].as_str().unwrap() {
            "GPUNode" => self.operator.apply_gpu_node(&object.read()),
            _ => see(&mut self.operator, object),
        }
    }

    /// An object is there, of a new version, which is seen later.
    fn put(&mut self, object: Object) -> Object {
        self.version += 1;
        let object = object.version(self.version);
        let kind = ["GPUNode", "Node", "Workload"].iter().position(|kind| object.0["kind"] == *kind).unwrap();
        self.unseen[kind].push_back(object.clone());
        object
    }

    fn put_workload(&mut self, name: &'static str, object: Object) {
        let object = self.put(object);
        self.workloads.insert(name, object);
    }

    fn holds(&self, name: &str) -> bool {
        !self.workloads[name].0["status"]["admission"].is_null()
    }

    /// The API server takes a write, or does not.
    fn write(&mut self, write: &Write) {
        let name = write.target.name.clone();
        let (key, old) = if write.target.kind == "GPUNode" {
            self.gpu_nodes.iter().find(|(node, _)| **node == name).map(|(n, o)| (*n, o.clone())).unwrap()
        } else {
            let named = |(_, object): &(&&str, &Object)| object.0["metadata"]["name"] == name.as_str();
            self.workloads.iter().find(named).map(|(n, o)| (*n, o.clone())).unwrap()
        };
        if write.body["metadata"]["resourceVersion"] != old.0["metadata"]["resourceVersion"] {
            return;
        }
        if write.target.kind == "GPUNode" {
            let object = self.put(old.put("/spec", write.body["spec"].clone()));
            self.gpu_nodes.insert(key, object);
            return;
        }
        let checks = write.body["status"]["admissionChecks"].clone();
        if checks[0]["state"] == "Retry" {
            return self.release(key);
        }
        if checks[0]["state"] == "Ready" {
            let (_, profile, pods) = *WORKLOADS.iter().find(|(name, ..)| *name == key).unwrap();
            let claims = self.claims().into_iter().filter(|(_, _, whose)| *whose == key);
            let claims: Vec<_> = claims.collect();
            assert_eq!(claims.len(), pods as usize, "{key} may run with {claims:?}");
            assert!(claims.iter().all(|(_, i, _)| i.profile == profile.parse().unwrap()));
            let nodes: BTreeSet<_> = claims.iter().map(|((node, _), ..)| *node).collect();
            assert_eq!(nodes.len(), 1);
            let host = format!("host-{}", nodes.first().unwrap());
            assert_eq!(
                checks[0]["podSetUpdates"][0]["nodeSelector"]["kubernetes.io/hostname"],
                host.as_str()
            );
        }
        self.put_workload(key, old.put("/status/admissionChecks", checks));
    }

    /// A workload gives its quota back.
    fn release(&mut self, name: &'static str) {
        let (_, profile, pods) = *WORKLOADS.iter().find(|(known, ..)| *known == name).unwrap();
        self.used.retain(|_, user| *user != name);
        self.put_workload(name, asking(name, profile, pods));
    }

    /// All claims that were written.
    fn claims(&self) -> Vec<(Gpu, Instance, &'static str)> {
        let mut claims = Vec::new();
        for (gpu, wanted) in self.wanted() {
            for (instance, whose) in wanted {
                claims.extend(whose.map(|whose| (gpu, instance, whose)));
            }
        }
        claims
    }

    /// What was written of each GPU that is named.
    fn wanted(&self) -> BTreeMap<Gpu, Vec<(Instance, Option<&'static str>)>> {
        let mut all = BTreeMap::new();
        for (node, object) in &self.gpu_nodes {
            for named in object.0["spec"]["gpus"].as_array().into_iter().flatten() {
                let uuid = GPUS.into_iter().find(|uuid| named["uuid"] == *uuid).unwrap();
                let one = |wanted: &Value| {
                    let start = u8::try_from(wanted["start"].as_u64().unwrap()).unwrap();
                    let instance = Instance::new(wanted["profile"].as_str().unwrap().parse().unwrap(), start);
                    let claimant = wanted.pointer("/assignment/workload/uid").and_then(Value::as_str);
                    let whose = claimant.map(|claimant| {
                        WORKLOADS
                            .iter()
                            .map(|(name, ..)| *name)
                            .find(|name| claimant == format!("uid-w-{name}"))
                            .unwrap()
                    });
                    (instance, whose)
                };
                all.insert((*node, uuid), named["instances"].as_array().unwrap().iter().map(one).collect());
            }
        }
        all
    }

    fn happens(&mut self, happening: &Happening) {
        let node_of = |n: usize| self.names[n % self.names.len()];
        match *happening {
            Happening::Reserve(w) => {
                let (name, profile, pods) = WORKLOADS[w];
                if !self.holds(name) {
                    self.put_workload(name, holding(name, profile, pods, &check(CHECK, "Pending", "")));
                }
            }
            Happening::Turn(w, late) => {
                let key = key(&self.workloads[WORKLOADS[w].0]);
                let now = Timestamp(NOW.0 + if late { 3_600_000 } else { 0 });
                match self.operator.next_instances_step(&key, &mut self.operator.ground(), now) {
                    Step::Until(_) => {}
                    Step::Write(write, _) | Step::Layout { write, .. } => self.write(&write),
                }
            }
            Happening::Tidy(n) => {
                if let Some(write) = self.operator.tidy_layout(node_of(n)) {
                    self.write(&write);
                }
            }
            Happening::Agent(n) => self.agent(node_of(n)),
            Happening::Plugin(n) => {
                let name = node_of(n);
                let mut offered: BTreeMap<String, u32> = BTreeMap::new();
                for ((node, _), instances) in &self.instances {
                    for instance in instances.iter().filter(|_| *node == name) {
                        *offered.entry(instance.profile.resource()).or_default() += 1;
                    }
                }
                let offered =
                    offered.into_iter().map(|(name, count)| (name, json!(count.to_string()))).collect();
                let object = self.put(node(name, &Value::Object(offered)));
                self.nodes.insert(name, object);
            }
            Happening::Start(w) => self.start(w),
            Happening::End(w) => {
                if self.holds(WORKLOADS[w].0) {
                    self.release(WORKLOADS[w].0);
                }
            }
            Happening::See(kind) => {
                for object in std::mem::take(&mut self.unseen[kind]) {
                    self.see(&object);
                }
            }
            Happening::Restart => self.restart(),
        }
    }

    /// The agent makes the layout of each of its GPUs that is wanted, as far as it can, and reports.
    fn agent(&mut self, node: &'static str) {
        let geometry = Model::H100_80.geometry().unwrap();
        let wanted = self.wanted();
        let mut object = self.gpu_nodes[node].clone();
        for (index, uuid) in GPUS.into_iter().enumerate() {
            let gpu = (node, uuid);
            let existing: Vec<_> = self.instances[&gpu]
                .iter()
                .map(|&instance| Existing { instance, busy: self.used.contains_key(&(gpu, instance)) })
                .collect();
            let wanted = match wanted.get(&gpu) {
                Some(wanted) => Wanted::Placed(wanted.iter().map(|(instance, _)| *instance).collect()),
                None => Wanted::Counts(Counts::default()),
            };
            if let Ok(plan) = transition(&geometry, &existing, &wanted) {
                self.instances.insert(gpu, plan.layout.instances().iter().copied().collect());
            }
            let words: Vec<_> = self.instances[&gpu]
                .iter()
                .map(|i| format!("{i}{}", if self.used.contains_key(&(gpu, *i)) { "!" } else { "" }))
                .collect();
            object.0["status"]["gpus"][index]["mig"]["instances"] = there(&words.join(" "));
        }
        let object = self.put(object);
        self.gpu_nodes.insert(node, object);
    }

    /// The pods of a workload that may run start on the node that they were sent to, and get whatever is free there.
    fn start(&mut self, w: usize) {
        let (name, profile, pods) = WORKLOADS[w];
        let check = &self.workloads[name].0["status"]["admissionChecks"][0];
        if check["state"] != "Ready" || self.used.values().any(|user| *user == name) {
            return;
        }
        let host = check["podSetUpdates"][0]["nodeSelector"]["kubernetes.io/hostname"].as_str().unwrap();
        let node = host.trim_start_matches("host-").to_owned();
        let profile = profile.parse().unwrap();
        for _ in 0..pods {
            let all = self.instances.iter().flat_map(|(gpu, instances)| instances.iter().map(|i| (*gpu, *i)));
            let mut free = all.filter(|(gpu, i)| {
                gpu.0 == node && i.profile == profile && !self.used.contains_key(&(*gpu, *i))
            });
            let free = free
                .next_back()
                .unwrap_or_else(|| panic!("{name} was sent to {node}, which has no {profile} left"));
            self.used.insert(free, name);
        }
    }

    /// What holds at every moment.
    fn check(&self) {
        let geometry = Model::H100_80.geometry().unwrap();
        for (gpu, wanted) in self.wanted() {
            let instances = wanted.iter().map(|(instance, _)| *instance);
            if let Err(problem) = Layout::new(&geometry, instances) {
                panic!("{gpu:?} is to have {wanted:?}: {problem}");
            }
        }
        for (gpu, instance) in self.used.keys() {
            assert!(self.instances[gpu].contains(instance), "{instance} of {gpu:?} is gone under its user");
        }
    }
}

proptest! {
    #[test]
    fn no_two_workloads_hold_the_same_instance_and_whoever_may_run_finds_what_it_was_promised(
        happenings in prop::collection::vec(happening(), 40..100),
    ) {
        // Two GPUs for who needs three and a half.
        let mut world = World::new(1);
        for happening in &happenings {
            world.happens(happening);
            world.check();
        }
        // Nothing is left of those that are over.
        for w in 0..WORKLOADS.len() {
            world.happens(&Happening::End(w));
        }
        world.restart();
        world.happens(&Happening::Tidy(0));
        world.happens(&Happening::Agent(0));
        prop_assert!(world.wanted().is_empty());
        prop_assert!(world.instances.values().all(BTreeSet::is_empty));
    }

    #[test]
    fn whoever_has_room_runs_in_the_end(order in Just([0, 1, 2, 3]).prop_shuffle(), more in prop::collection::vec(happening(), 0..20)) {
        let mut world = World::new(2);
        for happening in &more {
            world.happens(happening);
        }
        for w in 0..WORKLOADS.len() {
            world.happens(&Happening::End(w));
        }
        // All but the one that needs a whole GPU have room on the four GPUs, whatever the order.
        for &w in &order {
            world.happens(&Happening::Reserve(w));
        }
        for _ in 0..8 {
            for w in 0..WORKLOADS.len() {
                world.happens(&Happening::Turn(w, false));
                while let Some(kind) = world.unseen.iter().position(|unseen| !unseen.is_empty()) {
                    world.happens(&Happening::See(kind));
                }
            }
            for n in 0..NODES.len() {
                world.happens(&Happening::Tidy(n));
                world.happens(&Happening::Agent(n));
                world.happens(&Happening::Plugin(n));
            }
            while let Some(kind) = world.unseen.iter().position(|unseen| !unseen.is_empty()) {
                world.happens(&Happening::See(kind));
            }
        }
        for &w in &order {
            world.happens(&Happening::Start(w));
            let (name, _, pods) = WORKLOADS[w];
            let used = world.used.values().filter(|user| **user == name).count();
            prop_assert_eq!(used, pods as usize, "{}", name);
        }
    }
}
