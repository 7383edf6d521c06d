//! What a step is about, as the dice have it: for whom, where, who leaves, and in what order they come back.

use std::{collections::BTreeSet, ops::Range};

use super::{board::Who, job::Leave, search::Search};

/// Of so many domains, drawn by the dice, the one with the most free GPUs is looked at.
const DOMAINS: usize = 3;
/// So many others that wait are offered room in one step.
const OTHERS: usize = 12;
/// How finely the dice divide what a gang is worth.
const SLACK: usize = 64;

impl Search {
    /// By how much a step may leave things worse than the best, so that a way around is found: mostly by less than the gang is worth.
    pub(super) fn slack(&mut self, target: Who) -> i128 {
        let Some(member) = self.board.members.get(target) else { return 0 };
        let gpus = i128::from(member.job.count) * i128::from(member.job.shape.count().max(1)) * 1000;
        let part = i128::try_from(self.dice.below(SLACK)).unwrap_or_default();
        i128::from(member.job.weight) * gpus * i128::from(self.horizon) * part
            / i128::try_from(SLACK).unwrap_or(1)
    }

    /// Whom the step is for: mostly one that waits.
    pub(super) fn target(&mut self) -> Option<Who> {
        let waiting = self.waiting();
        if !waiting.is_empty() && !self.dice.once_in(4) {
            return self.dice.pick(&waiting);
        }
        let members = self.board.members.iter().enumerate();
        let movable: Vec<Who> =
            members.filter(|(_, member)| !member.is_fixed()).map(|(who, _)| who).collect();
        self.dice.pick(&movable)
    }

    /// The nodes that the step is about: a domain no wider than the gang may be spread over.
    pub(super) fn scope(&mut self, target: Who) -> Option<Range<u32>> {
        let widest = self.board.members.get(target)?.job.widest;
        let levels = self.board.cluster.domains.lowest() + 1 - widest;
        let level = widest + self.dice.below(levels);
        let count = self.board.cluster.domains.at(level).len();
        let drawn: Vec<usize> = (0..DOMAINS).map(|_| self.dice.below(count)).collect();
        let domains = drawn.into_iter().filter_map(|index| {
            let nodes = self.board.cluster.domains.at(level).get(index)?.nodes.clone();
            let free: u64 = nodes.clone().map(|node| u64::from(self.free(node))).sum();
            Some((free, nodes))
        });
        domains.max_by_key(|(free, nodes)| (*free, std::cmp::Reverse(nodes.start))).map(|(_, nodes)| nodes)
    }

    fn free(&self, node: u32) -> u32 {
        let node = usize::try_from(node).ok().and_then(|node| self.board.cluster.nodes.get(node));
        node.map_or(0, crate::placement::Node::free_gpu)
    }

    /// Who could leave these nodes, the cheapest for each GPU first, as the dice bend it.
    pub(super) fn victims(&mut self, target: Who, scope: &Range<u32>) -> Vec<Who> {
        let mut priced = Vec::new();
        for who in self.board.movable_on(scope.clone()) {
            let Some(member) = self.board.members.get(who) else { continue };
            let horizon = u64::from(self.horizon);
            // One that can only move is put back or the step is void; the others may lose their place.
            let risk = if member.home.is_some() && member.leave == Leave::Move { 0 } else { horizon / 2 };
            let loss = if member.home.is_some() { member.loss } else { 0 };
            let price = u128::from(member.job.weight) * u128::from(loss + risk);
            let bent = price * u128::try_from(512 + self.dice.below(1024)).unwrap_or(1024);
            if who != target {
                priced.push((bent, who));
            }
        }
        priced.sort_unstable();
        priced.into_iter().map(|(_, who)| who).collect()
    }

    /// The most valuable first, as the dice bend it.
    pub(super) fn in_order(&mut self, who: impl IntoIterator<Item = Who>) -> Vec<Who> {
        let mut order: Vec<(bool, u128, Who)> = Vec::new();
        for who in who {
            let Some(member) = self.board.members.get(who) else { continue };
            let tasks = u128::from(member.counts().1) * u128::from(member.job.shape.count().max(1));
            let value = u128::from(member.job.weight) * tasks;
            let bent = value * u128::try_from(512 + self.dice.below(1024)).unwrap_or(1024);
            let may_wait = member.home.is_none() || member.leave == Leave::Stop;
            order.push((may_wait, u128::MAX - bent, who));
        }
        order.sort_unstable();
        order.into_iter().map(|(.., who)| who).collect()
    }

    /// Some of those that wait.
    pub(super) fn others(&mut self) -> Vec<Who> {
        let waiting = self.waiting();
        let some: BTreeSet<Who> = (0..OTHERS).filter_map(|_| self.dice.pick(&waiting)).collect();
        self.in_order(some)
    }
}
