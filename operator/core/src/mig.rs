//! MIG instances for workloads: which node can have them, and on which of its GPUs they are.
//!
//! A workload that asks for `nvidia.com/mig-3g.40gb` asks for a device that may not exist yet. Here it is decided where
//! it is to be: all instances of a workload are on one node, which is how its pods can be told where to go. What others
//! use or were promised is *busy* and stays ([`whalezen_mig::make_room`]); what is idle may be taken as it is, or go
//! where the GPU's layout [may change](Leave). The node is taken for which the fewest idle instances go, of those the
//! one for which the fewest are made, and of those the one that is fullest, so that whole GPUs stay whole.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use whalezen_mig::{Counts, Existing, Geometry, Instance, ProfileName, Room, make_room};

use crate::{
    flavor::{Flavor, NodeDemand, TaintEffect},
    name::HostName,
    quantity::{Amount, Amounts},
    topology::Node,
};

/// The GPUs of a node.
#[derive(Clone, Debug)]
pub struct GpuNode {
    /// The node.
    pub name: HostName,
    /// Its GPUs that are in MIG mode.
    pub gpus: Vec<Gpu>,
}

/// A GPU that is in MIG mode.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// By which it is known.
    pub uuid: Arc<str>,
    /// What it can be divided into.
    pub geometry: Arc<Geometry>,
    /// The instances that it has, or will have when what was decided is done. Busy is what somebody uses or was promised.
    pub instances: Vec<Existing>,
    /// What may be done with it.
    pub leave: Leave,
}

/// What may be done with a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// It takes no new work.
    Nothing,
    /// What is idle may be given to somebody as it is.
    AsItIs,
    /// What is idle may go, too.
    Change,
}

/// An instance for a workload.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claim {
    /// The GPU's uuid.
    pub gpu: Arc<str>,
    /// The instance.
    pub instance: Instance,
}

/// What a node can be made to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fit {
    /// An instance for each that was asked for.
    pub claims: Vec<Claim>,
    /// The GPUs that they are on, each with all instances that it will have.
    pub layouts: BTreeMap<Arc<str>, Vec<Existing>>,
    /// How many idle instances go.
    pub destroyed: usize,
    /// How many are made.
    pub created: usize,
}

/// Why a node cannot have what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// None of its GPUs that take work has such a profile.
    NoSuchProfile(ProfileName),
    /// So many of the profile have no room beside what is in use or promised.
    NoRoom {
        /// The profile.
        profile: ProfileName,
        /// How many are asked for.
        asked: u32,
        /// For how many there is room.
        room: u32,
    },
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchProfile(profile) => write!(f, "no GPU that takes work has {profile}"),
            Self::NoRoom { profile, asked, room } => write!(f, "room for {room} of {asked} {profile}"),
        }
    }
}

/// Where a node would have `wanted`, the largest first, each where it costs the least.
pub fn fit(node: &GpuNode, wanted: &Counts) -> Result<Fit, Lack> {
    let mut gpus: Vec<Gpu> = node.gpus.iter().filter(|gpu| gpu.leave != Leave::Nothing).cloned().collect();
    let mut fit = Fit { claims: Vec::new(), layouts: BTreeMap::new(), destroyed: 0, created: 0 };
    let mut wanted: Vec<_> = wanted.iter().collect();
    wanted.reverse();
    for (profile, asked) in wanted {
        if !gpus.iter().any(|gpu| gpu.geometry.profile(profile).is_some()) {
            return Err(Lack::NoSuchProfile(profile));
        }
        for room in 0..asked {
            let best = gpus.iter_mut().filter_map(|gpu| Some((gpu.room(profile)?, gpu)));
            let cost = |(room, gpu): &(Room, &mut Gpu)| {
                (room.destroyed.len(), !room.exists, Reverse(gpu.busy_slices()), Arc::clone(&gpu.uuid))
            };
            let Some((found, gpu)) = best.min_by_key(cost) else {
                return Err(Lack::NoRoom { profile, asked, room });
            };
            fit.destroyed += found.destroyed.len();
            fit.created += usize::from(!found.exists);
            fit.claims.push(Claim { gpu: Arc::clone(&gpu.uuid), instance: found.instance });
            gpu.take(&found);
            fit.layouts.insert(Arc::clone(&gpu.uuid), gpu.instances.clone());
        }
    }
    fit.claims.sort();
    Ok(fit)
}

/// The node that has `wanted` at the least cost, or what each of them lacks.
pub fn choose<'a>(
    nodes: impl Iterator<Item = &'a GpuNode>,
    wanted: &Counts,
) -> Result<(&'a GpuNode, Fit), BTreeMap<HostName, Lack>> {
    let mut lacks = BTreeMap::new();
    let mut best: Option<(_, &GpuNode, Fit)> = None;
    for node in nodes {
        match fit(node, wanted) {
            Ok(fit) => {
                let busy: u32 = node.gpus.iter().map(Gpu::busy_slices).sum();
                let cost = (fit.destroyed, fit.created, Reverse(busy), node.name.clone());
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, node, fit));
                }
            }
            Err(lack) => {
                lacks.insert(node.name.clone(), lack);
            }
        }
    }
    best.map(|(_, node, fit)| (node, fit)).ok_or(lacks)
}

impl Gpu {
    /// Room for one more, if it may be used for that.
    fn room(&self, profile: ProfileName) -> Option<Room> {
        let room = make_room(&self.geometry, &self.instances, profile).ok()?;
        (self.leave == Leave::Change || room.exists).then_some(room)
    }

    /// Gives room away.
    fn take(&mut self, room: &Room) {
        self.instances
            .retain(|there| there.instance != room.instance && !room.destroyed.contains(&there.instance));
        self.instances.push(Existing { instance: room.instance, busy: true });
        self.instances.sort_unstable();
    }

    /// How many memory slices are in use or promised.
    fn busy_slices(&self) -> u32 {
        let busy = self.instances.iter().filter(|there| there.busy);
        let profiles = busy.filter_map(|there| self.geometry.profile(there.instance.profile));
        profiles.map(|profile| u32::from(profile.memory_slices)).sum()
    }
}

/// Whether pods with this demand, of these flavors, may be on a node. What flavors say of their nodes has to be so there,
/// too.
pub fn may_be_on(node: &Node, demand: &NodeDemand, flavors: &[&Flavor]) -> bool {
    let has = |(label, value): (&String, &String)| node.labels.get(label) == Some(value);
    let labelled = demand.selector.iter().chain(flavors.iter().flat_map(|flavor| &flavor.labels)).all(has);
    let meets = |term: &Vec<_>| {
        term.iter().all(|requirement: &crate::labels::Requirement| requirement.matches(&node.labels))
    };
    let near = demand.affinity.is_empty() || demand.affinity.iter().any(meets);
    let tolerations =
        || demand.tolerations.iter().chain(flavors.iter().flat_map(|flavor| &flavor.tolerations));
    let keeps_off = node.taints.iter().filter(|taint| taint.effect != TaintEffect::PreferNoSchedule);
    let mut keeps_off =
        keeps_off.filter(|taint| !tolerations().any(|toleration| toleration.tolerates(taint)));
    labelled && near && keeps_off.next().is_none()
}

/// Whether a node has `needed` beside what is `taken` there, of everything but MIG instances, which are made.
pub fn has_the_rest(node: &Node, needed: &Amounts, taken: &Amounts) -> bool {
    let others =
        needed.iter().filter(|(resource, _)| ProfileName::from_resource(resource.as_str()).is_none());
    let of = |amounts: &Amounts, resource| amounts.get(resource).copied().unwrap_or(Amount::ZERO);
    others
        .into_iter()
        .all(|(resource, amount)| *amount + of(taken, resource) <= of(&node.allocatable, resource))
}

/// The MIG instances among what a pod requests.
pub fn instances_of(requests: &Amounts) -> Counts {
    let profile = |(resource, amount): (&crate::name::ResourceName, &Amount)| {
        Some((ProfileName::from_resource(resource.as_str())?, u32::try_from(amount.0).unwrap_or(u32::MAX)))
    };
    requests.iter().filter_map(profile).collect()
}

#[cfg(test)]
mod tests {
    use whalezen_mig::Model;

    use super::*;
    use crate::testing::node;

    /// `3g.40gb@0! 1g.10gb@6`, where a mark says that it is busy.
    fn gpu(uuid: &str, words: &str, leave: Leave) -> Gpu {
        let existing = |word: &str| {
            let (plain, busy) = word.strip_suffix('!').map_or((word, false), |plain| (plain, true));
            let (profile, start) = plain.split_once('@').unwrap();
            Existing { instance: Instance::new(profile.parse().unwrap(), start.parse().unwrap()), busy }
        };
        let geometry = Arc::new(Model::H100_80.geometry().unwrap());
        Gpu {
            uuid: uuid.into(),
            geometry,
            instances: words.split_whitespace().map(existing).collect(),
            leave,
        }
    }

    fn gpu_node(name: &str, gpus: Vec<Gpu>) -> GpuNode {
        GpuNode { name: name.into(), gpus }
    }

    fn counts(words: &str) -> Counts {
        words.split_whitespace().map(|word| (word.parse().unwrap(), 1)).collect()
    }

    fn claims(fit: &Fit) -> String {
        let words: Vec<_> =
            fit.claims.iter().map(|claim| format!("{}:{}", claim.gpu, claim.instance)).collect();
        words.join(" ")
    }

    #[test]
    fn a_node_gives_what_is_idle_first_and_fills_the_fullest_gpu() {
        let table = [
            ("3g.40gb", "g:3g.40gb@0"),
            ("3g.40gb 3g.40gb", "g:3g.40gb@0 h:3g.40gb@4"),
            ("1g.10gb 3g.40gb", "g:3g.40gb@0 h:1g.10gb@6"),
            ("7g.80gb", "h:7g.80gb@0"),
        ];
        for (wanted, expected) in table {
            let gpus = vec![gpu("g", "3g.40gb@0 3g.40gb@4!", Leave::AsItIs), gpu("h", "", Leave::Change)];
            let node = gpu_node("n", gpus);
            assert_eq!(claims(&fit(&node, &counts(wanted)).unwrap()), expected, "{wanted}");
        }
    }

    #[test]
    fn the_node_is_chosen_that_loses_the_least() {
        let idle = gpu_node("a", vec![gpu("g", "3g.40gb@0", Leave::Change)]);
        let empty = gpu_node("b", vec![gpu("g", "", Leave::Change)]);
        let fuller = gpu_node("c", vec![gpu("g", "1g.10gb@6!", Leave::Change)]);
        let in_the_way = gpu_node("d", vec![gpu("g", "1g.10gb@0 1g.10gb@4", Leave::Change)]);
        let chosen = |nodes: &[&GpuNode]| {
            let (node, fit) = choose(nodes.iter().copied(), &counts("3g.40gb")).unwrap();
            (node.name.to_string(), fit.destroyed, fit.created)
        };
        assert_eq!(chosen(&[&empty, &in_the_way, &idle, &fuller]), ("a".to_owned(), 0, 0));
        assert_eq!(chosen(&[&empty, &in_the_way, &fuller]), ("c".to_owned(), 0, 1));
        assert_eq!(chosen(&[&in_the_way]), ("d".to_owned(), 1, 1));
    }

    #[test]
    fn what_a_node_lacks_is_told() {
        let node = gpu_node("n", vec![gpu("g", "1g.10gb@0!", Leave::Change), gpu("h", "", Leave::Nothing)]);
        let lack =
            |words: &str| choose([&node].into_iter(), &counts(words)).unwrap_err()[&"n".into()].to_string();
        assert_eq!(lack("3g.71gb"), "no GPU that takes work has 3g.71gb");
        assert_eq!(lack("3g.40gb 3g.40gb"), "room for 1 of 2 3g.40gb");
    }

    #[test]
    fn a_node_needs_room_for_everything_but_the_instances() {
        let node: Node = node("n").has("cpu", 4).into();
        let needs = |cores: i64| {
            Amounts::from([
                ("cpu".into(), Amount(cores * 1000)),
                ("nvidia.com/mig-1g.10gb".into(), Amount(1)),
            ])
        };
        assert!(has_the_rest(&node, &needs(4), &Amounts::new()));
        assert!(!has_the_rest(&node, &needs(4), &needs(1)));
        assert_eq!(instances_of(&needs(4)), counts("1g.10gb"));
    }
}
