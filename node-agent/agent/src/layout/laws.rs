//! Laws of the whole, on a GPU that is nothing but a value: whatever happens in between.

use std::time::Duration;

use proptest::{prelude::*, sample::Index};
use whalezen_crds::scheduling::v1alpha1::LayoutState;
use whalezen_mig::{Instance, Layout, Wanted, layouts};

use super::{
    Moment,
    decide::{Act, Look, decide},
    memory::{Memory, in_use},
    testing::{h100, held, mig, process, wanting},
    wish::{Target, Wish},
};
use crate::{
    claims::Claims,
    device::{Compute, Gpu, MigInstance, Uuid},
};

/// What happens between two looks.
#[derive(Clone, Debug)]
enum Happening {
    /// Time goes on, by so many seconds.
    Time(u64),
    /// A process begins in one of the instances, or the one there ends.
    Process(Index),
    /// A pod gets one of the MIG devices that are not withheld, or all give theirs back.
    Pod(Option<Index>),
    /// The agent is stopped after so many acts, and begins anew.
    Killed(usize),
    /// The node boots: no instance is left, nor a process.
    Boot,
    /// Somebody wants another layout.
    Wish(Index),
    /// An act fails.
    Fails,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0_u64..40).prop_map(Happening::Time),
        2 => any::<Index>().prop_map(Happening::Process),
        2 => proptest::option::of(any::<Index>()).prop_map(Happening::Pod),
        2 => (0_usize..4).prop_map(Happening::Killed),
        1 => Just(Happening::Boot),
        2 => any::<Index>().prop_map(Happening::Wish),
        1 => Just(Happening::Fails),
    ]
}

/// A GPU that does what it is told, as a real one does.
struct World {
    gpu: Gpu,
    held: Vec<Uuid>,
    memory: Memory,
    now: Moment,
    wish: Wish,
    numbers: u32,
}

impl World {
    fn new(layout: &Layout, wish: Wish) -> Self {
        let words: Vec<String> = layout.instances().iter().map(ToString::to_string).collect();
        Self {
            gpu: h100(&words.join(" ")),
            held: Vec::new(),
            memory: Memory::default(),
            now: Moment::ZERO,
            wish,
            numbers: 100,
        }
    }

    fn claims(&self) -> Claims {
        held(&self.held.iter().map(Uuid::as_str).collect::<Vec<_>>())
    }

    /// One look and what is done then, up to `most` acts; says how far the layout is, and what is withheld.
    fn turn(&mut self, most: usize, fails: bool) -> (LayoutState, Vec<Uuid>) {
        let claims = self.claims();
        self.memory.look(&self.gpu, &claims, self.now);
        let look = Look { gpu: &self.gpu, trouble: None, claims: &claims, cordoned: false, now: self.now };
        let decision = decide(&look, &self.wish, &self.memory);
        self.memory.withhold(&decision.withhold, self.now);
        for (done, act) in decision.acts.iter().enumerate().take(most) {
            if fails && done == 0 {
                let target = self.wish.target.clone().unwrap().unwrap();
                self.memory.failed(&target, act.to_string(), self.now);
                break;
            }
            self.act(act, &claims);
        }
        (decision.state, decision.withhold.into_iter().collect())
    }

    fn act(&mut self, act: &Act, claims: &Claims) {
        match act {
            Act::Destroy(seen) => {
                assert!(!in_use(&self.gpu, seen, claims), "{} is in use", seen.instance);
                let instances = &mut mig(&mut self.gpu).instances;
                let before = instances.len();
                instances.retain(|there| there != seen);
                assert_eq!(instances.len() + 1, before, "what is destroyed is there");
            }
            Act::Create(instance) => {
                self.numbers += 1;
                let made = made(self.numbers, *instance, &self.gpu);
                self.memory.made(&made);
                mig(&mut self.gpu).instances.push(made);
                // The driver makes nothing that does not fit.
                let there: Vec<Instance> =
                    mig(&mut self.gpu).instances.iter().map(|there| there.instance).collect();
                Layout::new(&mig(&mut self.gpu).geometry, there).unwrap();
            }
            Act::Complete(_) | Act::SetMode(_) => panic!("{act}: every instance is whole and MIG is on"),
        }
    }

    fn happens(&mut self, happening: &Happening, withheld: &[Uuid], wishes: &[Layout]) {
        match happening {
            Happening::Time(seconds) => self.now += Duration::from_secs(*seconds),
            Happening::Process(which) => {
                let ids: Vec<u32> = mig(&mut self.gpu).instances.iter().map(|there| there.id).collect();
                if let Some(&id) = ids.get(which.index(ids.len().max(1))) {
                    let before = self.gpu.processes.len();
                    self.gpu.processes.retain(|process| process.instance != Some(id));
                    if self.gpu.processes.len() == before {
                        self.gpu.processes.push(process(id));
                    }
                }
            }
            Happening::Pod(None) => self.held.clear(),
            Happening::Pod(Some(which)) => {
                let devices: Vec<Uuid> = mig(&mut self.gpu)
                    .instances
                    .iter()
                    .flat_map(MigInstance::devices)
                    .filter(|device| !withheld.contains(device))
                    .cloned()
                    .collect();
                self.held.extend(devices.get(which.index(devices.len().max(1))).cloned());
            }
            Happening::Killed(_) => {
                // What is known of who made what is in the status; at worst the last writes are missing.
                self.memory = Memory::default();
                self.now += Duration::from_secs(1);
            }
            Happening::Boot => {
                mig(&mut self.gpu).instances.clear();
                self.gpu.processes.clear();
                self.held.clear();
                self.memory = Memory::default();
            }
            Happening::Wish(which) => self.wish = wish(which.get(wishes)),
            Happening::Fails => {}
        }
    }
}

fn made(id: u32, instance: Instance, gpu: &Gpu) -> MigInstance {
    let size = gpu.mig.as_ref().unwrap().geometry.profile(instance.profile).unwrap().memory_slices;
    let uuid = Some(format!("MIG-new-{id}").into());
    let computes = vec![Compute { id: 0, slices: instance.profile.slices(), uuid }];
    MigInstance { id, instance, size, computes }
}

fn wish(layout: &Layout) -> Wish {
    wanting(Target::On(Wanted::Placed(layout.instances().to_vec())))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is in use is never destroyed, what is made always fits, and when everybody has let go, the layout that was
    /// wanted last comes to be.
    #[test]
    fn whatever_happens_what_is_in_use_stays_and_the_layout_comes_at_last(
        first in any::<Index>(),
        wanted in any::<Index>(),
        story in proptest::collection::vec(happening(), 0..25),
    ) {
        let all = layouts(&h100("").mig.unwrap().geometry);
        let mut world = World::new(first.get(&all), wish(wanted.get(&all)));
        let mut withheld = Vec::new();
        for happening in &story {
            world.happens(happening, &withheld, &all);
            let most = if let Happening::Killed(most) = happening { *most } else { usize::MAX };
            (_, withheld) = world.turn(most, matches!(happening, Happening::Fails));
        }
        world.held.clear();
        world.gpu.processes.clear();
        // The longest that there is to wait for: a back-off, then a stranger's grace, then what is held back.
        for pause in [300, 30, 2, 0] {
            world.now += Duration::from_secs(pause);
            world.turn(usize::MAX, false);
        }
        prop_assert_eq!(world.turn(usize::MAX, false).0, LayoutState::Applied);
    }
}
