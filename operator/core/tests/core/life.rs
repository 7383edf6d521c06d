//! What stands beside the queue in a workload's life: what holds it back, the checks that it has to pass, and
//! whether its pods are ready.

use whalezen_core::{
    name::CheckName,
    plan::Plan,
    queue::Check,
    testing::{QueueBuilder, WorkloadBuilder, World, flavor, key, local_queue, queue, workload},
    verdict::Reason,
    workload::Admission,
};

use crate::GPU;

fn cq(gpus: i64) -> QueueBuilder {
    queue("cq").group([GPU]).flavor("f", [(GPU, gpus)]).flavor("g", [(GPU, gpus)])
}

fn wants(name: &str, gpus: i64) -> WorkloadBuilder {
    workload(name).pods("main", 1, [(GPU, gpus)])
}

fn world(queue: QueueBuilder) -> World {
    World::new().with(flavor("f")).with(flavor("g")).with(local_queue("ns/lq", "cq")).with(queue)
}

fn check(world: &mut World, name: &str, active: bool) {
    world.state.apply_check(Check { name: name.into(), active });
}

#[test]
fn who_is_held_back_is_not_queued_and_holds_nobody_up() {
    for (reason, counts) in [(Reason::PendingEvaluation, true), (Reason::AdmissionGated, false)] {
        let mut world = world(cq(8).strict())
            .with(wants("ns/a", 8).held_back(reason, "until then", counts))
            .with(wants("ns/b", 8));
        assert_eq!(world.run(), ["ns/b"]);
        let verdict = world.verdict("ns/a").unwrap();
        assert_eq!((verdict.reason, &*verdict.message), (reason, "until then"));
        assert_eq!(world.tally("cq").pending, usize::from(counts));
        assert_eq!(world.local_tally("ns/lq").pending, usize::from(counts));
        world.finish("ns/b");
        world.change("ns/a", |workload| workload.held_back = None);
        assert_eq!(world.run(), ["ns/a"]);
        assert_eq!(world.state.audit(), Ok(()));
    }
}

#[test]
fn what_is_wrong_with_its_queue_is_told_before_what_holds_a_workload_back() {
    let mut world = world(cq(8).stopped()).with(wants("ns/a", 1).held_back(
        Reason::AdmissionGated,
        "Admission is gated by: x",
        false,
    ));
    world.run();
    assert_eq!(world.verdict("ns/a").unwrap().reason, Reason::Suspended);
}

#[test]
fn why_a_holder_would_not_be_queued_is_known_beforehand() {
    let mut world = world(cq(8)).with(wants("ns/a", 1).holding("cq", "f"));
    world.run();
    assert_eq!(world.state.obstacle(&key("ns/a")), None);
    world.tell(cq(8).stopped());
    world.state.settle();
    assert_eq!(world.state.obstacle(&key("ns/a")).unwrap().reason, Reason::Suspended);
    world.tell(wants("ns/a", 1).holding("cq", "f").inactive());
    assert_eq!(world.state.obstacle(&key("ns/a")).unwrap().reason, Reason::Deactivated);
}

#[test]
fn a_queue_works_once_every_check_that_it_demands_is_there_and_answered() {
    let mut world = world(cq(8).check("dws").check_on("budget", "g")).with(wants("ns/a", 1));
    for (told, reason, why) in [
        (None, "AdmissionCheckNotFound", "references missing AdmissionCheck(s): budget,dws"),
        (
            Some(("dws", false)),
            "AdmissionCheckNotFound",
            "references missing AdmissionCheck(s): budget, references inactive AdmissionCheck(s): dws",
        ),
        (Some(("budget", true)), "AdmissionCheckInactive", "references inactive AdmissionCheck(s): dws"),
    ] {
        if let Some((name, active)) = told {
            check(&mut world, name, active);
        }
        assert_eq!(world.run(), <[&str; 0]>::default());
        let inactive = world.state.activity(world.state.queue(&"cq".into()).unwrap()).unwrap_err();
        assert_eq!(inactive.reason, reason);
        assert_eq!(inactive.message, format!("Can't admit new workloads: {why}."));
    }
    check(&mut world, "dws", true);
    assert_eq!(world.run(), ["ns/a"]);
    world.tell(wants("ns/b", 1));
    world.state.delete_check(&"dws".into());
    assert_eq!(world.run(), <[&str; 0]>::default());
    assert_eq!(world.holders(), ["ns/a"]);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn a_check_is_demanded_of_whoever_gets_its_flavors() {
    let queue = cq(8).check("all").check_on("some", "g").into();
    let checks = |flavor: &str| -> Vec<CheckName> {
        let holder = whalezen_core::workload::Workload::from(wants("ns/a", 1).holding("cq", flavor));
        let given: &Admission = holder.admission().unwrap();
        whalezen_core::queue::ClusterQueue::checks_of(&queue, given).into_iter().cloned().collect()
    };
    assert_eq!(checks("f"), ["all".into()]);
    assert_eq!(checks("g"), ["all".into(), "some".into()]);
}

#[test]
fn who_has_checks_to_pass_holds_quota_and_is_not_counted_as_admitted() {
    let mut world = world(cq(8).check("dws")).with(wants("ns/a", 1));
    check(&mut world, "dws", true);
    let plan = world.plan();
    assert!(world.state.assume(&plan.admit[0]));
    let tally = world.tally("cq");
    assert_eq!((tally.reserving, tally.admitted), (1, 0));
}

#[test]
fn under_a_policy_of_one_at_a_time_the_next_is_admitted_when_the_last_ones_pods_are_ready() {
    let mut world = world(cq(2))
        .with(queue("other").group([GPU]).flavor("f", [(GPU, 2)]))
        .with(local_queue("ns/other", "other"))
        .with(wants("ns/a", 1).since(1))
        .with(wants("ns/b", 1).since(2))
        .with(wants("ns/c", 1).since(3).queue("other"))
        .with(wants("ns/d", 9).since(4));
    world.policy.one_at_a_time = true;
    let plan = world.plan();
    world.state.follow(&plan, world.now, &world.policy);
    let admitted = |plan: &Plan| plan.admit.iter().map(|a| a.workload.to_string()).collect::<Vec<_>>();
    assert_eq!(admitted(&plan), ["ns/a"]);
    assert!(world.state.assume(&plan.admit[0]));
    for name in ["ns/b", "ns/c"] {
        let verdict = world.verdict(name).unwrap();
        assert_eq!(verdict.reason, Reason::WaitingForPodsReady, "{name}");
        assert_eq!(verdict.message, "waiting for all admitted workloads to be in PodsReady condition");
    }
    assert_ne!(world.verdict("ns/d").unwrap().reason, Reason::WaitingForPodsReady);
    world.tell(wants("ns/a", 1).holding("cq", "f").unready());
    assert_eq!(world.plan(), Plan::default());
    world.tell(wants("ns/a", 1).holding("cq", "f"));
    assert_eq!(admitted(&world.plan()), ["ns/b"]);
    assert_eq!(world.state.audit(), Ok(()));
}

#[test]
fn all_pods_are_ready_once_everybody_who_holds_quota_has_them_ready() {
    let mut world = world(cq(8)).with(wants("ns/a", 1));
    assert!(world.state.all_pods_ready());
    let plan = world.plan();
    assert!(world.state.assume(&plan.admit[0]));
    assert!(!world.state.all_pods_ready());
    world.tell(wants("ns/a", 1).holding("cq", "f").unready());
    assert!(!world.state.all_pods_ready());
    world.tell(wants("ns/a", 1).holding("cq", "f"));
    assert!(world.state.all_pods_ready());
    world.tell(wants("ns/b", 1).holding("cq", "f").unready());
    assert!(!world.state.all_pods_ready());
    world.delete("ns/b");
    assert!(world.state.all_pods_ready());
    world.state.settle();
    assert_eq!(world.state.audit(), Ok(()));
}
