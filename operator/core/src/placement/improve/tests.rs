//! A search never makes things worse, and what it proposes can be done.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::placement::{Ask, Cluster, Gang, GpuKind, Models, Node, Part, Shape, TaskMix, WHOLE_GPU, Weights};

const HOUR: u32 = 3_600_000;
const MINUTE: u32 = 60_000;

fn budget(units: u64, seed: u64) -> Budget {
    Budget { units, seed, horizon: HOUR }
}

fn run(snapshot: &Snapshot, units: u64) -> Improvement {
    improve(snapshot, &TaskMix::default(), Weights::default(), &budget(units, 7)).unwrap()
}

/// Racks of nodes of eight GPUs.
fn nodes(racks: usize, each: usize) -> Vec<Node> {
    let node = |at: usize| {
        let model = if at % 3 == 2 { "V100" } else { "A100" };
        let kind = GpuKind { model: model.into(), memory: 40_960 };
        let rack = format!("rack-{}", at / each);
        Node::idle(&format!("n{at}"), kind, 8, 64_000, 65_536).within([rack.as_str()])
    };
    (0..racks * each).map(node).collect()
}

fn job(id: u64, priority: i32, count: u32, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        priority,
        weight: u32::try_from(priority.max(1)).unwrap(),
        shape: Shape::new(1000, 1024, Ask::Whole { count: gpus, memory: 0 }),
        count,
        min_count: count,
        widest: 0,
        apart: None,
    }
}

/// Lets jobs run where the decision path would place them, as far as they fit; the others wait.
fn snapshot(nodes: Vec<Node>, jobs: Vec<(Job, Option<Leave>)>) -> Snapshot {
    let mut cluster = Cluster::new(nodes, &TaskMix::default(), Weights::default()).unwrap();
    let mut snapshot = Snapshot::default();
    for (job, leave) in jobs {
        let shape = cluster.shape(&job.shape).unwrap();
        let gang = Gang { shape, count: job.count, min_count: job.count, widest: job.widest };
        let place = leave.and_then(|_| cluster.choose_gang(&gang));
        let alone = job.apart.is_none();
        match (leave, place) {
            (Some(leave), Some(place)) if alone => {
                let choices = cluster.place_gang(shape, &place).unwrap();
                let on = choices
                    .iter()
                    .map(|choice| Place {
                        node: cluster.node(choice.node).unwrap().name.clone(),
                        devices: choice.devices,
                    })
                    .collect();
                let resident = Resident { job, on, leave, since_checkpoint: 5 * MINUTE, restore: MINUTE };
                snapshot.residents.push(resident);
            }
            _ => snapshot.blocked.push(Blocked { job }),
        }
    }
    snapshot.nodes = cluster.nodes().map(|(_, node)| node.clone()).collect();
    snapshot
}

fn place(node: &str, bits: u64) -> Place {
    Place { node: node.into(), devices: crate::placement::Devices::Whole(bits) }
}

/// Two nodes, on each of which half is taken by a job that may leave like this; a gang of one node waits.
fn two_halves(leave: Leave, wants: Job) -> Snapshot {
    let mut nodes = nodes(1, 2);
    let mut residents = Vec::new();
    for (node, id) in nodes.iter_mut().zip(1..) {
        node.cpu.free -= 1000;
        node.memory.free -= 1024;
        for gpu in &mut node.gpus[..4] {
            gpu.free = 0;
        }
        let on = vec![place(node.name.as_str(), 0b1111)];
        let job = job(id, 1, 1, 4);
        residents.push(Resident { job, on, leave, since_checkpoint: MINUTE, restore: MINUTE });
    }
    Snapshot { nodes, residents, blocked: vec![Blocked { job: wants }] }
}

#[test]
fn one_moves_so_that_a_gang_fits_where_together_there_was_room() {
    let snapshot = two_halves(Leave::Move, job(9, 1, 1, 8));
    let improvement = run(&snapshot, 10_000);
    let [proposal] = improvement.proposals.as_slice() else { panic!("{improvement:?}") };
    assert!(
        matches!(proposal.changes.as_slice(), [Change::Move { .. }, Change::Start { .. }]),
        "{proposal:?}"
    );
    assert_eq!(proposal.verify(&snapshot), Ok(()));
    let work = i128::from(WHOLE_GPU) * (8 * i128::from(HOUR) - 4 * i128::from(2 * MINUTE));
    assert_eq!(improvement.after.gain - improvement.before.gain, work);
}

#[test]
fn nobody_moves_who_may_not_and_nothing_is_proposed_then() {
    let improvement = run(&two_halves(Leave::Never, job(9, 5, 1, 8)), 10_000);
    assert!(improvement.proposals.is_empty(), "{improvement:?}");
    assert_eq!(improvement.after, improvement.before);
}

#[test]
fn nobody_is_stopped_for_one_of_no_higher_priority() {
    let full = |priority| {
        let mut snapshot = two_halves(Leave::Stop, job(9, priority, 2, 8));
        snapshot.blocked[0].job.weight = 1000;
        snapshot
    };
    assert!(run(&full(1), 10_000).proposals.is_empty());
    let higher = full(2);
    let improvement = run(&higher, 10_000);
    let [proposal] = improvement.proposals.as_slice() else { panic!("{improvement:?}") };
    let [Change::Stop { .. }, Change::Stop { .. }, Change::Start { .. }] = proposal.changes.as_slice() else {
        panic!("{proposal:?}")
    };
    assert_eq!(proposal.verify(&higher), Ok(()));
    assert_eq!(proposal.verify(&full(1)), Err(Refusal::Leave(JobId(1))), "its priority is another by now");
}

#[test]
fn a_move_that_costs_more_than_the_gang_is_worth_is_not_made() {
    let mut snapshot = two_halves(Leave::Move, job(9, 1, 1, 8));
    for resident in &mut snapshot.residents {
        resident.since_checkpoint = 3 * HOUR;
    }
    assert!(run(&snapshot, 10_000).proposals.is_empty());
}

#[test]
fn the_cheaper_of_two_moves() {
    let mut snapshot = two_halves(Leave::Move, job(9, 1, 1, 8));
    snapshot.residents[0].since_checkpoint = 20 * MINUTE;
    let improvement = run(&snapshot, 10_000);
    let moved = improvement.proposals[0].changes.iter().find_map(|change| match change {
        Change::Move { job, .. } => Some(*job),
        _ => None,
    });
    assert_eq!(moved, Some(JobId(2)));
}

#[test]
fn a_proposal_that_things_have_overtaken_is_refused() {
    let snapshot = two_halves(Leave::Move, job(9, 1, 1, 8));
    let proposal = run(&snapshot, 10_000).proposals.remove(0);
    let Change::Move { job: moved, to, .. } = &proposal.changes[0] else { panic!("{proposal:?}") };

    let mut gone = snapshot.clone();
    gone.residents.retain(|resident| resident.job.id != *moved);
    assert_eq!(proposal.verify(&gone), Err(Refusal::Job(*moved)));

    let mut started = snapshot.clone();
    started.blocked.clear();
    assert_eq!(proposal.verify(&started), Err(Refusal::Job(JobId(9))));

    let mut taken = snapshot.clone();
    let node = taken.nodes.iter_mut().find(|node| node.name == to[0].node).unwrap();
    for gpu in &mut node.gpus {
        gpu.free = 0;
    }
    assert_eq!(proposal.verify(&taken), Err(Refusal::Room(*moved, to[0].node.clone())));

    let mut lost = snapshot.clone();
    lost.nodes.retain(|node| node.name != to[0].node);
    assert_eq!(proposal.verify(&lost), Err(Refusal::Node(to[0].node.clone())));

    let mut pinned = snapshot;
    for resident in &mut pinned.residents {
        resident.leave = Leave::Never;
    }
    assert_eq!(proposal.verify(&pinned), Err(Refusal::Leave(*moved)));
}

#[test]
fn what_is_not_as_it_says_is_refused_whole() {
    let fine = two_halves(Leave::Move, job(9, 1, 1, 8));
    let refused = |snapshot: &Snapshot| {
        improve(snapshot, &TaskMix::default(), Weights::default(), &budget(1, 0)).unwrap_err()
    };
    let mut twice = fine.clone();
    twice.blocked[0].job.id = JobId(1);
    assert_eq!(refused(&twice), SnapshotError::TwoJobs(JobId(1)));
    let mut two = fine.clone();
    two.residents[1].on = two.residents[0].on.clone();
    assert_eq!(refused(&two), SnapshotError::NotThere(JobId(2), "n0".into()), "two hold the same GPUs");
    let mut nowhere = fine.clone();
    nowhere.residents[0].on[0].node = "elsewhere".into();
    assert_eq!(refused(&nowhere), SnapshotError::NotThere(JobId(1), "elsewhere".into()));
    let mut wide = fine.clone();
    wide.blocked[0].job.widest = 2;
    assert_eq!(refused(&wide), SnapshotError::Job(JobId(9), 1, 1, 1, 2));
    let mut nothing = fine.clone();
    nothing.blocked[0].job.min_count = 0;
    assert!(matches!(refused(&nothing), SnapshotError::Job(..)));
    let mut again = fine;
    again.nodes.push(again.nodes[0].clone());
    assert_eq!(refused(&again), SnapshotError::TwoNodes("n0".into()));
    assert!(run(&Snapshot::default(), 100).proposals.is_empty());
}

prop_compose! {
    fn any_job()(
        gpus in prop_oneof![Just(0), Just(1_u32), Just(2), Just(4), Just(8)],
        count in 1_u32..5,
        fewer in prop::bool::weighted(0.2),
        priority in 1_i32..4,
        widest in 0_usize..=1,
        apart in prop::bool::weighted(0.25),
        a100 in prop::bool::weighted(0.3),
    ) -> Job {
        // None is half of one.
        let ask = if gpus == 0 { Ask::Part(Part::Milli(500)) } else { Ask::Whole { count: gpus, memory: 0 } };
        let models = if a100 { Models::any_of(["A100"]) } else { Models::default() };
        Job {
            shape: Shape::new(1000, 1024, ask).on(models),
            min_count: if fewer { 1 } else { count },
            widest,
            apart: apart.then(|| "apart".into()),
            ..job(0, priority, count, 1)
        }
    }
}

prop_compose! {
    fn any_snapshot()(
        racks in 1_usize..4,
        each in 1_usize..4,
        jobs in prop::collection::vec((any_job(), prop::option::weighted(0.6, prop_oneof![Just(Leave::Never), Just(Leave::Move), Just(Leave::Stop)])), 0..16),
    ) -> Snapshot {
        let numbered = jobs.into_iter().zip(0..).map(|((job, leave), id)| (Job { id: JobId(id), ..job }, leave));
        snapshot(nodes(racks, each), numbered.collect())
    }
}

/// Carries proposals out on paper: where everybody is then.
fn carried_out(snapshot: &Snapshot, proposals: &[Proposal]) -> BTreeMap<JobId, Vec<Place>> {
    let mut at: BTreeMap<JobId, Vec<Place>> =
        snapshot.residents.iter().map(|resident| (resident.job.id, resident.on.clone())).collect();
    for change in proposals.iter().flat_map(|proposal| &proposal.changes) {
        match change {
            Change::Start { job, on } => assert_eq!(at.insert(*job, on.clone()), None),
            Change::Move { job, from, to } => assert_eq!(at.insert(*job, to.clone()).as_ref(), Some(from)),
            Change::Stop { job, from } => assert_eq!(at.remove(job).as_ref(), Some(from)),
        }
    }
    at
}

proptest! {
    #[test]
    fn it_is_never_worse_than_it_was_and_more_budget_never_makes_it_worse(snapshot in any_snapshot(), units in 0_u64..400, more in 0_u64..400) {
        let little = run(&snapshot, units);
        prop_assert!(little.after >= little.before);
        let much = run(&snapshot, units + more);
        prop_assert_eq!(much.before, little.before);
        prop_assert!(much.after >= little.after, "{:?} and then {:?}", little.after, much.after);
        prop_assert_eq!(run(&snapshot, units), little);
    }

    #[test]
    fn what_is_proposed_can_be_done_part_by_part_in_any_order(snapshot in any_snapshot()) {
        let improvement = run(&snapshot, 600);
        for proposal in &improvement.proposals {
            prop_assert_eq!(proposal.verify(&snapshot), Ok(()), "{:?}", proposal);
        }
    }

    #[test]
    fn no_gpu_has_two_holders_and_everybody_has_what_was_asked_for(snapshot in any_snapshot()) {
        let improvement = run(&snapshot, 600);
        let at = carried_out(&snapshot, &improvement.proposals);
        let nodes: BTreeMap<_, _> = snapshot.nodes.iter().map(|node| (&node.name, node)).collect();
        let mut held: BTreeMap<(&str, u32), u32> = BTreeMap::new();
        let mut labelled = BTreeSet::new();
        for (job, resident) in snapshot.jobs() {
            let Some(on) = at.get(&job.id) else {
                prop_assert!(resident.is_none_or(|resident| resident.leave == Leave::Stop));
                continue;
            };
            let tasks = u32::try_from(on.len()).unwrap();
            prop_assert!((job.min_count..=job.count).contains(&tasks));
            prop_assert!(resident.is_none_or(|resident| resident.on.len() == on.len()));
            prop_assert!(resident.is_none_or(|resident| resident.leave != Leave::Never || resident.on == *on));
            let racks: BTreeSet<_> = on.iter().map(|place| &nodes[&place.node].domains).collect();
            prop_assert!(job.widest == 0 || racks.len() == 1);
            for place in on {
                let node = nodes[&place.node];
                prop_assert!(job.shape.models.allows(&node.kind.model));
                let indices: Vec<u32> = place.devices.indices().collect();
                prop_assert_eq!(u32::try_from(indices.len()).unwrap(), job.shape.count());
                for index in indices {
                    let milli = if matches!(job.shape.gpus, Ask::Part(_)) { 500 } else { WHOLE_GPU };
                    *held.entry((place.node.as_str(), index)).or_default() += milli;
                }
                if let Some(label) = &job.apart {
                    prop_assert!(labelled.insert((place.node.clone(), label.clone())));
                }
            }
        }
        prop_assert!(held.values().all(|milli| *milli <= WHOLE_GPU), "{:?}", held);
    }
}
