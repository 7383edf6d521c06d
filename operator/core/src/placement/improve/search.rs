//! The steps: take a domain, take out who is cheapest, place the gang, put the others back, keep it if it is no worse.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    board::{Board, Spots, Who},
    dice::Dice,
    job::{Leave, Snapshot, SnapshotError},
    proposal::{self, Proposal},
    worth::Worth,
};
use crate::placement::{TaskMix, Weights};

/// For how long to search, and for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Nodes looked at and tasks placed. The step that begins within it is finished.
    pub units: u64,
    /// Another seed takes other steps.
    pub seed: u64,
    /// For how long a place is taken to be held, in milliseconds: that long a gang that is started works, against what those lose who
    /// make room.
    pub horizon: u32,
}

/// What came of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Improvement {
    /// What to do, in parts that do not depend on each other.
    pub proposals: Vec<Proposal>,
    /// What the snapshot is worth.
    pub before: Worth,
    /// What it is worth with all proposals. Never less.
    pub after: Worth,
    /// Steps that were taken.
    pub steps: u64,
    /// Units that were spent.
    pub spent: u64,
}

/// No more are taken out in one step.
const VICTIMS: usize = 48;
/// Steps that find nothing better, after which the search goes back to the best.
const PATIENCE: u64 = 200;
/// Steps without any work, on a cluster on which nothing can be done, after which the search ends.
const IDLE_STEPS: u64 = 64;

/// Looks for a better state of affairs than the snapshot's, for blocked gangs first of all.
pub fn improve(
    snapshot: &Snapshot,
    mix: &TaskMix,
    weights: Weights,
    budget: &Budget,
) -> Result<Improvement, SnapshotError> {
    let board = Board::new(snapshot, mix, weights)?;
    let before = board.worth(budget.horizon);
    let mut search = Search::new(board, budget);
    let mut steps = search.construct(budget.units);
    let mut idle = 0;
    while search.spent < budget.units && idle < IDLE_STEPS {
        let spent = search.spent;
        search.step();
        steps += 1;
        idle = if search.spent == spent { idle + 1 } else { 0 };
    }
    search.return_to_best();
    let Search { board, spent, .. } = search;
    let after = board.worth(budget.horizon);
    Ok(Improvement { proposals: proposal::of(&board, budget.horizon), before, after, steps, spent })
}

pub(super) struct Search {
    pub(super) board: Board,
    pub(super) dice: Dice,
    pub(super) horizon: u32,
    spent: u64,
    /// What the board is worth as it is.
    worth: Worth,
    /// The best that it ever was: the incumbent.
    best: Best,
    /// Steps since then.
    since: u64,
}

struct Best {
    worth: Worth,
    at: Vec<Option<Spots>>,
}

/// Where those were that were touched.
type Undo = BTreeMap<Who, Option<Spots>>;

impl Search {
    fn new(board: Board, budget: &Budget) -> Self {
        let worth = board.worth(budget.horizon);
        let best = Best { worth, at: board.everybody() };
        Self { board, dice: Dice::new(budget.seed), horizon: budget.horizon, spent: 0, worth, best, since: 0 }
    }

    fn everywhere(&self) -> Range<u32> {
        0..u32::try_from(self.board.cluster.nodes.len()).unwrap_or(u32::MAX)
    }

    /// Starts whoever fits as things are, by priority and then in the order in which they wait.
    fn construct(&mut self, units: u64) -> u64 {
        let mut waiting = self.waiting();
        waiting.sort_by_key(|who| {
            std::cmp::Reverse(self.board.members.get(*who).map(|member| member.job.priority))
        });
        let mut steps = 0;
        for who in waiting {
            if self.spent >= units {
                break;
            }
            self.insert(who, &self.everywhere());
            steps += 1;
        }
        self.worth = self.board.worth(self.horizon);
        self.note_best();
        steps
    }

    /// Keeps what is at hand, if it is better than ever.
    fn note_best(&mut self) {
        self.since += 1;
        if self.worth > self.best.worth {
            self.prune();
            self.worth = self.board.worth(self.horizon);
            self.best = Best { worth: self.worth, at: self.board.everybody() };
            self.since = 0;
        }
    }

    fn return_to_best(&mut self) {
        let best = self.best.at.iter().cloned().enumerate();
        let changed = best.filter(|(who, at)| self.board.at(*who) != at.as_ref()).collect();
        self.undo(changed);
        self.worth = self.best.worth;
        self.since = 0;
    }

    fn insert(&mut self, who: Who, scope: &Range<u32>) -> bool {
        self.board.insert(who, scope, &mut self.dice, &mut self.spent)
    }

    pub(super) fn waiting(&self) -> Vec<Who> {
        (0..self.board.members.len()).filter(|who| self.board.at(*who).is_none()).collect()
    }

    fn step(&mut self) {
        let Some(target) = self.target() else { return };
        let Some(scope) = self.scope(target) else { return };
        let mut undo = Undo::new();
        self.lift(target, &mut undo);
        let mut victims = self.victims(target, &scope);
        let mut out = BTreeSet::new();
        // Now and then all of them: what is put back by another order may lie better.
        let all = self.dice.once_in(3);
        victims.truncate(VICTIMS);
        for victim in victims {
            if !all && self.board.has_room(target, &scope, &mut self.dice, &mut self.spent) {
                break;
            }
            self.lift(victim, &mut undo);
            out.insert(victim);
        }
        let mut order = self.in_order(out);
        // Mostly the gang goes first: that is what the room was made for.
        if all && self.dice.once_in(2) {
            order.push(target);
            order = self.in_order(order);
        } else if !self.insert(target, &scope) {
            self.undo(undo);
            return;
        }
        for who in order {
            if !self.return_home(who) && !self.insert(who, &scope) {
                self.insert(who, &self.everywhere());
            }
        }
        for who in self.others() {
            undo.entry(who).or_insert(None);
            self.insert(who, &self.everywhere());
        }
        let mut worth = self.worth;
        worth += self.change(&undo);
        if self.is_allowed()
            && (worth >= self.worth || worth.gain >= self.best.worth.gain - self.slack(target))
        {
            self.worth = worth;
            self.note_best();
        } else {
            self.undo(undo);
            self.since += 1;
        }
        if self.since > PATIENCE {
            self.return_to_best();
        }
    }

    fn lift(&mut self, who: Who, undo: &mut Undo) {
        let spots = self.board.lift(who);
        undo.entry(who).or_insert(spots);
    }

    fn return_home(&mut self, who: Who) -> bool {
        let home = self.board.members.get(who).and_then(|member| member.home.clone());
        home.is_some_and(|home| {
            self.spent += u64::try_from(home.len()).unwrap_or_default();
            self.board.put(who, &home)
        })
    }

    fn undo(&mut self, undo: Undo) {
        for who in undo.keys() {
            self.board.lift(*who);
        }
        for (who, spots) in undo {
            if let Some(spots) = spots {
                self.board.put(who, &spots);
            }
        }
    }

    /// Whether nobody is stopped who may not be, or for whom he may not be.
    fn is_allowed(&self) -> bool {
        self.board.members.iter().enumerate().all(|(who, member)| {
            let Some(home) = &member.home else { return true };
            self.board.at(who).is_some()
                || (member.leave == Leave::Stop && {
                    let newcomers = home.iter().flat_map(|choice| {
                        let node = choice.node;
                        let here = move |other: &Who| !self.was_on(*other, node);
                        self.board.on(node).filter(here)
                    });
                    let mut newcomers =
                        newcomers.filter_map(|other| self.board.members.get(other)).peekable();
                    newcomers.peek().is_some()
                        && newcomers.all(|other| other.job.priority > member.job.priority)
                })
        })
    }

    fn was_on(&self, who: Who, node: crate::placement::NodeId) -> bool {
        let home = self.board.members.get(who).and_then(|member| member.home.as_ref());
        home.is_some_and(|home| home.iter().any(|choice| choice.node == node))
    }

    /// By how much things changed for those that were touched.
    fn change(&self, undo: &Undo) -> Worth {
        let mut change = Worth::default();
        for (who, before) in undo {
            if let Some(member) = self.board.members.get(*who) {
                let was = self.board.worth_at(member, before.as_deref(), self.horizon);
                change += self.board.worth_of(*who, self.horizon) - was;
            }
        }
        change
    }

    /// Takes back what by itself makes things worse.
    fn prune(&mut self) {
        for part in proposal::parts(&self.board) {
            if proposal::gain(&self.board, &part, self.horizon) < Worth::default() {
                self.undo(part.into_iter().map(|who| (who, self.home(who))).collect());
            }
        }
    }

    fn home(&self, who: Who) -> Option<Spots> {
        self.board.members.get(who).and_then(|member| member.home.clone())
    }
}
