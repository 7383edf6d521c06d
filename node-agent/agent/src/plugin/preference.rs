//! Which of the free devices go together well. Pure.
//!
//! *Whole GPUs.* Those are chosen that have the most NVLinks among them; of choices that have as many, the one that leaves
//! the most to who comes next; and then the same of PCIe. So one GPU comes from where it breaks up least, and four come
//! from one NVLink island if there is one that has four.
//!
//! *MIG instances.* Instances of different GPUs never talk to each other over NVLink, so closeness is no matter. Those
//! are chosen whose GPUs have the fewest others free: what is used is packed, and whole GPUs stay free to be divided anew.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    offer::{Offer, place},
    unit::{Closeness, Unit},
};
use crate::device::Uuid;

/// Of how many choices each is looked at. Eight of sixteen GPUs are 12,870. Beyond, a good one is grown.
const ALL: u128 = 20_000;

/// What a choice is worth, greatest first: the NVLinks in it, those that it leaves, and the same of PCIe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Worth {
    nvlinks: u64,
    nvlinks_left: u64,
    pcie: u64,
    pcie_left: u64,
}

impl Worth {
    fn have(&mut self, Closeness { nvlinks, pcie }: Closeness) {
        self.nvlinks += u64::from(nvlinks);
        self.pcie += u64::from(pcie);
    }

    fn leave(&mut self, Closeness { nvlinks, pcie }: Closeness) {
        self.nvlinks_left += u64::from(nvlinks);
        self.pcie_left += u64::from(pcie);
    }
}

/// Chooses `size` of the `available` devices, those of `required` among them. What the offer does not know, or knows as
/// unhealthy, is chosen last: the kubelet may be ahead of us or behind. Fewer are chosen if there are not so many.
pub fn prefer(offer: &Offer, available: &[String], required: &[String], size: usize) -> Vec<String> {
    let required = required.iter().map(String::as_str).collect::<BTreeSet<_>>();
    let all = available.iter().map(String::as_str).chain(required.iter().copied()).collect::<BTreeSet<_>>();
    let mut known = offer.units.iter().filter(|unit| all.contains(unit.id.as_str())).collect::<Vec<_>>();
    known.sort_by(|a, b| place(a).cmp(&place(b)));
    let (fixed, free) = known.iter().partition::<Vec<&Unit>, _>(|unit| required.contains(unit.id.as_str()));
    let free = free.into_iter().filter(|unit| unit.unhealthy.is_none()).collect::<Vec<_>>();
    let wanted = size.saturating_sub(required.len());

    let chosen = if known.iter().any(|unit| unit.instance.is_some()) {
        pack(&fixed, &free, wanted)
    } else {
        Closest::new(offer, &fixed, &free).choose(wanted)
    };
    let mut answer = required.iter().copied().collect::<Vec<_>>();
    answer.extend(chosen.iter().map(|unit| unit.id.as_str()));
    let rest = all.into_iter().filter(|id| !answer.contains(id)).collect::<Vec<_>>();
    answer.extend(rest.into_iter().take(size.saturating_sub(answer.len())));
    answer.into_iter().map(str::to_owned).collect()
}

/// Instances, those of the fullest GPUs first.
fn pack<'a>(fixed: &[&'a Unit], free: &[&'a Unit], wanted: usize) -> Vec<&'a Unit> {
    let mut left = BTreeMap::<&Uuid, usize>::new();
    for unit in free {
        *left.entry(&unit.gpu).or_default() += 1;
    }
    let joined = fixed.iter().map(|unit| &unit.gpu).collect::<BTreeSet<_>>();
    let mut free = free.to_vec();
    // A GPU that the container has a part of already goes first.
    free.sort_by(|a, b| {
        let key = |unit: &Unit| (Reverse(joined.contains(&unit.gpu)), left.get(&unit.gpu).copied());
        key(a).cmp(&key(b)).then_with(|| place(a).cmp(&place(b)))
    });
    free.truncate(wanted);
    free
}

/// The search for GPUs that are close. Closeness is a matrix here, GPUs are numbers: first the fixed ones, then the free.
struct Closest<'a> {
    units: Vec<&'a Unit>,
    fixed: usize,
    matrix: Vec<Closeness>,
}

impl<'a> Closest<'a> {
    fn new(offer: &Offer, fixed: &[&'a Unit], free: &[&'a Unit]) -> Self {
        let units = fixed.iter().chain(free).copied().collect::<Vec<_>>();
        let mut matrix = Vec::with_capacity(units.len() * units.len());
        for a in &units {
            for b in &units {
                matrix.push(offer.links.get(&(a.gpu.clone(), b.gpu.clone())).copied().unwrap_or_default());
            }
        }
        Self { units, fixed: fixed.len(), matrix }
    }

    fn between(&self, a: usize, b: usize) -> Closeness {
        self.matrix.get(a * self.units.len() + b).copied().unwrap_or_default()
    }

    fn choose(&self, wanted: usize) -> Vec<&'a Unit> {
        let free = self.units.len() - self.fixed;
        let wanted = wanted.min(free);
        let chosen = if choices(free, wanted) <= ALL { self.best_of_all(wanted) } else { self.grown(wanted) };
        chosen.into_iter().filter_map(|at| self.units.get(at).copied()).collect()
    }

    fn worth(&self, chosen: &[usize]) -> Worth {
        let mut taken = vec![false; self.units.len()];
        for at in (0..self.fixed).chain(chosen.iter().copied()) {
            if let Some(slot) = taken.get_mut(at) {
                *slot = true;
            }
        }
        let mut worth = Worth::default();
        for (a, in_a) in taken.iter().enumerate() {
            for (b, in_b) in taken.iter().enumerate().skip(a + 1) {
                match (in_a, in_b) {
                    (true, true) => worth.have(self.between(a, b)),
                    (false, false) => worth.leave(self.between(a, b)),
                    _ => {}
                }
            }
        }
        worth
    }

    /// Looks at every choice, in the order of the GPUs: of equals the first stays.
    fn best_of_all(&self, wanted: usize) -> Vec<usize> {
        let mut choice = (self.fixed..self.fixed + wanted).collect::<Vec<_>>();
        let (mut best, mut worth) = (choice.clone(), self.worth(&choice));
        while self.next(&mut choice) {
            let found = self.worth(&choice);
            if found > worth {
                (best, worth) = (choice.clone(), found);
            }
        }
        best
    }

    /// The next choice in lexicographic order, if there is one.
    fn next(&self, choice: &mut [usize]) -> bool {
        let (total, wanted) = (self.units.len(), choice.len());
        let Some(turn) = choice.iter().enumerate().rposition(|(at, &unit)| unit < total - wanted + at) else {
            return false;
        };
        let mut unit = choice.get(turn).copied().unwrap_or_default();
        for slot in choice.iter_mut().skip(turn) {
            unit += 1;
            *slot = unit;
        }
        true
    }

    /// From each GPU a choice is grown by the GPU that is closest to what it has. The best of them is taken.
    fn grown(&self, wanted: usize) -> Vec<usize> {
        let free = self.fixed..self.units.len();
        let mut best: Option<(Vec<usize>, Worth)> = None;
        for seed in free.clone() {
            let mut choice = vec![seed];
            while choice.len() < wanted {
                let next = free.clone().filter(|at| !choice.contains(at)).max_by_key(|&at| {
                    let mut worth = Worth::default();
                    for other in (0..self.fixed).chain(choice.iter().copied()) {
                        worth.have(self.between(at, other));
                    }
                    (worth, Reverse(at))
                });
                let Some(next) = next else { break };
                choice.push(next);
            }
            choice.sort_unstable();
            let worth = self.worth(&choice);
            if best.as_ref().is_none_or(|(_, before)| worth > *before) {
                best = Some((choice, worth));
            }
        }
        best.map(|(choice, _)| choice).unwrap_or_default()
    }
}

/// How many choices there are of `k` out of `n`, or very many.
fn choices(n: usize, k: usize) -> u128 {
    let k = k.min(n - k.min(n));
    (0..k).fold(1_u128, |sum, at| sum.saturating_mul((n - at) as u128) / (at as u128 + 1))
}
