//! What a state of affairs is worth.

use std::{cmp::Ordering, collections::BTreeSet};

use super::board::{Board, Member, Who};
use crate::placement::Choice;

/// What a state of affairs is worth: first what works, less what is lost by moving and stopping, then how near together gangs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Worth {
    /// For every job that has its place, its weight times its GPUs times the horizon; less, for each that left home, its weight times
    /// its GPUs times the time that it has to make up for. In thousandths of a GPU and milliseconds.
    pub gain: i128,
    /// In how many domains gangs are, level by level.
    pub domains: i64,
    /// On how many nodes gangs are.
    pub nodes: i64,
}

impl Ord for Worth {
    fn cmp(&self, other: &Self) -> Ordering {
        let less = |a: (i64, i64), b: (i64, i64)| b.cmp(&a);
        self.gain.cmp(&other.gain).then(less((self.domains, self.nodes), (other.domains, other.nodes)))
    }
}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::ops::AddAssign for Worth {
    fn add_assign(&mut self, other: Self) {
        self.gain += other.gain;
        self.domains += other.domains;
        self.nodes += other.nodes;
    }
}

impl std::ops::Sub for Worth {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            gain: self.gain - other.gain,
            domains: self.domains - other.domains,
            nodes: self.nodes - other.nodes,
        }
    }
}

impl Board {
    /// What all jobs are worth where they are.
    pub(super) fn worth(&self, horizon: u32) -> Worth {
        let mut sum = Worth::default();
        for who in 0..self.members.len() {
            sum += self.worth_of(who, horizon);
        }
        sum
    }

    /// What one job is worth where it is.
    pub(super) fn worth_of(&self, who: Who, horizon: u32) -> Worth {
        self.members.get(who).map_or_else(Worth::default, |member| {
            self.worth_at(member, self.at(who).map(Vec::as_slice), horizon)
        })
    }

    /// What one job would be worth there; `None` is nowhere.
    pub(super) fn worth_at(&self, member: &Member, at: Option<&[Choice]>, horizon: u32) -> Worth {
        let weight = i128::from(member.job.weight);
        let mut worth = Worth::default();
        if let Some(spots) = at {
            worth.gain = weight * self.milli(member, spots) * i128::from(horizon);
            let nodes: BTreeSet<u32> = spots.iter().map(|choice| choice.node.0).collect();
            worth.nodes = i64::try_from(nodes.len()).unwrap_or(i64::MAX);
            for level in 1..=self.cluster.domains.lowest() {
                let domains: BTreeSet<u32> = nodes.iter().map(|node| self.domain_of(level, *node)).collect();
                worth.domains += i64::try_from(domains.len()).unwrap_or(i64::MAX);
            }
        }
        if let Some(home) = &member.home
            && at != Some(home.as_slice())
        {
            worth.gain -= weight * self.milli(member, home) * i128::from(member.loss);
        }
        worth
    }

    /// Thousandths of GPUs; at least one for a job without GPUs, so that it is worth something too.
    pub(super) fn milli(&self, member: &Member, spots: &[Choice]) -> i128 {
        let shape = &member.job.shape;
        let of = |choice: &Choice| {
            let kind = self.cluster.node(choice.node).map(|node| &node.kind);
            let milli = kind.and_then(|kind| shape.per_gpu(kind)).unwrap_or_default() * shape.count();
            i128::from(milli.max(1))
        };
        spots.iter().map(of).sum()
    }
}
