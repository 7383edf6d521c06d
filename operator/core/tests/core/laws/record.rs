//! What happened to a state, told again to the state of a snapshot.

use proptest::{collection::vec, prelude::*};
use whalezen_core::{
    brakes::{Brakes, Limit, Past},
    consumption::{Consumed, Fine},
    name::CheckName,
    plan::plan,
    quantity::Amount,
    queue::Check,
    state::{Event, Planned, Snapshot, State, Step},
    testing::local_key,
    workload::Timestamp,
};

use super::histories::{self, History, anything, keys};
use crate::GPU;

/// What happens seldom, or to one replica only.
#[derive(Clone, Debug)]
enum Rarity {
    BrakesReleased,
    EvictionsRecalled(i64),
    AccountingStopped,
    Accounted,
    Consumed { queue: u8, gpus: i64 },
    Recounted { which: u8, inadmissible: bool },
    TriedAgain(u8),
    Untold(u8),
    Check { name: u8, active: bool },
    CheckGone(u8),
    NamespaceGone(u8),
    Moved(u8),
}

#[derive(Clone, Debug)]
enum Happening {
    Usual(histories::Event),
    Rare(Rarity),
}

fn happening() -> impl Strategy<Value = Happening> {
    let which = || 0..12_u8;
    let rare = prop_oneof![
        3 => Just(Rarity::BrakesReleased),
        1 => (0..5000_i64).prop_map(Rarity::EvictionsRecalled),
        1 => Just(Rarity::AccountingStopped),
        3 => Just(Rarity::Accounted),
        1 => (0..4_u8, 0..9_i64).prop_map(|(queue, gpus)| Rarity::Consumed { queue, gpus }),
        2 => (which(), any::<bool>()).prop_map(|(which, inadmissible)| Rarity::Recounted { which, inadmissible }),
        1 => which().prop_map(Rarity::TriedAgain),
        1 => which().prop_map(Rarity::Untold),
        1 => (0..2_u8, any::<bool>()).prop_map(|(name, active)| Rarity::Check { name, active }),
        1 => (0..2_u8).prop_map(Rarity::CheckGone),
        1 => (0..2_u8).prop_map(Rarity::NamespaceGone),
        2 => which().prop_map(Rarity::Moved),
    ];
    prop_oneof![4 => anything().prop_map(Happening::Usual), 1 => rare.prop_map(Happening::Rare)]
}

fn happens(history: &mut History, happening: &Happening) {
    let rarity = match happening {
        Happening::Usual(event) => return history.happens(event),
        Happening::Rare(rarity) => rarity,
    };
    let (state, now) = (&mut history.world.state, history.world.now);
    let key = |which: &u8| keys().nth(usize::from(*which)).unwrap();
    let check = |name: &u8| CheckName::from(format!("check-{name}"));
    match rarity {
        Rarity::BrakesReleased => state.release_brakes(),
        Rarity::EvictionsRecalled(at) => {
            state.recall_evictions(vec![Past { at: Timestamp(*at), queue: "q0".into() }]);
        }
        Rarity::AccountingStopped => state.stop_accounting(),
        Rarity::Accounted => {
            state.settle();
            state.account(now);
        }
        Rarity::Consumed { queue, gpus } => {
            let consumed: Consumed =
                [(GPU.into(), Fine::of(&GPU.into(), Amount(*gpus)))].into_iter().collect();
            state.recall(&local_key(&format!("n{}/lq{}", queue % 2, queue / 2)), consumed);
        }
        Rarity::Recounted { which, inadmissible } => {
            if let Some(workload) = state.workload(&key(which)).cloned() {
                state.recount(
                    &workload.key,
                    workload.pod_sets,
                    inadmissible.then(|| "is too large".to_owned()),
                );
            }
        }
        Rarity::TriedAgain(which) => state.try_again(&key(which)),
        Rarity::Untold(which) => state.report_again(&key(which)),
        Rarity::Check { name, active } => state.apply_check(Check { name: check(name), active: *active }),
        Rarity::CheckGone(name) => state.delete_check(&check(name)),
        Rarity::Moved(which) => {
            if let Some(admission) = state.admission(&key(which)).cloned() {
                state.assume_move(&key(which), admission);
            }
        }
        Rarity::NamespaceGone(name) => state.delete_namespace(&format!("n{name}")),
    }
}

/// Tells a state what happened to another, as it is read from a file.
fn tell_again(state: &mut State, steps: Vec<Step>) -> Result<(), TestCaseError> {
    for step in steps {
        match step {
            Step::Told(event) => {
                let read: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
                prop_assert_eq!(&read, &event);
                state.tell(read);
            }
            Step::Planned(planned) => {
                let Planned { at, policy, plan: made } = *planned;
                let again = plan(state, at, &policy);
                prop_assert_eq!(&again, &made);
                state.follow(&again, at, &policy);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_snapshot_and_what_happened_since_give_the_same_state_and_the_same_plans(
        shape: u8,
        limits in [proptest::option::of(0..6_i64), proptest::option::of(0..6_i64)],
        allowed in proptest::option::of(0..3_u32),
        before in vec(happening(), 0..40),
        since in vec(happening(), 0..60),
    ) {
        let mut history = History::of_cluster(shape, limits);
        history.world.policy.brakes.limits.extend(allowed.map(|evictions| Limit {
            policy: "careful".into(),
            by_queue: shape.is_multiple_of(2),
            evictions,
            within: Brakes::MEMORY,
            since: None,
        }));
        for event in &before {
            happens(&mut history, event);
        }
        history.world.state.settle();
        let of = |history: &History| {
            Snapshot::of(&history.world.state, history.world.now, &history.world.policy)
        };
        let mut replayed = of(&history).state();
        history.world.state.start_recording();
        for event in &since {
            happens(&mut history, event);
            history.world.state.settle();
            tell_again(&mut replayed, history.world.state.take_steps())?;
            let again = Snapshot::of(&replayed, history.world.now, &history.world.policy);
            prop_assert_eq!(again, of(&history), "after {:?}", event);
        }
    }
}

#[test]
fn what_changes_nothing_is_not_put_on_record() {
    let mut history = History::of_cluster(1, [None, None]);
    history.world.state.settle();
    history.world.state.start_recording();
    let flavor = history.world.state.flavors().values().next().cloned().unwrap();
    let queue = history.world.state.queues().next().cloned().unwrap();
    let told = [
        Event::Flavor(flavor.clone()),
        Event::ClusterQueue(Box::new(queue)),
        Event::Settled,
        Event::BrakesReleased,
        Event::FlavorGone(flavor.name),
        Event::Settled,
    ];
    for event in &told {
        history.world.state.tell(event.clone());
    }
    let steps = history.world.state.take_steps();
    assert_eq!(steps, told[4..].iter().cloned().map(Step::Told).collect::<Vec<_>>());
    history.world.state.stop_recording();
    history.world.state.tell(told[0].clone());
    assert_eq!(history.world.state.take_steps(), []);
}
