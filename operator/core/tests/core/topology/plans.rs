use whalezen_core::{
    brakes::Brakes,
    plan::{FairStrategy, Policy},
    queue::{Reclaim, WithinQueue},
    testing::{
        NodeBuilder, ObligingApplier, QueueBuilder, WorkloadBuilder, World, flavor, foreign_pod, key,
        local_queue, node, queue, topology, workload,
    },
    topology::HOST,
    verdict::Reason,
    workload::{Eviction, Timestamp},
};

const CPU: &str = "cpu";

fn host(rack: &str, name: &str, cores: i64) -> NodeBuilder {
    node(name).label("rack", rack).has(CPU, cores)
}

/// Two racks of two hosts with four cores each.
fn racks(world: World) -> World {
    let world = world.with(topology("t", ["rack", HOST])).with(flavor("f").topology("t"));
    [("r1", "h1"), ("r1", "h2"), ("r2", "h3"), ("r2", "h4")]
        .into_iter()
        .fold(world, |world, (rack, name)| world.with(host(rack, name, 4)))
}

/// A queue with more quota than there are cores.
fn rich(name: &str) -> QueueBuilder {
    queue(name).group([CPU]).flavor("f", [(CPU, 100)])
}

/// The racks, and a queue `q` of this kind for the LocalQueue `ns/lq`.
fn world(queue: QueueBuilder) -> World {
    racks(World::new()).with(queue).with(local_queue("ns/lq", "q"))
}

/// So many pods of a core each in one rack.
fn gang(name: &str, pods: u32) -> WorkloadBuilder {
    workload(name).pods("main", pods, [(CPU, 1)]).required("rack")
}

#[test]
fn gangs_of_one_plan_do_not_get_the_same_hosts() {
    let mut world = world(rich("q")).with(rich("p")).with(local_queue("other/lq", "p"));
    world.tell(gang("ns/a", 8));
    world.tell(gang("other/b", 8));
    let plan = world.step(&mut ObligingApplier);
    assert_eq!(plan.admit.len(), 2);
    assert_eq!(world.place_of("ns/a", "main"), "h1:4 h2:4");
    assert_eq!(world.place_of("other/b", "main"), "h3:4 h4:4");
    world.state.settle();
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn who_finds_no_place_now_waits_until_somebody_gives_one_back() {
    let mut world = world(rich("q")).with(gang("ns/a", 8)).with(gang("ns/b", 5).since(1));
    world.tell(gang("ns/c", 6).since(2));
    world.run();
    assert_eq!(world.holders(), ["ns/a", "ns/b"]);
    let verdict = world.verdict("ns/c").unwrap();
    assert_eq!(verdict.reason, Reason::WaitingForQuota);
    assert_eq!(
        verdict.message,
        "couldn't assign flavors to pod set main: topology \"t\" allows to fit only 3 out of 6 pod(s). \
         Total nodes: 4; excluded: resource \"cpu\": 3"
    );
    world.finish("ns/a");
    assert_eq!(world.run(), ["ns/c"]);
    assert_eq!(world.place_of("ns/c", "main"), "h1:4 h2:2");
}

#[test]
fn who_would_find_no_place_on_empty_nodes_waits_for_other_nodes() {
    let mut world = world(rich("q")).with(gang("ns/a", 1)).with(gang("ns/big", 9).since(1));
    world.run();
    assert_eq!(world.verdict("ns/big").unwrap().reason, Reason::TopologyPlacementFailed);
    world.finish("ns/a");
    world.state.settle();
    assert_eq!(world.state.awake(&"q".into()), 0, "what workloads give back is of no use to it");
    world.tell(host("r2", "h5", 4));
    assert_eq!(world.run(), ["ns/big"]);
    assert_eq!(world.place_of("ns/big", "main"), "h3:4 h4:4 h5:1");
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn pods_of_others_take_room_until_they_are_gone() {
    let mut world = world(rich("q"));
    world.tell(foreign_pod("kube-system/a", "h1", [(CPU, 1)]));
    world.tell(foreign_pod("kube-system/b", "h3", [(CPU, 1)]));
    world.tell(gang("ns/it", 8));
    world.run();
    assert_eq!(world.verdict("ns/it").unwrap().reason, Reason::TopologyPlacementFailed);
    world.state.delete_pod(&whalezen_core::name::PodKey::new("kube-system", "b"));
    assert_eq!(world.run(), ["ns/it"]);
    assert_eq!(world.place_of("ns/it", "main"), "h3:4 h4:4");
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_pod_that_is_seen_before_its_node_counts_once_the_node_is_there() {
    let mut world = racks(World::new());
    world.tell(foreign_pod("ns/early", "h9", [(CPU, 4)]));
    world.tell(host("r9", "h9", 4));
    world.tell(rich("q"));
    world.tell(local_queue("ns/lq", "q"));
    world.tell(gang("ns/it", 12).preferred("rack"));
    world.run();
    assert_eq!(world.place_of("ns/it", "main"), "h1:4 h2:4 h3:4");
}

#[test]
fn a_node_that_is_lost_takes_nobody_until_it_is_back() {
    let mut world = world(rich("q")).with(gang("ns/a", 8));
    world.run();
    world.state.delete_node(&"h1".into());
    world.finish("ns/a");
    world.tell(gang("ns/b", 8).since(1));
    assert_eq!(world.run(), ["ns/b"]);
    assert_eq!(world.place_of("ns/b", "main"), "h3:4 h4:4");
    world.tell(gang("ns/c", 8).since(2));
    assert!(world.run().is_empty());
    world.tell(host("r1", "h1", 4));
    assert_eq!(world.run(), ["ns/c"]);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn others_stop_for_who_goes_before_them_if_their_hosts_help() {
    for fair in [false, true] {
        let mut world = world(rich("q").preempts(WithinQueue::LowerPriority));
        if fair {
            let strategies = vec![FairStrategy::LessThanOrEqualToFinalShare];
            world.policy = Policy { fair_sharing: Some(strategies), ..Policy::default() };
        }
        for (moment, (name, pods)) in [("ns/a", 4), ("ns/b", 4), ("ns/c", 8)].into_iter().enumerate() {
            world.now = Timestamp(moment as i64);
            world.tell(gang(name, pods));
            world.run();
        }
        assert_eq!(world.holders().len(), 3);
        world.tell(gang("ns/high", 4).priority(1).since(3));
        world.step(&mut ObligingApplier);
        assert_eq!(world.evicted(), ["ns/c"], "who got its place last stops first");
        world.stop();
        assert_eq!(world.run(), ["ns/high"]);
        assert!(!world.place_of("ns/high", "main").is_empty());
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn the_place_of_those_who_stop_is_kept_for_whom_they_stop() {
    let mut world = world(rich("q").preempts(WithinQueue::LowerPriority));
    world.tell(rich("p"));
    world.tell(local_queue("other/lq", "p"));
    world.tell(gang("ns/a", 8));
    world.tell(gang("ns/b", 8).since(1));
    world.run();
    world.tell(gang("ns/high", 8).priority(1).since(2));
    world.step(&mut ObligingApplier);
    assert_eq!(world.evicted().len(), 1);
    let stops = world.evicted().remove(0);
    world.tell(gang("other/thief", 8).priority(9).since(3));
    world.run();
    assert_eq!(world.verdict("other/thief").unwrap().reason, Reason::WaitingForQuota);
    world.requeue(&stops);
    assert_eq!(world.run(), ["ns/high"]);
    assert_eq!(world.verdict("other/thief").unwrap().reason, Reason::WaitingForQuota);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn somebody_whose_place_was_taken_by_a_pod_of_others_is_given_another() {
    let mut world = world(rich("q").preempts(WithinQueue::LowerPriority));
    world.tell(gang("ns/a", 8));
    world.tell(gang("ns/b", 8).since(1));
    world.run();
    world.tell(gang("ns/high", 8).priority(1).since(2));
    world.step(&mut ObligingApplier);
    let stops = world.evicted();
    assert_eq!(stops.len(), 1);
    let freed = world.place_of(&stops[0], "main");
    let host = freed.split(':').next().unwrap();
    world.tell(foreign_pod("kube-system/hostile", host, [(CPU, 1)]));
    world.stop();
    assert!(world.comes_to_rest());
    assert!(world.holders().contains(&"ns/high".to_owned()));
    assert_ne!(world.place_of("ns/high", "main"), freed);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn quota_is_taken_back_for_the_hosts_that_are_under_it() {
    let member =
        |name: &str| queue(name).cohort("all").group([CPU]).flavor("f", [(CPU, 8)]).reclaims(Reclaim::Any);
    let mut world = racks(World::new());
    for name in ["own", "lent"] {
        world.tell(member(name));
        world.tell(local_queue(&format!("{name}/lq"), name));
    }
    world.tell(gang("lent/a", 6));
    world.run();
    world.now = Timestamp(1);
    world.tell(gang("lent/b", 6).since(1));
    world.run();
    assert_eq!(world.holders().len(), 2);
    world.tell(gang("own/it", 4).since(2));
    world.step(&mut ObligingApplier);
    assert_eq!(world.evicted(), ["lent/b"]);
    world.stop();
    world.run();
    assert_eq!(world.place_of("own/it", "main"), "h3:4");
}

#[test]
fn who_does_not_ask_is_placed_where_everything_is_and_refused_where_only_some_is() {
    let plain = |name: &str| workload(name).pods("main", 2, [(CPU, 1)]);
    let mut all = world(rich("q")).with(plain("ns/it"));
    all.run();
    assert_eq!(all.place_of("ns/it", "main"), "h1:2");

    let mixed = queue("q").group([CPU]).flavor("f", [(CPU, 9)]).flavor("plain", [(CPU, 9)]);
    let mut some = world(mixed).with(flavor("plain")).with(plain("ns/it")).with(gang("ns/placed", 2));
    some.run();
    assert_eq!(some.flavor_of("ns/it", "main", CPU), Some("plain"));
    assert_eq!(some.flavor_of("ns/placed", "main", CPU), Some("f"));

    let mut none = World::new().with(flavor("plain")).with(local_queue("ns/lq", "q"));
    none.tell(queue("q").group([CPU]).flavor("plain", [(CPU, 9)]));
    none.tell(gang("ns/it", 1));
    none.run();
    let verdict = none.verdict("ns/it").unwrap();
    assert_eq!(verdict.reason, Reason::NoMatchingFlavor);
    assert!(verdict.message.ends_with("Flavor \"plain\" does not support TopologyAwareScheduling"));
}

#[test]
fn a_leader_gets_the_flavor_of_its_workers_although_it_asks_for_nothing() {
    let mut world = world(rich("q"));
    let it = workload("ns/it").pods("leader", 1, []).required("rack").placed_with("g");
    world.tell(it.pods("workers", 8, [(CPU, 1)]).required("rack").placed_with("g"));
    world.run();
    assert_eq!(world.place_of("ns/it", "leader"), "h1:1");
    assert_eq!(world.place_of("ns/it", "workers"), "h1:4 h2:4");
    assert_eq!(world.used("q", "f", CPU).0, 8000);
}

#[test]
fn a_group_gets_one_flavor_that_has_quota_for_all_of_it() {
    let mut world = world(queue("q").group([CPU]).flavor("f", [(CPU, 4)]).flavor("g", [(CPU, 9)]));
    world.tell(flavor("g").topology("t"));
    let it = workload("ns/it").pods("leader", 1, [(CPU, 2)]).required("rack").placed_with("g");
    world.tell(it.pods("workers", 3, [(CPU, 1)]).required("rack").placed_with("g"));
    world.run();
    for pods in ["leader", "workers"] {
        assert_eq!(world.flavor_of("ns/it", pods, CPU), Some("g"));
    }
}

#[test]
fn a_host_has_no_more_room_because_two_flavors_have_it() {
    let mut world = world(queue("q").group([CPU]).flavor("f", [(CPU, 8)]).flavor("g", [(CPU, 100)]));
    world.tell(flavor("g").topology("t"));
    for (since, name) in ["ns/a", "ns/b", "ns/c"].into_iter().enumerate() {
        world.tell(gang(name, 8).since(i64::try_from(since).unwrap()));
    }
    world.run();
    assert_eq!(world.holders(), ["ns/a", "ns/b"]);
    assert_eq!(world.flavor_of("ns/b", "main", CPU), Some("g"));
    assert_eq!(world.place_of("ns/b", "main"), "h3:4 h4:4");
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_workload_that_makes_do_with_fewer_pods_gets_as_many_as_find_a_place() {
    let mut world = world(rich("q"));
    world.tell(gang("ns/it", 20).at_least(3));
    world.run();
    assert_eq!(world.place_of("ns/it", "main"), "h1:4 h2:4");
}

#[test]
fn a_queue_without_the_topology_of_its_flavor_admits_nobody() {
    let mut world = World::new().with(flavor("f").topology("t")).with(rich("q"));
    world.tell(local_queue("ns/lq", "q"));
    world.tell(gang("ns/it", 1));
    world.run();
    assert_eq!(
        world.verdict("ns/it").unwrap().message,
        "ClusterQueue q is inactive: Can't admit new workloads: \
         there is no Topology \"t\" for TAS flavor \"f\"."
    );
    world = racks(world);
    assert_eq!(world.run(), ["ns/it"]);
}

#[test]
fn what_stops_for_others_still_takes_its_hosts() {
    let mut world = world(rich("q").preempts(WithinQueue::LowerPriority));
    world.policy = Policy { brakes: Brakes::default(), ..Policy::default() };
    world.tell(gang("ns/a", 8));
    world.tell(gang("ns/b", 8).since(1));
    world.run();
    world.tell_to_stop("ns/a", Eviction::Otherwise);
    world.tell(gang("ns/c", 8).since(2));
    assert!(world.run().is_empty(), "it has not stopped yet");
    world.requeue("ns/a");
    assert_eq!(world.run(), ["ns/a"], "it waits for longer");
}

#[test]
fn who_lacks_quota_and_would_find_no_place_with_it_is_told_both() {
    let mut world = world(queue("q").group([CPU]).flavor("f", [(CPU, 10)]));
    world.tell(gang("ns/a", 8));
    world.tell(gang("ns/big", 9).since(1));
    world.run();
    assert_eq!(world.reports(), ["ns/big: TopologyPlacementFailed"]);
    assert_eq!(
        world.verdict("ns/big").unwrap().message,
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 7 more needed; \
         couldn't assign flavors to pod set main: topology \"t\" allows to fit only 8 out of 9 pod(s)"
    );
    let explained = world.state.explain(&key("ns/big")).unwrap();
    assert!(explained.remedy.unwrap().starts_with("nodes that it may be on have to become ready"));
    assert_eq!((explained.quotas[0].missing.as_str(), &explained.quotas[0].remedy), ("7", &None));
}
