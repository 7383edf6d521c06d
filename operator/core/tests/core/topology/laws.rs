use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use whalezen_core::{
    testing::{WorkloadBuilder, node, workload},
    topology::{HOST, Node, Placement, Profile, Stay, Stays, Trees},
};

use super::{asks, trees};

/// A host's block, its rack in that, and its cores.
type Host = (u8, u8, i64);

#[derive(Clone, Debug)]
struct Problem {
    hosts: Vec<Host>,
    pods: u32,
    cores: i64,
    leader: Option<i64>,
    /// The number of its level, and whether it is required; none for any place.
    near: Option<(usize, bool)>,
    slices: Option<(u32, usize)>,
}

const LEVELS: [&str; 3] = ["block", "rack", HOST];

fn problems() -> impl Strategy<Value = Problem> {
    let host = (0..3_u8, 0..3_u8, 0..9_i64);
    let near = prop_oneof![1 => Just(None), 3 => (0..3_usize, any::<bool>()).prop_map(Some)];
    let slices = prop_oneof![2 => Just(None), 1 => (1..4_u32, 0..3_usize).prop_map(Some)];
    let leader = prop_oneof![2 => Just(None), 1 => (1..5_i64).prop_map(Some)];
    (vec(host, 0..12), 1..13_u32, 1..4_i64, leader, near, slices).prop_map(
        |(hosts, pods, cores, leader, near, slices)| {
            // Whole slices, not above the level that is asked for.
            let slices = slices.map(|(size, level)| (size, near.map_or(level, |(near, _)| level.max(near))));
            let pods = slices.map_or(pods, |(size, _)| pods.div_ceil(size) * size);
            Problem { hosts, pods, cores, leader, near, slices }
        },
    )
}

impl Problem {
    fn nodes(&self) -> Vec<Node> {
        let hosts = self.hosts.iter().enumerate();
        let nodes = hosts.map(|(index, (block, rack, cores))| {
            let node = node(&format!("h{index:02}")).label("block", &format!("b{block}"));
            node.label("rack", &format!("r{block}{rack}")).has("cpu", *cores).into()
        });
        nodes.collect()
    }

    fn workload(&self) -> WorkloadBuilder {
        let mut it = workload("ns/it");
        if let Some(cores) = self.leader {
            it = self.near(it.pods("leader", 1, [("cpu", cores)])).placed_with("g");
        }
        it = self.near(it.pods("workers", self.pods, [("cpu", self.cores)])).placed_with("g");
        if let Some((size, level)) = self.slices {
            it = it.slices(size, LEVELS[level]);
        }
        it
    }

    fn near(&self, it: WorkloadBuilder) -> WorkloadBuilder {
        match self.near {
            None => it.unconstrained(),
            Some((level, true)) => it.required(LEVELS[level]),
            Some((level, false)) => it.preferred(LEVELS[level]),
        }
    }

    fn trees(&self) -> Trees {
        trees(self.nodes())
    }

    fn placed(&self) -> Option<Vec<Placement>> {
        let trees = self.trees();
        trees.place(&asks(self.workload()), &trees.untaken(), Profile::default()).ok()
    }

    /// The domain of a level that a host is in.
    fn domain(&self, host: &str, level: usize) -> String {
        let nodes = self.nodes();
        nodes.iter().find(|node| node.name.as_str() == host).unwrap().labels[LEVELS[level]].clone()
    }

    /// How many pods of a placement are in each domain of a level.
    fn by_domain(&self, placement: &Placement, level: usize) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for spot in &placement.spots {
            *counts.entry(self.domain(&spot.values[0], level)).or_default() += spot.count;
        }
        counts
    }

    /// How many workers fit in each domain of a level.
    fn room(&self, level: usize) -> BTreeMap<String, i64> {
        let mut room = BTreeMap::new();
        for (index, (.., cores)) in self.hosts.iter().enumerate() {
            *room.entry(self.domain(&format!("h{index:02}"), level)).or_default() += cores / self.cores;
        }
        room
    }
}

proptest! {
    #[test]
    fn all_pods_have_a_place_or_none_has(problem in problems()) {
        let Some(placed) = problem.placed() else { return Ok(()) };
        let counts: Vec<u32> =
            placed.iter().map(|placement| placement.spots.iter().map(|spot| spot.count).sum()).collect();
        let want: Vec<u32> = problem.leader.map(|_| 1).into_iter().chain([problem.pods]).collect();
        prop_assert_eq!(counts, want);
    }

    #[test]
    fn no_host_gets_more_than_it_has(problem in problems()) {
        let Some(placed) = problem.placed() else { return Ok(()) };
        let mut cores: BTreeMap<String, i64> = BTreeMap::new();
        let each = problem.leader.into_iter().chain([problem.cores]);
        for (placement, each) in placed.iter().zip(each) {
            for spot in &placement.spots {
                *cores.entry(spot.values[0].to_string()).or_default() += each * i64::from(spot.count);
            }
        }
        for (index, (.., has)) in problem.hosts.iter().enumerate() {
            let gets = cores.get(&format!("h{index:02}"));
            prop_assert!(gets.is_none_or(|gets| gets <= has));
        }
    }

    #[test]
    fn what_is_required_to_be_together_is_in_one_domain(problem in problems()) {
        if let (Some(placed), Some((level, true))) = (problem.placed(), problem.near) {
            let spots = placed.into_iter().flat_map(|placement| placement.spots).collect();
            let all = Placement { spots, ..Placement::default() };
            prop_assert!(problem.by_domain(&all, level).len() <= 1);
        }
    }

    #[test]
    fn what_prefers_to_be_together_is_if_it_can_be(problem in problems()) {
        if let (None, None, Some((level, false))) = (problem.leader, problem.slices, problem.near) {
            let fits = |level| problem.room(level).values().any(|room| *room >= i64::from(problem.pods));
            let lowest = (0..=level).rev().find(|level| fits(*level));
            if let Some(lowest) = lowest {
                let placed = problem.placed();
                prop_assert!(placed.is_some_and(|of| problem.by_domain(&of[0], lowest).len() == 1));
            }
        }
    }

    #[test]
    fn what_may_be_anywhere_is_placed_if_there_is_room(problem in problems()) {
        if let (None, None) = (problem.leader, problem.slices)
            && problem.near.is_none_or(|(_, required)| !required)
        {
            let room: i64 = problem.room(0).values().sum();
            prop_assert_eq!(problem.placed().is_some(), room >= i64::from(problem.pods));
        }
    }

    #[test]
    fn no_slice_is_broken(problem in problems()) {
        if let (Some(placed), Some((size, level))) = (problem.placed(), problem.slices) {
            let counts = problem.by_domain(placed.last().unwrap(), level);
            prop_assert!(counts.values().all(|count| count % size == 0), "{:?}", counts);
        }
    }

    #[test]
    fn whoever_loses_a_host_has_all_pods_elsewhere_and_as_they_are_to_be(problem in problems(), lost: u8) {
        let problem = Problem { leader: None, ..problem };
        let Some(placed) = problem.placed() else { return Ok(()) };
        let (trees, ask, before) = (problem.trees(), asks(problem.workload()).remove(0), &placed[0]);
        let stay = |placement: &Placement| {
            let flavors = [ask.flavor.clone()].into();
            let (placement, per_pod) = (placement.clone(), ask.pod_set.of_its_node().clone());
            Stays(vec![Stay { flavors, placement, per_pod }])
        };
        let mut taken = trees.untaken();
        trees.charge(&mut taken, &stay(before));
        let host = before.spots[usize::from(lost) % before.spots.len()].values[0].clone();
        let moved = trees.replace(&ask, before, &host, &mut taken, Profile::default());
        let Ok(after) = moved else { return Ok(()) };
        prop_assert!(!after.has(&host));
        prop_assert_eq!(after.spots.iter().map(|spot| spot.count).sum::<u32>(), problem.pods);
        for spot in before.spots.iter().filter(|spot| spot.values[0] != host) {
            let now = after.spots.iter().find(|now| now.values == spot.values);
            prop_assert!(now.is_some_and(|now| now.count >= spot.count), "who was elsewhere stays");
        }
        prop_assert!(trees.have_room(&trees.untaken(), &stay(&after)));
        if let Some((level, true)) = problem.near {
            let domains = |placement| problem.by_domain(placement, level);
            let stays = before.spots.len() > 1;
            prop_assert!(domains(&after).len() == 1, "{:?}", after);
            prop_assert!(!stays || domains(&after).keys().eq(domains(before).keys()));
        }
        if let Some((size, level)) = problem.slices {
            let counts = problem.by_domain(&after, level);
            prop_assert!(counts.values().all(|count| count % size == 0), "{:?}", counts);
        }
    }

    #[test]
    fn what_is_placed_and_given_back_leaves_no_trace(problem in problems()) {
        let Some(placed) = problem.placed() else { return Ok(()) };
        let trees = problem.trees();
        let stay = |(ask, placement): (whalezen_core::topology::Ask, Placement)| Stay {
            flavors: [ask.flavor.clone()].into(),
            per_pod: ask.pod_set.of_its_node().clone(),
            placement,
        };
        let stays = Stays(asks(problem.workload()).into_iter().zip(placed).map(stay).collect());
        let mut taken = trees.untaken();
        prop_assert!(trees.have_room(&taken, &stays));
        trees.charge(&mut taken, &stays);
        trees.release(&mut taken, &stays);
        prop_assert_eq!(taken, trees.untaken());
    }
}
