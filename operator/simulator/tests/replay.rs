//! Random states, kept and played again by the program.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use whalezen_core::queue::{Reclaim, WithinQueue};
use whalezen_core::state::Snapshot;
use whalezen_core::testing::{ObligingApplier, World, flavor, local_queue, queue, workload};
use whalezen_simulator::replay::{read, replay, write};

const GPU: &str = "nvidia.com/gpu";

/// Two queues in a cohort, of which the second takes back what it lent; workloads that arrive between plans.
fn world(arrivals: &[(bool, i32, u32, i64, bool)]) -> World {
    let of_cohort =
        |name: &str| queue(name).cohort("all").group([GPU]).flavor("a", [(GPU, 8)]).flavor("b", [(GPU, 4)]);
    let mut world = World::new()
        .with(flavor("a"))
        .with(flavor("b"))
        .with(of_cohort("q0").preempts(WithinQueue::LowerPriority))
        .with(of_cohort("q1").reclaims(Reclaim::Any))
        .with(local_queue("n/q0", "q0"))
        .with(local_queue("n/q1", "q1"));
    for (index, &(second, priority, count, gpus, plans)) in arrivals.iter().enumerate() {
        world.now.0 += 1000;
        let queue = if second { "q1" } else { "q0" };
        let arrived = workload(&format!("n/w{index}")).queue(queue).priority(priority).since(world.now.0);
        world.tell(arrived.pods("main", count, [(GPU, gpus)]));
        if plans {
            world.step(&mut ObligingApplier);
        }
    }
    world
}

fn arrivals() -> impl Strategy<Value = Vec<(bool, i32, u32, i64, bool)>> {
    vec((any::<bool>(), 0..3_i32, 1..4_u32, 1..5_i64, any::<bool>()), 0..12)
}

fn kept(arrivals: &[(bool, i32, u32, i64, bool)]) -> (Snapshot, String) {
    let mut world = world(arrivals);
    let planned = serde_json::to_string_pretty(&world.plan()).unwrap() + "\n";
    (Snapshot::of(&world.state, world.now, &world.policy), planned)
}

proptest! {
    #[test]
    fn a_snapshot_gives_the_plan_byte_for_byte(arrivals in arrivals()) {
        let (snapshot, planned) = kept(&arrivals);
        let text = write(&snapshot).unwrap();
        let again = read(&text).unwrap();
        prop_assert_eq!(replay(&again).unwrap(), planned);
        prop_assert_eq!(write(&again).unwrap(), text);
    }
}

#[test]
fn the_program_prints_the_plan_and_checks_it() {
    let (snapshot, planned) = kept(&[(false, 0, 3, 4, true), (true, 1, 2, 4, false), (true, 0, 3, 4, false)]);
    assert!(planned.contains("n/w1"), "something is decided:\n{planned}");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (file, plan) = (folder.join("snapshot.json"), folder.join("plan.json"));
    fs::write(&file, write(&snapshot).unwrap()).unwrap();
    fs::write(&plan, &planned).unwrap();
    let sim = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_whalezen-sim")).args(arguments).output().unwrap()
    };

    let printed = sim(&["replay", file.to_str().unwrap()]);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), planned);

    assert!(sim(&["replay", file.to_str().unwrap(), "--check", plan.to_str().unwrap()]).status.success());
    fs::write(&plan, planned.replace("n/w1", "n/w9")).unwrap();
    let checked = sim(&["replay", file.to_str().unwrap(), "--check", plan.to_str().unwrap()]);
    let problem = String::from_utf8(checked.stderr).unwrap();
    assert!(!checked.status.success() && problem.contains("n/w9"), "{problem}");
}
