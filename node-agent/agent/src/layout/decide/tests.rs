//! What is decided, case by case.

use std::time::Duration;

use super::*;
use crate::layout::{
    memory::{HOLD_BACK, STRANGERS_GRACE},
    testing::{counted, h100, held, mig, placed, process, wanting},
    wish::WishError,
};

const LATER: Moment = Duration::from_hours(1);

fn look<'a>(gpu: &'a Gpu, claims: &'a Claims, now: Moment) -> Look<'a> {
    Look { gpu, trouble: None, claims, cordoned: false, now }
}

/// What is done at last, for a GPU that has been as it is for long.
fn at_last(gpu: &Gpu, claims: &Claims, wish: &Wish) -> Decision {
    let mut memory = Memory::default();
    memory.look(gpu, claims, Moment::ZERO);
    let first = decide(&look(gpu, claims, LATER), wish, &memory);
    memory.withhold(&first.withhold, LATER);
    decide(&look(gpu, claims, LATER + HOLD_BACK), wish, &memory)
}

fn words(decision: &Decision) -> String {
    decision.acts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_is_there_and_not_wanted_goes_and_what_is_missing_is_made() {
    let table = [
        ("", "3g.40gb@4", "create 3g.40gb@4"),
        ("3g.40gb@4", "3g.40gb@4", ""),
        ("3g.40gb@0 3g.40gb@4", "3g.40gb@4", "destroy 3g.40gb@0"),
        ("1g.10gb@4 1g.10gb@0", "3g.40gb@4 1g.10gb@0", "destroy 1g.10gb@4, create 3g.40gb@4"),
        ("7g.80gb@0", "", "destroy 7g.80gb@0"),
    ];
    for (there, wanted, done) in table {
        let decision = at_last(&h100(there), &held(&[]), &placed(wanted));
        assert_eq!(words(&decision), done, "{there} -> {wanted}");
        let state = if done.is_empty() { LayoutState::Applied } else { LayoutState::Pending };
        assert_eq!(decision.state, state, "{there} -> {wanted}");
    }
}

#[test]
fn so_many_of_a_profile_are_wanted_wherever_they_are() {
    let gpu = h100("1g.10gb@0");
    assert_eq!(at_last(&gpu, &held(&[]), &counted("1g.10gb")).state, LayoutState::Applied);
}

#[test]
fn an_instance_with_a_process_or_a_pod_is_never_destroyed() {
    let mut with_process = h100("3g.40gb@0 3g.40gb@4");
    with_process.processes = vec![process(0), process(1)];
    let gpu = h100("3g.40gb@0 3g.40gb@4");
    let mut half = h100("3g.40gb@0 3g.40gb@4");
    half.processes = vec![process(0)];
    for (gpu, claims) in
        [(&with_process, held(&[])), (&gpu, held(&["MIG-0", "MIG-1"])), (&half, held(&["MIG-1"]))]
    {
        let decision = at_last(gpu, &claims, &placed("7g.80gb@0"));
        assert_eq!(decision.acts, []);
        assert_eq!(decision.state, LayoutState::Waiting);
        assert!(decision.message.unwrap().contains("3g.40gb@0, 3g.40gb@4"));
    }
}

#[test]
fn a_busy_instance_stays_while_its_neighbour_is_changed() {
    let decision = at_last(&h100("3g.40gb@0 3g.40gb@4"), &held(&["MIG-0"]), &placed("1g.10gb@4"));
    assert_eq!(words(&decision), "destroy 3g.40gb@4, create 1g.10gb@4");
    let after = at_last(&h100("3g.40gb@0 1g.10gb@4"), &held(&["MIG-0"]), &placed("1g.10gb@4"));
    assert_eq!(after.state, LayoutState::Waiting, "what is busy and not wanted is said");
}

#[test]
fn a_process_that_the_driver_does_not_place_may_be_in_any_instance() {
    let mut gpu = h100("3g.40gb@0 3g.40gb@4");
    gpu.processes = vec![crate::device::Process { pid: 1, instance: None }];
    assert_eq!(at_last(&gpu, &held(&[]), &placed("7g.80gb@0")).acts, []);
}

#[test]
fn while_it_is_not_known_who_has_what_nothing_is_destroyed_but_what_fits_is_made() {
    let claims = Claims::Unknown("the kubelet is away".to_owned());
    let waiting = at_last(&h100("3g.40gb@4"), &claims, &placed("7g.80gb@0"));
    assert_eq!((waiting.acts, waiting.state), (Vec::new(), LayoutState::Waiting));
    assert!(waiting.message.unwrap().contains("the kubelet is away"));
    let made = at_last(&h100("3g.40gb@4"), &claims, &placed("3g.40gb@0 3g.40gb@4"));
    assert_eq!(words(&made), "create 3g.40gb@0");
}

#[test]
fn what_somebody_else_made_goes_only_when_it_was_free_for_a_while() {
    let (gpu, claims, wish) = (h100("3g.40gb@4"), held(&[]), placed("7g.80gb@0"));
    let mut memory = Memory::default();
    memory.look(&gpu, &claims, LATER);

    let early = decide(&look(&gpu, &claims, LATER), &wish, &memory);
    assert_eq!((early.state, early.again), (LayoutState::Waiting, Some(LATER + STRANGERS_GRACE)));
    let late = decide(&look(&gpu, &claims, LATER + STRANGERS_GRACE), &wish, &memory);
    assert_eq!(late.state, LayoutState::Pending);

    let mut ours = Memory::of_made(["MIG-0".into()]);
    ours.look(&gpu, &claims, LATER);
    assert_eq!(decide(&look(&gpu, &claims, LATER), &wish, &ours).state, LayoutState::Pending);
}

#[test]
fn what_was_in_use_a_moment_ago_begins_its_time_anew() {
    let (gpu, wish) = (h100("3g.40gb@4"), placed("7g.80gb@0"));
    let mut memory = Memory::default();
    memory.look(&gpu, &held(&[]), Moment::ZERO);
    memory.look(&gpu, &held(&["MIG-0"]), LATER);
    memory.look(&gpu, &held(&[]), LATER + HOLD_BACK);
    let decision = decide(&look(&gpu, &held(&[]), LATER + HOLD_BACK), &wish, &memory);
    assert_eq!(decision.again, Some(LATER + HOLD_BACK + STRANGERS_GRACE));
}

#[test]
fn a_device_is_withheld_before_it_is_destroyed() {
    let (gpu, claims, wish) = (h100("3g.40gb@0 3g.40gb@4"), held(&[]), placed("7g.80gb@0"));
    let mut memory = Memory::of_made(["MIG-0".into(), "MIG-1".into()]);
    memory.look(&gpu, &claims, LATER);

    let first = decide(&look(&gpu, &claims, LATER), &wish, &memory);
    assert_eq!(first.acts, []);
    assert_eq!(first.withhold, ["MIG-0".into(), "MIG-1".into()].into());
    memory.withhold(&first.withhold, LATER);
    let soon = decide(&look(&gpu, &claims, LATER + HOLD_BACK / 2), &wish, &memory);
    assert_eq!((soon.acts, soon.again), (Vec::new(), Some(LATER + HOLD_BACK)));

    // A pod got one of them at the last moment: both are left, and given out again.
    let won = held(&["MIG-1"]);
    memory.look(&gpu, &won, LATER + HOLD_BACK);
    let lost = decide(&look(&gpu, &won, LATER + HOLD_BACK), &wish, &memory);
    assert_eq!((lost.acts, lost.withhold), (Vec::new(), BTreeSet::new()));
}

#[test]
fn an_instance_without_a_compute_instance_is_completed_where_it_is_wanted() {
    let mut gpu = h100("3g.40gb@4 3g.40gb@0");
    mig(&mut gpu).instances[0].computes.clear();
    assert_eq!(words(&at_last(&gpu, &held(&[]), &counted("3g.40gb 3g.40gb"))), "complete 3g.40gb@4");
    assert_eq!(words(&at_last(&gpu, &held(&[]), &placed("3g.40gb@0"))), "destroy 3g.40gb@4");
}

#[test]
fn an_instance_whose_compute_is_divided_is_not_what_a_layout_asks_for() {
    let mut gpu = h100("3g.40gb@4");
    mig(&mut gpu).instances[0].computes[0].slices = 1;
    let decision = at_last(&gpu, &held(&[]), &placed("3g.40gb@4"));
    assert_eq!(words(&decision), "destroy 3g.40gb@4, create 3g.40gb@4");
    gpu.processes = vec![process(0)];
    assert_eq!(at_last(&gpu, &held(&[]), &placed("3g.40gb@4")).state, LayoutState::Waiting);
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let table = [
        ("3g.71gb@0", "no MIG profile 3g.71gb"),
        ("3g.40gb@1", "begins at one of 0, 4"),
        ("4g.40gb@0 3g.40gb@0", "overlap"),
    ];
    for (wanted, why) in table {
        let decision = at_last(&h100("1g.10gb@0"), &held(&[]), &placed(wanted));
        assert_eq!((decision.acts, decision.state), (Vec::new(), LayoutState::Refused), "{wanted}");
        assert!(decision.message.as_ref().unwrap().contains(why), "{wanted}: {:?}", decision.message);
    }
    let error = WishError::Name("no name".to_owned());
    let wish = Wish { target: Err(error), ..placed("") };
    assert_eq!(at_last(&h100(""), &held(&[]), &wish).state, LayoutState::Refused);
}

#[test]
fn a_gpu_without_mig_has_the_layout_that_needs_none() {
    let gpu = Gpu { mig: None, ..h100("") };
    assert_eq!(at_last(&gpu, &held(&[]), &wanting(Target::Off)).state, LayoutState::Applied);
    let refused = at_last(&gpu, &held(&[]), &placed(""));
    assert_eq!(refused.state, LayoutState::Refused);
    assert!(refused.message.unwrap().contains("knows no MIG"));
}

#[test]
fn nothing_is_done_to_a_gpu_of_which_nobody_wants_anything() {
    let wish = Wish { target: Ok(None), policy: None, ..placed("") };
    let decision = at_last(&h100("3g.40gb@4"), &held(&[]), &wish);
    assert_eq!((decision.acts, decision.state), (Vec::new(), LayoutState::Applied));
}

fn without_mig() -> Gpu {
    let mut gpu = h100("");
    (mig(&mut gpu).enabled, mig(&mut gpu).pending) = (false, false);
    gpu
}

#[test]
fn the_mig_mode_is_changed_only_by_leave_and_on_an_idle_gpu() {
    let (gpu, free) = (without_mig(), held(&[]));
    let changes = |gpu: &Gpu, claims: &Claims, mode_change, policy: Option<&str>| {
        let policy = policy.map(str::to_owned);
        at_last(gpu, claims, &Wish { policy, mode_change, ..placed("3g.40gb@4") })
    };
    assert_eq!(words(&changes(&gpu, &free, ModeChange::WhenIdle, Some("p"))), "turn MIG on");
    let table = [
        (&free, ModeChange::Never, Some("p"), LayoutState::Refused),
        (&free, ModeChange::Never, None, LayoutState::Refused),
        (&free, ModeChange::WhenCordoned, Some("p"), LayoutState::Waiting),
        (&held(&["GPU-0a"]), ModeChange::WhenIdle, Some("p"), LayoutState::Waiting),
        (&Claims::default(), ModeChange::WhenIdle, Some("p"), LayoutState::Waiting),
    ];
    for (claims, mode_change, policy, state) in table {
        let decision = changes(&gpu, claims, mode_change, policy);
        assert_eq!((decision.acts, decision.state), (Vec::new(), state), "{mode_change:?}");
    }
    let mut used = without_mig();
    used.processes = vec![crate::device::Process { pid: 1, instance: None }];
    assert_eq!(changes(&used, &free, ModeChange::WhenIdle, Some("p")).state, LayoutState::Waiting);
}

#[test]
fn the_mode_waits_for_a_cordon_where_the_policy_says_so() {
    let (gpu, claims) = (without_mig(), held(&[]));
    let wish = Wish { mode_change: ModeChange::WhenCordoned, ..placed("3g.40gb@4") };
    let mut memory = Memory::default();
    memory.withhold(&[gpu.uuid.clone()].into(), Moment::ZERO);
    let cordoned = Look { cordoned: true, ..look(&gpu, &claims, LATER) };
    assert_eq!(words(&decide(&cordoned, &wish, &memory)), "turn MIG on");
}

#[test]
fn a_mode_that_waits_for_a_reset_is_not_asked_for_again() {
    let mut gpu = without_mig();
    mig(&mut gpu).pending = true;
    let decision = at_last(&gpu, &held(&[]), &placed("3g.40gb@4"));
    assert_eq!((decision.acts, decision.state), (Vec::new(), LayoutState::Waiting));
    assert!(decision.message.unwrap().contains("reset"));
}

#[test]
fn before_mig_is_turned_off_every_instance_goes_as_ever() {
    let off = wanting(Target::Off);
    assert_eq!(words(&at_last(&h100("3g.40gb@4"), &held(&[]), &off)), "destroy 3g.40gb@4");
    assert_eq!(words(&at_last(&h100(""), &held(&[]), &off)), "turn MIG off");
    assert_eq!(at_last(&h100("3g.40gb@4"), &held(&["MIG-0"]), &off).acts, []);
    let never = Wish { mode_change: ModeChange::Never, ..off };
    assert_eq!(at_last(&h100("3g.40gb@4"), &held(&[]), &never).state, LayoutState::Refused);
}

#[test]
fn an_unhealthy_gpu_is_left_alone() {
    let trouble = Trouble { reason: "Xid79".to_owned(), message: "it fell off the bus".to_owned() };
    let (gpu, claims) = (h100(""), held(&[]));
    let sick = Look { trouble: Some(&trouble), ..look(&gpu, &claims, LATER) };
    let decision = decide(&sick, &placed("3g.40gb@4"), &Memory::default());
    assert_eq!((decision.acts, decision.state), (Vec::new(), LayoutState::Waiting));
    assert!(decision.message.unwrap().contains("fell off the bus"));
    assert_eq!(decide(&sick, &placed(""), &Memory::default()).state, LayoutState::Applied);
}

#[test]
fn a_failure_is_tried_again_later_and_another_wish_at_once() {
    let (gpu, claims, wish) = (h100(""), held(&[]), placed("3g.40gb@4"));
    let target = wish.target.clone().unwrap().unwrap();
    let mut memory = Memory::default();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        memory.failed(&target, "create 3g.40gb@4: no".to_owned(), LATER);
        let decision = decide(&look(&gpu, &claims, LATER), &wish, &memory);
        assert_eq!((decision.acts, decision.state), (Vec::new(), LayoutState::Failed));
        assert_eq!(decision.message.as_deref(), Some("create 3g.40gb@4: no"));
        pauses.push(decision.again.unwrap().saturating_sub(LATER).as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    assert_eq!(
        words(&decide(&look(&gpu, &claims, LATER), &placed("3g.40gb@0"), &memory)),
        "create 3g.40gb@0"
    );
    let again = decide(&look(&gpu, &claims, LATER + Duration::from_mins(5)), &wish, &memory);
    assert_eq!(words(&again), "create 3g.40gb@4");
    memory.failed(&placed("").target.unwrap().unwrap(), String::new(), LATER);
    assert_eq!(memory.failure(&target), None, "another wish counts from one");
}
