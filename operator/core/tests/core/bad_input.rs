//! Input that makes no sense: it ends in words that a person can act on, and nothing else is delayed.

use whalezen_core::{
    quantity::{Amount, QuantityError, parse},
    testing::{WorkloadBuilder, World, flavor, local_queue, queue, workload},
    verdict::Reason,
    workload::{Workload, check_totals},
};

use crate::GPU;

fn world(gpus: i64) -> World {
    World::new()
        .with(flavor("f"))
        .with(local_queue("ns/lq", "cq"))
        .with(queue("cq").group([GPU]).flavor("f", [(GPU, gpus)]))
        .with(workload("ns/sane").since(9).pods("main", 1, [(GPU, 1)]))
}

fn rejected(gpus: i64, bad: WorkloadBuilder) -> (Reason, String) {
    let mut world = world(gpus).with(bad);
    assert_eq!(world.run(), ["ns/sane"], "others go on");
    let verdict = world.verdict("ns/bad").expect("it waits");
    assert_eq!(world.reports(), [format!("ns/bad: {}", verdict.reason)]);
    assert_eq!(world.state.audit(), Ok(()));
    (verdict.reason, verdict.message)
}

#[test]
fn quantities_that_are_none_are_refused_with_their_text() {
    assert_eq!(parse(GPU, "-1"), Err(QuantityError::Negative("-1".into())));
    assert_eq!(parse(GPU, "NaN"), Err(QuantityError::Malformed("NaN".into())));
    assert_eq!(parse(GPU, "9223372036854775808"), Err(QuantityError::TooLarge("9223372036854775808".into())));
    assert_eq!(
        parse("cpu", "9223372036854776").unwrap_err().to_string(),
        "\"9223372036854776\" is too large"
    );
}

#[test]
fn pods_that_cannot_be_counted_are_misconfigured_in_the_dialects_words() {
    let (reason, message) = rejected(8, workload("ns/bad").invalid("pod set main: \"x\" is not a quantity"));
    assert_eq!((reason, message.as_str()), (Reason::Misconfigured, "pod set main: \"x\" is not a quantity"));
}

#[test]
fn pods_that_the_api_server_would_refuse_are_misconfigured_and_keep_their_place_in_the_counts() {
    let mut world =
        world(8).with(workload("ns/bad").pods("main", 1, [(GPU, 1)]).inadmissible("too much cpu"));
    assert_eq!(world.run(), ["ns/sane"]);
    let verdict = world.verdict("ns/bad").unwrap();
    assert_eq!((verdict.reason, verdict.message.as_str()), (Reason::Misconfigured, "too much cpu"));
    assert_eq!(world.tally("cq").pending, 1);
    let key = whalezen_core::testing::key("ns/bad");
    let pod_sets = world.state.pod_sets(&key).cloned().ok_or_else(String::new);
    world.state.recount(&key, pod_sets, None);
    assert_eq!(world.run(), ["ns/bad"], "once they would be taken, it goes on");
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn totals_past_what_can_be_counted_are_refused_at_the_door() {
    let check = |builder: WorkloadBuilder| {
        let workload: Workload = builder.into();
        check_totals(&workload.pod_sets.expect("pod sets"))
    };
    let refused =
        Err("the requests for nvidia.com/gpu of all pods together exceed what can be counted".to_owned());
    let big = i64::MAX / 2;
    assert_eq!(check(workload("ns/it").pods("a", 2, [(GPU, big)])), Ok(()));
    assert_eq!(check(workload("ns/it").pods("a", 3, [(GPU, big)])), refused, "one pod set");
    assert_eq!(
        check(workload("ns/it").pods("a", 2, [(GPU, big)]).pods("b", 2, [(GPU, big)])),
        refused,
        "two"
    );
}

#[test]
fn even_past_the_door_a_total_that_cannot_be_counted_is_refused() {
    let (reason, message) = rejected(8, workload("ns/bad").pods("main", 3, [(GPU, i64::MAX / 2)]));
    assert_eq!(reason, Reason::Misconfigured);
    assert_eq!(message, "couldn't assign flavors to pod set main: the requests exceed what can be counted");
    let huge = workload("ns/bad").pods("a", 1, [(GPU, i64::MAX)]).pods("b", 1, [(GPU, i64::MAX)]);
    assert_eq!(rejected(8, huge).0, Reason::ExceedsMaxQuota);
}

#[test]
fn usage_past_what_can_be_counted_is_never_a_credit() {
    let mut world = world(8);
    for name in ["a", "b", "c"] {
        let huge = workload(&format!("ns/{name}")).pods("main", 1, [(GPU, i64::MAX)]);
        world.tell(huge.holding("cq", "f"));
    }
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(world.used("cq", "f", GPU), Amount(i64::MAX));
    for name in ["ns/a", "ns/b"] {
        world.finish(name);
        assert_eq!(world.run(), [""; 0], "what is left is still more than there is");
    }
    world.finish("ns/c");
    assert_eq!(world.run(), ["ns/sane"]);
    assert_eq!((world.used("cq", "f", GPU), world.tally("cq").reserved.len()), (Amount(1), 1));
}

#[test]
fn quota_past_what_can_be_counted_saturates() {
    let member = |name| queue(name).cohort("all").group([GPU]).flavor("f", [(GPU, i64::MAX)]);
    let mut world = world(0).with(member("cq")).with(member("other").borrow("f", GPU, i64::MAX));
    assert_eq!(world.run(), ["ns/sane"]);
    assert_eq!(world.available("other", "f", GPU), Amount(i64::MAX - 1));
}

#[test]
fn a_workload_without_pods_holds_nothing_and_is_in_nobodys_way() {
    for none in [workload("ns/none"), workload("ns/none").pods("main", 0, [(GPU, 4)])] {
        let mut world = world(1).with(none);
        assert_eq!(world.run(), ["ns/none", "ns/sane"]);
        assert_eq!(world.used("cq", "f", GPU), Amount(1));
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn a_queue_without_quota_or_flavors_admits_nobody_and_says_so() {
    for (cq, want) in
        [(queue("cq"), "resource nvidia.com/gpu unavailable in ClusterQueue"), (queue("cq").group([GPU]), "")]
    {
        let mut world = world(8).with(cq);
        assert_eq!(world.run(), [""; 0]);
        let verdict = world.verdict("ns/sane").expect("it waits");
        assert_eq!(verdict.reason, Reason::NoMatchingFlavor);
        assert_eq!(verdict.message, format!("couldn't assign flavors to pod set main: {want}"));
    }
}

#[test]
fn a_queue_that_is_invalid_from_the_start_is_inactive_with_its_problem() {
    let mut world = World::new()
        .with(flavor("f"))
        .with(local_queue("ns/lq", "cq"))
        .with(queue("cq").invalid("flavor f is listed more than once"))
        .with(workload("ns/sane").pods("main", 1, [(GPU, 1)]));
    assert_eq!(world.run(), [""; 0]);
    assert_eq!(
        world.verdict("ns/sane").expect("it waits").message,
        "ClusterQueue cq is inactive: Can't admit new workloads: flavor f is listed more than once."
    );
}

#[test]
fn unknown_names_are_no_reason_to_panic() {
    let mut world = world(8);
    world.state.delete_queue(&"none".into());
    world.state.delete_flavor(&"none".into());
    world.state.delete_cohort(&"none".into());
    world.state.delete_namespace("none");
    world.state.delete_local_queue(&whalezen_core::testing::local_key("no/ne"));
    for step in [World::delete, World::finish, World::requeue] {
        step(&mut world, "no/ne");
    }
    let none = whalezen_core::testing::key("no/ne");
    world.state.forget(&none);
    world.state.refuse(&none, "no".into());
    world.state.try_again(&none);
    world.state.report_again(&none);
    assert_eq!(world.run(), ["ns/sane"]);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_workload_that_holds_quota_in_a_queue_nobody_knows_is_no_reason_to_panic() {
    let mut world = world(8).with(workload("ns/lost").pods("main", 1, [(GPU, 1)]).holding("none", "f"));
    assert_eq!(world.run(), ["ns/sane"]);
    assert_eq!(world.local_tally("ns/lq").reserving, 2);
    assert_eq!(world.state.audit(), Ok(()));
    world.finish("ns/lost");
    assert_eq!(world.run(), [""; 0]);
}
