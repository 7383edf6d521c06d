//! Placements hold what they promise, whatever is placed and removed: caches against what would be computed anew, exact
//! fragments against their definition, names against their permutations, gangs against counting by hand.

use proptest::prelude::*;
use whalezen_core::placement::{
    Ask, Choice, Class, Cluster, Devices, Feature, Gang, Gpu, GpuKind, Link, MIX_WEIGHT, Models, Node, Part,
    PlacementError, Profile, Shape, Slots, TaskMix, Weights, fragment_for,
};

fn kind(index: usize) -> GpuKind {
    let (model, memory) = [("T4", 16_384), ("A100", 40_960), ("A100", 81_920)][index % 3];
    GpuKind { model: model.into(), memory }
}

/// Two racks in each of two blocks.
fn node(index: usize, kind_of: usize, gpus: usize, mig: bool) -> Node {
    let mut node = Node::idle(&format!("n{index}"), kind(kind_of), gpus, 32_000, 65_536)
        .within([["a", "b"][index % 2], ["x", "y"][index / 2 % 2]]);
    for (at, gpu) in node.gpus.iter_mut().enumerate() {
        gpu.island = u8::try_from(at / 2).unwrap();
        gpu.numa = u8::try_from(at / 4).unwrap();
        gpu.slots = (mig && at == 0).then_some(Slots::ALL);
    }
    node
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    prop::collection::vec((0_usize..3, 0_usize..9, prop::bool::weighted(0.2)), 1..9).prop_map(|nodes| {
        nodes.into_iter().enumerate().map(|(index, (kind, gpus, mig))| node(index, kind, gpus, mig)).collect()
    })
}

fn shape() -> impl Strategy<Value = Shape> {
    let ask = prop_oneof![
        1 => Just(Ask::Nothing),
        4 => (1_u32..=20).prop_map(|part| Ask::Part(Part::Milli(part * 50))),
        1 => (1_u32..60_000).prop_map(|memory| Ask::Part(Part::Memory(memory))),
        4 => (1_u32..=8).prop_map(|count| Ask::Whole { count, memory: 0 }),
        1 => (1_u32..=2).prop_map(|count| Ask::Whole { count, memory: 50_000 }),
        1 => Just(Ask::Instance(Profile { size: 2, starts: 0b10101 })),
    ];
    let models = prop_oneof![3 => Just(Models::default()), 1 => Just(Models::with_speeds([("A100", 1000), ("T4", 300)])), 1 => Just(Models::any_of(["T4"]))];
    let link = prop_oneof![4 => Just(Link::Any), 1 => Just(Link::Preferred), 1 => Just(Link::Required)];
    (0_u32..12, 0_u32..16, ask, models, link).prop_map(|(cpu, memory, gpus, models, link)| {
        Shape::new(cpu * 1000, memory * 1024, gpus).on(models).linked(link)
    })
}

/// Every term counts.
fn weights() -> Weights {
    let mut weights = Weights::none("all", 1);
    for class in Class::ALL {
        for (at, feature) in (1_u32..).zip(Feature::ALL) {
            let sign = if at % 3 == 0 { -1.0 } else { 1.0 };
            weights.set(class, feature, sign / f64::from(at)).unwrap();
        }
    }
    weights
}

/// Places the shapes in turn; every third time something that was placed before is removed first.
fn play(
    cluster: &mut Cluster,
    shapes: &[Shape],
    turns: &[usize],
    mut seen: impl FnMut(&mut Cluster, &Shape, Option<Choice>),
) {
    let mut placed: Vec<(Shape, Choice)> = Vec::new();
    for (turn, pick) in turns.iter().enumerate() {
        if turn % 3 == 2 && !placed.is_empty() {
            let (shape, choice) = placed.swap_remove(pick % placed.len());
            let id = cluster.shape(&shape).unwrap();
            cluster.remove(id, &choice).unwrap();
        }
        let shape = &shapes[pick % shapes.len()];
        let id = cluster.shape(shape).unwrap();
        let choice = cluster.choose(id);
        seen(cluster, shape, choice);
        if let Some(choice) = choice {
            cluster.place(id, &choice).unwrap();
            placed.push((shape.clone(), choice));
        }
    }
}

fn snapshot(cluster: &Cluster) -> Vec<Node> {
    cluster.nodes().map(|(_, node)| node.clone()).collect()
}

/// The state of all nodes without their names, in an order that does not depend on these.
fn nameless(cluster: &Cluster) -> Vec<String> {
    let mut states: Vec<_> = cluster
        .nodes()
        .map(|(_, node)| {
            let mut gpus = node.gpus.clone();
            gpus.sort_by_key(|gpu| (gpu.island, gpu.free, gpu.slots));
            format!("{:?}", Node { name: "".into(), domains: Vec::new(), gpus, ..node.clone() })
        })
        .collect();
    states.sort();
    states
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 2, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_is_what_would_be_computed_anew(
        nodes in nodes(),
        shapes in prop::collection::vec(shape(), 1..6),
        turns in prop::collection::vec(0_usize..1000, 1..30),
    ) {
        let mix = TaskMix::of(shapes.iter().cloned(), 100);
        let mut cluster = Cluster::new(nodes, &mix, weights()).unwrap();
        play(&mut cluster, &shapes, &turns, |cluster, shape, choice| {
            let mut anew = Cluster::new(snapshot(cluster), &mix, weights()).unwrap();
            let id = anew.shape(shape).unwrap();
            assert_eq!(anew.choose(id), choice);
            let gang = |shape| Gang { shape, count: 3, min_count: 1, widest: 0 };
            let own = cluster.shape(shape).unwrap();
            assert_eq!(anew.fit(&gang(id)), cluster.fit(&gang(own)));
            assert_eq!(anew.choose_gang(&gang(id)), cluster.choose_gang(&gang(own)));
        });
    }

    #[test]
    fn the_expected_fragment_is_that_of_its_definition(
        nodes in nodes(),
        shapes in prop::collection::vec(shape(), 1..8),
        turns in prop::collection::vec(0_usize..1000, 1..20),
    ) {
        let mix = TaskMix::of(shapes.iter().cloned(), 100);
        let mut cluster = Cluster::new(nodes, &mix, Weights::default()).unwrap();
        play(&mut cluster, &shapes, &turns, |cluster, _, _| {
            let of = |node: &Node| mix.shapes().map(|(shape, popularity)| i64::from(fragment_for(node, shape)) * popularity).sum::<i64>();
            let defined: i64 = cluster.nodes().map(|(_, node)| of(node)).sum();
            assert_eq!(cluster.fragment(), defined / MIX_WEIGHT);
        });
    }

    #[test]
    fn the_choice_grows_the_expected_fragment_least_where_nothing_else_counts(
        nodes in nodes(),
        shapes in prop::collection::vec(shape(), 1..6),
        turns in prop::collection::vec(0_usize..1000, 1..20),
    ) {
        let mix = TaskMix::of(shapes.iter().cloned(), 100);
        let mut only = Weights::none("fragment", 1);
        for class in Class::ALL {
            only.set(class, Feature::Fragment, 1.0).unwrap();
        }
        let fragment = |node: &Node| mix.shapes().map(|(shape, popularity)| i64::from(fragment_for(node, shape)) * popularity).sum::<i64>();
        let mut cluster = Cluster::new(nodes, &mix, only).unwrap();
        play(&mut cluster, &shapes, &turns, |cluster, shape, choice| {
            // Whole GPUs are chosen by how they are joined, and instances by where they begin, before fragments are counted.
            let Ask::Part(_) = shape.gpus else { return };
            let growth = |cluster: &mut Cluster, choice: &Choice| {
                let id = cluster.shape(shape).unwrap();
                let before = fragment(cluster.node(choice.node).unwrap());
                cluster.place(id, choice).ok()?;
                let after = fragment(cluster.node(choice.node).unwrap());
                cluster.remove(id, choice).unwrap();
                Some(after - before)
            };
            let all: Vec<_> = cluster.nodes().map(|(id, node)| (id, node.gpus.len())).collect();
            let ways = all.into_iter().flat_map(|(node, gpus)| {
                (0..u32::try_from(gpus).unwrap()).map(move |gpu| Choice { node, devices: Devices::Part(gpu) })
            });
            let least = ways.filter_map(|choice| growth(cluster, &choice)).min();
            let chosen = choice.and_then(|choice| growth(cluster, &choice));
            assert_eq!(chosen, least);
        });
    }

    #[test]
    fn which_nodes_are_filled_does_not_depend_on_their_names_or_order(
        nodes in nodes(),
        shapes in prop::collection::vec(shape(), 1..6),
        turns in prop::collection::vec(0_usize..1000, 1..30),
        shift in 1_usize..8,
    ) {
        // All in one domain: which domain a node is in is no name.
        let nodes: Vec<_> = nodes.into_iter().map(|node| node.within([])).collect();
        let mut others = nodes.clone();
        others.reverse();
        let len = others.len();
        others.rotate_left(shift % len);
        for (index, node) in others.iter_mut().enumerate() {
            node.name = format!("renamed-{}", (index * 7) % 11).into();
        }
        let mix = TaskMix::of(shapes.iter().cloned(), 100);
        let filled = |nodes: Vec<Node>| {
            let mut cluster = Cluster::new(nodes, &mix, Weights::default()).unwrap();
            for turn in &turns {
                let id = cluster.shape(&shapes[turn % shapes.len()]).unwrap();
                if let Some(choice) = cluster.choose(id) {
                    cluster.place(id, &choice).unwrap();
                }
            }
            nameless(&cluster)
        };
        prop_assert_eq!(filled(nodes), filled(others));
    }

    #[test]
    fn a_gang_is_placed_whole_on_the_lowest_level_that_has_room_or_not_at_all(
        nodes in nodes(),
        shape in shape(),
        before in prop::collection::vec(shape(), 0..12),
        count in 1_u32..20,
        few in 0_u32..20,
        widest in 0_usize..4,
    ) {
        let mix = TaskMix::of([shape.clone()], 100);
        let mut cluster = Cluster::new(nodes, &mix, Weights::default()).unwrap();
        for shape in &before {
            let id = cluster.shape(shape).unwrap();
            if let Some(choice) = cluster.choose(id) {
                cluster.place(id, &choice).unwrap();
            }
        }
        let untouched = snapshot(&cluster);
        let id = cluster.shape(&shape).unwrap();
        // How many fit on each node, by placing them.
        let room: Vec<u32> = untouched.iter().map(|node| {
            let mut alone = Cluster::new(vec![node.clone()], &mix, Weights::default()).unwrap();
            let id = alone.shape(&shape).unwrap();
            let mut room = 0;
            while let Some(choice) = alone.choose(id).filter(|_| room < 1024) {
                alone.place(id, &choice).unwrap();
                room += 1;
            }
            room
        }).collect();
        let most = |level: usize| {
            let key = |node: &Node| if level > 2 { node.name.to_string() } else { node.domains[..level].join("/") };
            let sum = |of: &str| untouched.iter().zip(&room).filter(|(node, _)| key(node) == of).map(|(_, room)| *room).sum::<u32>();
            untouched.iter().map(|node| sum(&key(node))).max().unwrap_or_default()
        };
        let lowest = |count: u32| (widest..=3).rev().find(|level| most(*level) >= count).map(|level| (level, count));
        let min_count = few.min(count);
        let fewer = most(widest).min(count);
        let want = lowest(count).or_else(|| if fewer > 0 && fewer >= min_count { lowest(fewer) } else { None });
        let gang = Gang { shape: id, count, min_count, widest };
        let fit = cluster.fit(&gang);
        prop_assert_eq!(fit.map(|fit| (fit.level, fit.count)), want);
        match (cluster.choose_gang(&gang), fit) {
            (None, None) => {}
            (Some(placement), Some(fit)) => {
                prop_assert_eq!(placement.level, fit.level);
                prop_assert_eq!(placement.spots.iter().map(|spot| spot.count).sum::<u32>(), fit.count);
                let paths: Vec<_> = placement.spots.iter().map(|spot| {
                    let node = cluster.node(spot.node).unwrap();
                    if fit.level > 2 { vec![node.name.to_string()] } else { node.domains[..fit.level].iter().map(ToString::to_string).collect() }
                }).collect();
                prop_assert!(paths.iter().all(|path| *path == paths[0]), "{:?}", paths);
                let placed = cluster.place_gang(id, &placement).unwrap();
                prop_assert_eq!(placed.len(), fit.count as usize);
                // Again it may not fit, but never in part.
                let full = snapshot(&cluster);
                if cluster.place_gang(id, &placement).is_err() {
                    prop_assert_eq!(snapshot(&cluster), full);
                    for choice in &placed {
                        cluster.remove(id, choice).unwrap();
                    }
                    prop_assert_eq!(snapshot(&cluster), untouched);
                }
            }
            (placement, fit) => prop_assert!(false, "{:?} {:?}", placement, fit),
        }
    }
}

#[test]
fn what_is_dear_is_left_to_those_who_insist_on_it() {
    let insists = Shape::new(1000, 0, Ask::Whole { count: 1, memory: 0 }).on(Models::any_of(["A100"]));
    let any = Shape::new(1000, 0, Ask::Whole { count: 1, memory: 0 });
    let mix = TaskMix::of([insists, any.clone()], 100);
    let nodes = vec![node(0, 1, 4, false), node(1, 0, 4, false)];
    let mut cluster = Cluster::new(nodes, &mix, Weights::default()).unwrap();
    assert_eq!(
        (cluster.price("A100"), cluster.price("T4"), cluster.price("V100")),
        (Some(1000), Some(0), None)
    );
    let id = cluster.shape(&any).unwrap();
    let on = |cluster: &mut Cluster| {
        let choice = cluster.choose(id).unwrap();
        cluster.node(choice.node).unwrap().kind.model.to_string()
    };
    assert_eq!(on(&mut cluster), "T4");
    cluster.set_price("T4", 50_000);
    assert_eq!(on(&mut cluster), "A100", "a planner's price goes before that of the mix");
}

#[test]
fn a_task_goes_where_it_is_fast_and_its_gpus_are_joined() {
    let fast = Shape::new(0, 0, Ask::Whole { count: 2, memory: 0 })
        .on(Models::with_speeds([("A100", 1000), ("T4", 100)]));
    let mut nodes = vec![node(0, 0, 2, false), node(1, 1, 4, false)];
    let mut cluster = Cluster::new(nodes.clone(), &TaskMix::default(), Weights::default()).unwrap();
    let id = cluster.shape(&fast).unwrap();
    assert_eq!(
        cluster.choose(id).map(|choice| cluster.node(choice.node).unwrap().kind.model.to_string()).as_deref(),
        Some("A100")
    );
    nodes[0] = node(0, 1, 2, false);
    nodes[0].gpus[1] = Gpu { island: 1, numa: 1, root: 1, ..Gpu::IDLE };
    let mut cluster = Cluster::new(nodes, &TaskMix::default(), Weights::default()).unwrap();
    let id = cluster.shape(&fast.linked(Link::Required)).unwrap();
    assert_eq!(cluster.choose(id).map(|choice| cluster.node(choice.node).unwrap().gpus.len()), Some(4));
}

#[test]
fn nodes_that_cannot_be_are_refused_and_so_is_what_was_decided_on_another_state() {
    let refused = |node: Node| Cluster::new(vec![node], &TaskMix::default(), Weights::default()).err();
    let named = |error: Option<PlacementError>| error.map(|error| error.to_string()).unwrap_or_default();
    assert!(named(refused(node(0, 0, 65, false))).contains("n0"));
    let mut odd = node(0, 0, 1, false);
    odd.cpu.free = odd.cpu.all + 1;
    assert!(refused(odd).is_some());
    let mut odd = node(0, 0, 1, true);
    odd.gpus[0].free = 1;
    assert!(refused(odd).is_some(), "its slots say otherwise");
    let deeper = vec![node(0, 0, 1, false), node(1, 0, 1, false).within(["a"])];
    assert!(matches!(
        Cluster::new(deeper, &TaskMix::default(), Weights::default()).err(),
        Some(PlacementError::Depth(_, 1, 2))
    ));

    let mut cluster =
        Cluster::new(vec![node(0, 0, 1, false)], &TaskMix::default(), Weights::default()).unwrap();
    let id = cluster.shape(&Shape::new(0, 0, Ask::Whole { count: 1, memory: 0 })).unwrap();
    let choice = cluster.choose(id).unwrap();
    assert!(cluster.remove(id, &choice).is_err());
    cluster.place(id, &choice).unwrap();
    assert_eq!(cluster.place(id, &choice), Err(PlacementError::Changed("n0".to_owned())));
    assert_eq!(cluster.choose(id), None);
    assert!(cluster.shape(&Shape::new(0, 0, Ask::Whole { count: 0, memory: 0 })).is_err());
    let mut empty = Cluster::new(Vec::new(), &TaskMix::default(), Weights::default()).unwrap();
    let id = empty.shape(&Shape::new(0, 0, Ask::Nothing)).unwrap();
    assert_eq!(empty.choose(id), None);
    assert_eq!(empty.choose_gang(&Gang { shape: id, count: 1, min_count: 0, widest: 0 }), None);
}
