//! What to do next for a GPU.

use std::{collections::BTreeSet, fmt};

use whalezen_crds::scheduling::v1alpha1::{LayoutState, ModeChange};
use whalezen_mig::{Existing, Instance, ProfileName, Refusal, Step, Transition, Wanted, transition};

use super::{
    Moment,
    memory::{Memory, any_use, in_use},
    wish::{Target, Wish},
};
use crate::{
    claims::Claims,
    device::{Gpu, Mig, MigInstance, Uuid},
    view::Trouble,
};

/// What was seen of a GPU, and when.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// What is wrong with it.
    pub trouble: Option<&'a Trouble>,
    /// Who has what.
    pub claims: &'a Claims,
    /// Whether the node takes no new pods.
    pub cordoned: bool,
    /// When.
    pub now: Moment,
}

/// One thing to do to a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Turn MIG mode on or off.
    SetMode(bool),
    /// Destroy an instance.
    Destroy(MigInstance),
    /// Make the compute instance of an instance that was left without.
    Complete(MigInstance),
    /// Make an instance.
    Create(Instance),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetMode(true) => f.write_str("turn MIG on"),
            Self::SetMode(false) => f.write_str("turn MIG off"),
            Self::Destroy(seen) => write!(f, "destroy {}", seen.instance),
            Self::Complete(seen) => write!(f, "complete {}", seen.instance),
            Self::Create(instance) => write!(f, "create {instance}"),
        }
    }
}

/// What to do next for a GPU, and what to say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do now, one after the other, up to the first that fails.
    pub acts: Vec<Act>,
    /// What nobody may be given: it is about to go.
    pub withhold: BTreeSet<Uuid>,
    /// How far the layout is.
    pub state: LayoutState,
    /// Why it is not further.
    pub message: Option<String>,
    /// When it would look different although nothing changed.
    pub again: Option<Moment>,
}

impl Decision {
    fn is(state: LayoutState, message: impl Into<String>) -> Self {
        Self {
            acts: Vec::new(),
            withhold: BTreeSet::new(),
            state,
            message: Some(message.into()),
            again: None,
        }
    }

    fn applied() -> Self {
        Self { message: None, ..Self::is(LayoutState::Applied, "") }
    }

    fn act(acts: Vec<Act>) -> Self {
        let words: Vec<String> = acts.iter().map(ToString::to_string).collect();
        Self { acts, ..Self::is(LayoutState::Pending, words.join(", ")) }
    }

    fn again(self, at: Option<Moment>) -> Self {
        Self { again: at, ..self }
    }
}

/// What to do next for a GPU.
pub fn decide(look: &Look<'_>, wish: &Wish, memory: &Memory) -> Decision {
    let target = match &wish.target {
        Ok(Some(target)) => target,
        Ok(None) => return Decision::applied(),
        Err(error) => return Decision::is(LayoutState::Refused, error.to_string()),
    };
    let Some(mig) = &look.gpu.mig else {
        return match target {
            Target::Off => Decision::applied(),
            Target::On(_) => Decision::is(LayoutState::Refused, format!("{} knows no MIG", look.gpu.model)),
        };
    };
    let next = match target {
        Target::Off if mig.enabled && mig.instances.is_empty() => mode(look, mig, wish, memory, false),
        Target::On(_) if !mig.enabled => mode(look, mig, wish, memory, true),
        Target::Off if mig.enabled => match may_change(look, wish) {
            Ok(()) => instances(look, mig, &Wanted::Placed(Vec::new()), memory),
            Err(no) => no,
        },
        Target::Off if mig.pending => mode(look, mig, wish, memory, false),
        Target::Off => Decision::applied(),
        Target::On(wanted) => instances(look, mig, wanted, memory),
    };
    held_up(look, target, memory, next)
}

/// The decision, if nothing is wrong with the GPU and it was not tried in vain a moment ago.
fn held_up(look: &Look<'_>, target: &Target, memory: &Memory, next: Decision) -> Decision {
    let changes = next.state == LayoutState::Pending;
    if let (Some(trouble), true) = (look.trouble, changes) {
        let words = next.message.unwrap_or_default();
        return Decision::is(LayoutState::Waiting, format!("{}: not done: {words}", trouble.message));
    }
    match memory.failure(target) {
        Some(failure) if changes && look.now < failure.next => {
            Decision::is(LayoutState::Failed, failure.message.clone()).again(Some(failure.next))
        }
        _ => next,
    }
}

/// Whether the MIG mode may be changed now at all, as far as the policy and the node go.
fn may_change(look: &Look<'_>, wish: &Wish) -> Result<(), Decision> {
    let needs = "the layout needs another MIG mode";
    let Some(policy) = &wish.policy else {
        let message = format!("{needs}, and there is no MIGPolicy that lets the agent change it");
        return Err(Decision::is(LayoutState::Refused, message));
    };
    match wish.mode_change {
        ModeChange::Never => {
            let message = format!("{needs}, and MIGPolicy {policy} has modeChange Never");
            Err(Decision::is(LayoutState::Refused, message))
        }
        ModeChange::WhenCordoned if !look.cordoned => {
            let message = format!("{needs}, which MIGPolicy {policy} allows only while the node is cordoned");
            Err(Decision::is(LayoutState::Waiting, message))
        }
        ModeChange::WhenCordoned | ModeChange::WhenIdle => Ok(()),
    }
}

/// Towards another MIG mode.
fn mode(look: &Look<'_>, mig: &Mig, wish: &Wish, memory: &Memory, enabled: bool) -> Decision {
    if mig.pending == enabled && mig.enabled != enabled {
        let word = if enabled { "on" } else { "off" };
        return Decision::is(
            LayoutState::Waiting,
            format!("MIG will be {word} after the GPU is reset or the node boots"),
        );
    }
    if let Err(no) = may_change(look, wish) {
        return no;
    }
    if any_use(look.gpu, look.claims) {
        return Decision::is(
            LayoutState::Waiting,
            format!("the layout needs another MIG mode, and the GPU is in use{}", unknown(look.claims)),
        );
    }
    let withhold: BTreeSet<Uuid> = [look.gpu.uuid.clone()].into();
    let act = Decision::act(vec![Act::SetMode(enabled)]);
    Decision { withhold: withhold.clone(), ..after_withholding(look, memory, &withhold, act) }
}

/// Towards other instances.
fn instances(look: &Look<'_>, mig: &Mig, wanted: &Wanted, memory: &Memory) -> Decision {
    let stays = |seen: &MigInstance| {
        in_use(look.gpu, seen, look.claims)
            || memory.destroyable_from(seen).is_none_or(|from| look.now < from)
    };
    let existing: Vec<Existing> =
        mig.instances.iter().map(|seen| Existing { instance: as_planned(seen), busy: stays(seen) }).collect();
    let way = match transition(&mig.geometry, &existing, wanted) {
        Ok(way) => way,
        Err(refusal) => return no_way(look, mig, memory, &refusal),
    };
    let acts = acts(mig, &way);
    if acts.is_empty() {
        return match way.lingering.as_slice() {
            [] => Decision::applied(),
            lingering => {
                waiting(look, mig, memory, "in use, or not free for long, and not wanted any more", lingering)
            }
        };
    }
    let withhold: BTreeSet<Uuid> = acts
        .iter()
        .filter_map(|act| if let Act::Destroy(seen) = act { Some(seen) } else { None })
        .flat_map(MigInstance::devices)
        .cloned()
        .collect();
    let act = Decision::act(acts);
    Decision { withhold: withhold.clone(), ..after_withholding(look, memory, &withhold, act) }
}

/// Acts once what goes has been withheld for long enough.
fn after_withholding(look: &Look<'_>, memory: &Memory, withhold: &BTreeSet<Uuid>, act: Decision) -> Decision {
    let from = withhold.iter().map(|device| {
        memory.withheld_enough_at(device).unwrap_or(look.now.saturating_add(super::memory::HOLD_BACK))
    });
    match from.max() {
        Some(from) if look.now < from => Decision { acts: Vec::new(), ..act }.again(Some(from)),
        _ => act,
    }
}

/// What to do to the GPU: destroy, complete what stays half made, create.
fn acts(mig: &Mig, way: &Transition) -> Vec<Act> {
    let seen = |instance: Instance| mig.instances.iter().find(move |seen| as_planned(seen) == instance);
    let destroyed = way.steps.iter().filter_map(|step| match step {
        Step::Destroy(instance) => seen(*instance).cloned().map(Act::Destroy),
        Step::Create(_) => None,
    });
    let stays = |seen: &&MigInstance| way.layout.instances().contains(&as_planned(seen));
    let half_made = mig.instances.iter().filter(stays).filter(|seen| seen.computes.is_empty());
    let created = way.steps.iter().filter_map(|step| match step {
        Step::Create(instance) => Some(Act::Create(*instance)),
        Step::Destroy(_) => None,
    });
    destroyed.chain(half_made.cloned().map(Act::Complete)).chain(created).collect()
}

/// An instance as the planner takes it: one whose compute is divided is not what a layout asks for.
fn as_planned(seen: &MigInstance) -> Instance {
    let whole = seen.instance.profile;
    let divided = |slices: u8| format!("{slices}c.{whole}").parse::<ProfileName>().unwrap_or(whole);
    match seen.computes.first() {
        Some(compute) if seen.computes.len() > 1 || compute.slices != whole.slices() => Instance::new(
            divided(compute.slices.min(whole.slices().saturating_sub(1)).max(1)),
            seen.instance.start,
        ),
        _ => seen.instance,
    }
}

fn no_way(look: &Look<'_>, mig: &Mig, memory: &Memory, refusal: &Refusal) -> Decision {
    match refusal {
        Refusal::Impossible(_) | Refusal::NoRoom(_) => {
            Decision::is(LayoutState::Refused, refusal.to_string())
        }
        Refusal::Unlike(_) => Decision::is(LayoutState::Failed, refusal.to_string()),
        Refusal::InTheWay(instances) => waiting(
            look,
            mig,
            memory,
            "in use, or not free for long, and in the way of the wanted layout",
            instances,
        ),
    }
}

/// What is in the way, and when that would change by itself.
fn waiting(look: &Look<'_>, mig: &Mig, memory: &Memory, why: &str, instances: &[Instance]) -> Decision {
    let words: Vec<String> = instances.iter().map(ToString::to_string).collect();
    let strangers = mig.instances.iter().filter(|seen| instances.contains(&as_planned(seen)));
    let from =
        strangers.filter_map(|seen| memory.destroyable_from(seen)).filter(|from| look.now < *from).min();
    let message = format!("{why}: {}{}", words.join(", "), unknown(look.claims));
    Decision::is(LayoutState::Waiting, message).again(from)
}

fn unknown(claims: &Claims) -> String {
    match claims {
        Claims::Known(_) => String::new(),
        Claims::Unknown(reason) => format!("; which pods have which devices is not known: {reason}"),
    }
}

#[cfg(test)]
mod tests;
