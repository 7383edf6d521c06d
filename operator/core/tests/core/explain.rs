//! Why a workload waits, with numbers.

use serde_json::json;
use whalezen_core::testing::{World, flavor, key, local_queue, queue, workload};

use crate::GPU;

/// Two queues of 8 GPUs in a cohort: `b` holds 12 of them, 4 borrowed, and `a` has room for 4.
fn world() -> World {
    let shared = |name: &str| queue(name).cohort("team").group([GPU]).flavor("f", [(GPU, 8)]);
    World::new()
        .with(flavor("f"))
        .with(local_queue("ns/lq", "a"))
        .with(local_queue("other/lq", "b"))
        .with(shared("a"))
        .with(shared("b"))
        .with(workload("other/large").since(0).pods("main", 12, [(GPU, 1)]))
}

#[test]
fn who_waits_is_told_how_much_is_missing_and_who_holds_it() {
    let mut world = world();
    world.run();
    world.tell(workload("ns/first").since(1).pods("main", 2, [(GPU, 3)]));
    world.tell(workload("ns/it").since(2).pods("main", 2, [(GPU, 3)]));
    world.run();
    let it = serde_json::to_value(world.state.explain(&key("ns/it")).unwrap()).unwrap();
    assert_eq!(
        (&it["standing"], &it["clusterQueue"], &it["ahead"]),
        (&json!("Waiting"), &json!("a"), &json!(1))
    );
    assert_eq!(it["verdict"]["reason"], "WaitingForQuota");
    let want = json!([{
        "flavor": "f",
        "resource": GPU,
        "requested": "6",
        "available": "4",
        "capacity": "16",
        "missing": "2",
        "remedy": "2 has to be given back by those who hold it or for whom it is kept",
        "holders": [{"clusterQueue": "b", "holds": "12", "borrows": "4"}],
        "kept": [],
    }]);
    assert_eq!(it["quotas"], want);
}

#[test]
fn who_asks_for_too_much_is_told_so_and_who_runs_waits_for_nothing() {
    let mut world = world().with(workload("ns/huge").since(1).pods("main", 20, [(GPU, 1)]));
    world.run();
    let huge = world.state.explain(&key("ns/huge")).unwrap();
    let remedy = huge.quotas[0].remedy.clone().unwrap();
    assert_eq!(remedy, "a could never have this much: it needs 4 more quota, its own or borrowed");
    let large = world.state.explain(&key("other/large")).unwrap();
    assert_eq!((large.standing, large.verdict, large.quotas), ("HoldsQuota", None, vec![]));
    assert!(world.state.explain(&key("ns/nobody")).is_none());
}

#[test]
fn what_is_kept_for_a_preemptor_is_not_available_to_others_and_is_to_itself() {
    use whalezen_core::queue::Reclaim;
    let mut world = world();
    world.run();
    world.tell(queue("a").cohort("team").group([GPU]).flavor("f", [(GPU, 8)]).reclaims(Reclaim::Any));
    world.tell(workload("ns/urgent").since(1).priority(5).pods("main", 1, [(GPU, 6)]));
    world.tell(workload("other/it").since(2).pods("main", 1, [(GPU, 12)]));
    assert_eq!(world.step(&mut whalezen_core::testing::ObligingApplier).evict.len(), 1);
    world.stop();
    world.state.settle();
    let quotas = |name: &str| serde_json::to_value(world.state.explain(&key(name)).unwrap().quotas).unwrap();
    let other = quotas("other/it");
    assert_eq!(other[0]["kept"], json!([{"clusterQueue": "a", "amount": "6"}]));
    assert_eq!(other[0]["available"], "10");
    let urgent = quotas("ns/urgent");
    assert_eq!((&urgent[0]["kept"], &urgent[0]["available"]), (&json!([]), &json!("16")));
}
