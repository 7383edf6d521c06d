//! The trees of all flavors, what is taken in them, and where workloads find a place.
//!
//! A node may be in the trees of several flavors. Where hosts are the lowest level, what is taken of a node is taken in
//! all of them (Kueue's rule too): a host has no more room because it has two names.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Ask, Misfit, Node, Placement, Pod, Profile, Stay, Stays, Topology, TopologyRequest,
    alone::Alone,
    balanced::{self, Balanced},
    capacity::{Counts, Rows},
    choice,
    shape::{self, Shape},
    spread,
    tree::Tree,
};
use crate::{
    flavor::Flavor,
    name::{FlavorName, HostName, PodKey, TopologyName},
};

/// The trees of all flavors that have a topology.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trees {
    trees: BTreeMap<FlavorName, Tree>,
    alone: Alone,
}

/// What workloads take of each leaf of each tree. A plan works on a clone, which costs little: what is taken in a tree is
/// copied when it is written to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken(BTreeMap<FlavorName, Arc<Vec<i128>>>);

impl Trees {
    /// The trees of these flavors, with the room that these pods leave.
    pub fn new(
        flavors: &BTreeMap<FlavorName, Flavor>,
        topologies: &BTreeMap<TopologyName, Topology>,
        nodes: &BTreeMap<HostName, Node>,
        pods: &BTreeMap<PodKey, Pod>,
    ) -> Self {
        let tree = |flavor: &Flavor| {
            let topology = topologies.get(flavor.topology.as_ref()?)?;
            Some((flavor.name.clone(), Tree::new(flavor, topology, nodes.values())))
        };
        let trees = flavors.values().filter_map(tree).collect();
        let mut trees = Self { trees, alone: Alone::default() };
        for pod in pods.values() {
            trees.crowd(pod, 1);
        }
        trees
    }

    /// The tree of a flavor, if it has a topology that is known.
    pub fn tree(&self, flavor: &FlavorName) -> Option<&Tree> {
        self.trees.get(flavor)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// The flavors that have a tree.
    pub fn flavors(&self) -> impl Iterator<Item = &FlavorName> {
        self.trees.keys()
    }

    /// The flavors whose trees have this node.
    pub fn with_node(&self, node: &HostName) -> impl Iterator<Item = &FlavorName> {
        self.trees.iter().filter(move |(_, tree)| tree.has(node)).map(|(flavor, _)| flavor)
    }

    /// A pod that no placement accounts for is there once more, or once less.
    pub fn crowd(&mut self, pod: &Pod, times: i128) {
        self.alone.forget();
        for tree in self.trees.values_mut() {
            tree.crowd(&pod.node, &pod.requests, times);
        }
    }

    /// Nothing taken anywhere.
    pub fn untaken(&self) -> Taken {
        let nothing = |tree: &Tree| Arc::new(vec![0; tree.room().len()]);
        Taken(self.trees.iter().map(|(flavor, tree)| (flavor.clone(), nothing(tree))).collect())
    }

    /// This is taken as well.
    pub fn charge(&self, taken: &mut Taken, stays: &Stays) {
        for stay in &stays.0 {
            self.take(taken, stay, 1);
        }
    }

    /// This is given back.
    pub fn release(&self, taken: &mut Taken, stays: &Stays) {
        for stay in &stays.0 {
            self.take(taken, stay, -1);
        }
    }

    /// The flavors in whose trees this takes anything.
    pub fn touched<'a>(&'a self, stays: &'a Stays) -> impl Iterator<Item = &'a FlavorName> {
        let touches = |flavor: &FlavorName, tree: &Tree| {
            let stays = stays.0.iter().filter(|stay| is_in(stay, flavor, tree));
            stays.flat_map(|stay| &stay.placement.spots).any(|spot| tree.leaf(&spot.values).is_some())
        };
        self.trees.iter().filter(move |(flavor, tree)| touches(flavor, tree)).map(|(flavor, _)| flavor)
    }

    /// Whether all of this is in the trees, and there is room for it where it is.
    pub fn have_room(&self, taken: &Taken, stays: &Stays) -> bool {
        let mut taken = taken.clone();
        let mut left = stays.0.iter();
        while let Some(stay) = left.next() {
            let mut trees = self.trees.iter().filter(|(flavor, tree)| is_in(stay, flavor, tree));
            let own = trees.clone().any(|(flavor, _)| stay.flavors.contains(flavor));
            let fits = |(flavor, tree): (&FlavorName, &Tree)| {
                tree.has_room(taken.of(flavor), stay, stay.flavors.contains(flavor))
            };
            if !own || !trees.all(fits) {
                return false;
            }
            // The first that is taken has all that is taken copied.
            if left.len() > 0 {
                self.take(&mut taken, stay, 1);
            }
        }
        true
    }

    /// This is taken as well.
    pub(super) fn take_one(&self, taken: &mut Taken, stay: &Stay) {
        self.take(taken, stay, 1);
    }

    fn take(&self, taken: &mut Taken, stay: &Stay, times: i128) {
        for (flavor, tree) in self.trees.iter().filter(|(flavor, tree)| is_in(stay, flavor, tree)) {
            if let Some(taken) = taken.0.get_mut(flavor).map(Arc::make_mut) {
                tree.take(taken.as_mut_slice(), stay, times);
            }
        }
    }

    /// A place for each of these, all or none. None of them gets what those before it get.
    pub fn place(&self, asks: &[Ask], taken: &Taken, profile: Profile) -> Result<Vec<Placement>, Misfit> {
        let mut taken = taken.clone();
        let mut placements = vec![Placement::default(); asks.len()];
        let groups = self.trees.iter().flat_map(|(flavor, tree)| {
            groups(asks, flavor).into_iter().map(move |group| (flavor, tree, group))
        });
        let mut groups = groups.peekable();
        while let Some((flavor, tree, group)) = groups.next() {
            let misfit = |message| Misfit { index: group.workers, flavor: flavor.clone(), message };
            for (index, placement) in tree.place(asks, &group, taken.of(flavor), profile).map_err(misfit)? {
                let Some((ask, place)) = asks.get(index).zip(placements.get_mut(index)) else { continue };
                // The first that is taken has all that is taken copied.
                if groups.peek().is_some() {
                    self.take(&mut taken, &ask.stay(placement.clone()), 1);
                }
                *place = placement;
            }
        }
        Ok(placements)
    }

    /// The same with no workload anywhere.
    pub fn place_alone(&self, asks: &[Ask], profile: Profile) -> Result<Vec<Placement>, Misfit> {
        self.alone.find(asks, profile, || self.place(asks, &self.untaken(), profile))
    }

    /// Whether that is what it was.
    pub(crate) fn remember_rightly(&self) -> bool {
        self.alone.holds(|asks, profile| self.place(asks, &self.untaken(), profile))
    }
}

impl Taken {
    /// The more of both, everywhere.
    pub fn highest(&self, other: &Self) -> Self {
        let higher = |(flavor, taken): (&FlavorName, &Arc<Vec<i128>>)| {
            let other = other.0.get(flavor).filter(|other| !Arc::ptr_eq(other, taken));
            let highest = other.map_or_else(
                || Arc::clone(taken),
                |other| Arc::new(taken.iter().zip(other.iter()).map(|(a, b)| *a.max(b)).collect()),
            );
            (flavor.clone(), highest)
        };
        Self(self.0.iter().map(higher).collect())
    }

    pub(super) fn of_mut(&mut self, flavor: &FlavorName) -> Option<&mut Vec<i128>> {
        self.0.get_mut(flavor).map(Arc::make_mut)
    }

    fn of(&self, flavor: &FlavorName) -> &[i128] {
        self.0.get(flavor).map(|taken| taken.as_slice()).unwrap_or_default()
    }
}

/// Those of a group by their indexes.
struct Group {
    workers: usize,
    leader: Option<usize>,
}

/// What is to be placed together on the nodes of a flavor, in order.
fn groups(asks: &[Ask], flavor: &FlavorName) -> Vec<Group> {
    let mut groups: Vec<(Option<&Arc<str>>, Vec<usize>)> = Vec::new();
    for (index, ask) in asks.iter().enumerate().filter(|(_, ask)| ask.flavor == *flavor) {
        let name = ask.request().and_then(|request| request.group.as_ref());
        match groups.iter_mut().find(|(other, _)| name.is_some() && *other == name) {
            Some((_, members)) => members.push(index),
            None => groups.push((name, vec![index])),
        }
    }
    let count = |index: usize| asks.get(index).map_or(0, |ask| ask.pod_set.count);
    let group = |(_, members): (_, Vec<usize>)| {
        let workers = members.first().copied()?;
        let leader = members.get(1).copied();
        Some(match leader {
            Some(leader) if count(leader) > count(workers) => {
                Group { workers: leader, leader: Some(workers) }
            }
            leader => Group { workers, leader },
        })
    };
    groups.into_iter().filter_map(group).collect()
}

/// Whether what stays there takes room in this tree.
fn is_in(stay: &Stay, flavor: &FlavorName, tree: &Tree) -> bool {
    tree.is_named_by(&stay.placement.levels) && (tree.is_on_hosts() || stay.flavors.contains(flavor))
}

impl Ask {
    pub(super) fn request(&self) -> Option<&TopologyRequest> {
        self.pod_set.topology.as_ref()
    }

    /// What it takes where it is placed.
    pub(crate) fn stay(&self, placement: Placement) -> Stay {
        let flavors = std::iter::once(self.flavor.clone()).collect();
        Stay { flavors, placement, per_pod: self.pod_set.of_its_node().clone() }
    }
}

impl Tree {
    /// Whether it has every level that a request names.
    pub fn has_levels(&self, request: &TopologyRequest) -> bool {
        shape::has_levels(self, request)
    }

    /// Places for a group, of which so much is taken.
    fn place(
        &self,
        asks: &[Ask],
        group: &Group,
        taken: &[i128],
        profile: Profile,
    ) -> Result<Vec<(usize, Placement)>, String> {
        let Some(workers) = asks.get(group.workers) else { return Ok(Vec::new()) };
        let leader = group.leader.and_then(|index| Some((index, asks.get(index)?)));
        let fallback = TopologyRequest::default();
        let request = workers.request().unwrap_or(&fallback);
        let (count, leaders) = (workers.pod_set.count, i64::from(leader.is_some()));
        let shape = Shape::new(self, request, workers.implied, count, leaders, profile)?;
        if shape.slices() * shape.slice_size != shape.count {
            return Err(format!("the {count} pods are no whole number of slices of {}", shape.slice_size));
        }
        let rows = Rows {
            worker: self.row(workers.pod_set.of_its_node()),
            leader: leader.map(|(_, leader)| self.row(leader.pod_set.of_its_node())),
        };
        let mut counts = Counts::new(self, &shape, &rows, &workers.pod_set.demand, taken);
        let balanced = profile.balances && !shape.required && !shape.unconstrained;
        let balanced = balanced.then(|| balanced::balance(self, &shape, &counts)).flatten();
        let is_balanced = balanced.is_some();
        let (level, domains) = match balanced {
            Some(Balanced { level, domains, counts: shares }) => {
                counts = shares;
                (level, domains)
            }
            None => choice::choose(self, &shape, &counts)?,
        };
        let untouched = counts.clone();
        let leaves = spread::spread(self, &shape, &mut counts, level, domains, is_balanced)
            .ok_or_else(|| choice::no_room(self, &shape, &untouched, level, 0))?;
        let dealt = |of: fn(&super::capacity::Count) -> i64| {
            self.placement(leaves.iter().map(|leaf| (*leaf, of(&counts.of(*leaf)))).collect())
        };
        let mut placements = vec![(group.workers, dealt(|count| count.pods))];
        placements.extend(leader.map(|(index, _)| (index, dealt(|count| count.leaders))));
        Ok(placements)
    }

    fn take(&self, taken: &mut [i128], stay: &Stay, times: i128) {
        let row = self.row(&stay.per_pod);
        for spot in &stay.placement.spots {
            let Some(start) = self.leaf(&spot.values).map(|leaf| leaf * self.width()) else { continue };
            for (column, amount) in &row.amounts {
                if let Some(taken) = taken.get_mut(start + column) {
                    *taken += i128::from(*amount) * i128::from(spot.count) * times;
                }
            }
        }
    }

    /// Whether no leaf would be overfull if this were taken as well. Where it is none of the flavor's own, it need not have
    /// the leaves.
    fn has_room(&self, taken: &[i128], stay: &Stay, own: bool) -> bool {
        let row = self.row(&stay.per_pod);
        stay.placement.spots.iter().all(|spot| {
            let Some(start) = self.leaf(&spot.values).map(|leaf| leaf * self.width()) else { return !own };
            row.amounts.iter().all(|(column, amount)| {
                let more = i128::from(*amount) * i128::from(spot.count);
                let (taken, room) = (taken.get(start + column), self.room().get(start + column));
                taken.zip(room).is_some_and(|(taken, room)| taken + more <= *room)
            })
        })
    }
}
