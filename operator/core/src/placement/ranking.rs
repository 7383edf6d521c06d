//! The nodes of a cluster in the order of their scores for one shape: a tournament, of which only the matches of nodes that
//! changed are played again.

use super::score::Score;

/// What decides between nodes with equal scores: what is free of GPUs and of CPU (the fullest first), the fingerprint, and
/// last the index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Tie {
    pub(super) gpu: u32,
    pub(super) cpu: u32,
    pub(super) fingerprint: u64,
}

/// The score of a node on which it does not fit.
pub(super) const NOWHERE: Score = Score::MAX;

/// A tournament of nodes. Leaf `n` of the tree is node `n`; above, each match has the index of its winner.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    scores: Vec<Score>,
    /// The winner of match `m`, whose children are `2m` and `2m + 1`; the matches of leaves begin at `leaves / 2`.
    winners: Vec<u32>,
    leaves: usize,
}

impl Ranking {
    /// A tournament of so many nodes, none of which fits.
    pub(super) fn new(nodes: usize) -> Self {
        let leaves = nodes.max(2).next_power_of_two();
        let mut ranking = Self { scores: vec![NOWHERE; nodes], winners: vec![0; leaves], leaves };
        // Until somebody fits, the first node of each match has won it.
        for at in (1..leaves).rev() {
            let winner = ranking.contender(at * 2);
            if let Some(place) = ranking.winners.get_mut(at) {
                *place = winner;
            }
        }
        ranking
    }

    /// The score of a node.
    pub(super) fn score(&self, node: u32) -> Score {
        usize::try_from(node).ok().and_then(|node| self.scores.get(node)).copied().unwrap_or(NOWHERE)
    }

    /// Sets the score of a node, without playing its matches.
    pub(super) fn set(&mut self, node: u32, score: Score) {
        if let Some(place) = usize::try_from(node).ok().and_then(|node| self.scores.get_mut(node)) {
            *place = score;
        }
    }

    /// Plays all matches of a node again.
    pub(super) fn replay(&mut self, node: u32, ties: &[Tie]) {
        let mut at = usize::midpoint(self.leaves, usize::try_from(node).unwrap_or_default());
        while at >= 1 {
            self.play(at, ties);
            at /= 2;
        }
    }

    /// Plays all matches again.
    pub(super) fn replay_all(&mut self, ties: &[Tie]) {
        for at in (1..self.leaves).rev() {
            self.play(at, ties);
        }
    }

    /// The best node; `None` if it fits on none.
    pub(super) fn best(&self) -> Option<u32> {
        let best = self.winners.get(1).copied()?;
        (self.score(best) != NOWHERE).then_some(best)
    }

    fn play(&mut self, at: usize, ties: &[Tie]) {
        let winner = self.winner(self.contender(at * 2), self.contender(at * 2 + 1), ties);
        if let Some(place) = self.winners.get_mut(at) {
            *place = winner;
        }
    }

    /// Who comes out of a place in the tree: a node, or the winner of a match.
    fn contender(&self, at: usize) -> u32 {
        match at.checked_sub(self.leaves) {
            Some(node) => u32::try_from(node).unwrap_or(u32::MAX),
            None => self.winners.get(at).copied().unwrap_or(u32::MAX),
        }
    }

    fn winner(&self, a: u32, b: u32, ties: &[Tie]) -> u32 {
        let (of_a, of_b) = (self.score(a), self.score(b));
        if of_a != of_b {
            return if of_a < of_b { a } else { b };
        }
        if of_a == NOWHERE {
            return a.min(b);
        }
        let tie = |node: u32| usize::try_from(node).ok().and_then(|node| ties.get(node));
        if (tie(a), a) <= (tie(b), b) { a } else { b }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_winner_is_the_smallest_of_all_whatever_changed(
            nodes in 1_u32..40,
            changes in prop::collection::vec((0_u32..40, prop::option::weighted(0.8, 0_i64..4), 0_u32..3), 1..60),
        ) {
            let mut ranking = Ranking::new(nodes as usize);
            let mut ties = vec![Tie { gpu: 0, cpu: 0, fingerprint: 0 }; nodes as usize];
            prop_assert_eq!(ranking.best(), None);
            for (node, score, tie) in changes {
                let node = node % nodes;
                ties[node as usize].gpu = tie;
                ranking.set(node, score.unwrap_or(NOWHERE));
                ranking.replay(node, &ties);
                let order = |node: &u32| (ranking.score(*node), ties[*node as usize], *node);
                let smallest = (0..nodes).filter(|node| ranking.score(*node) != NOWHERE).min_by_key(order);
                prop_assert_eq!(ranking.best(), smallest);
                let mut anew = ranking.clone();
                anew.replay_all(&ties);
                prop_assert_eq!(anew.winners, ranking.winners.clone());
            }
        }
    }
}
