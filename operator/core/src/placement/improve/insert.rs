//! Where a gang has room in a part of the cluster, and how it gets there.
//!
//! As on the decision path: the lowest level on which one domain has room for all, there the domain with the least room, in it
//! the tightest domains and nodes. Now and then the dice choose another domain that has room.

use std::ops::Range;

use super::{
    board::{Board, Who},
    dice::Dice,
};
use crate::placement::{Choice, NodeId};

/// One in so many domains is not the tightest.
const ODD: usize = 4;

/// The room for one job on a range of nodes.
struct Rooms<'a> {
    board: &'a Board,
    scope: Range<u32>,
    /// What fits on each node.
    nodes: Vec<u32>,
    /// What fits on all nodes before this one.
    before: Vec<u64>,
}

/// So many tasks on each of these nodes.
type Drawn = Vec<(u32, u32)>;

impl Board {
    /// Puts a job that waits where it has room within these nodes, whole or as far as it makes do with. `false`, and nothing changes, if there
    /// is none. `spent` grows by the nodes that were looked at and the tasks that were placed.
    pub(super) fn insert(&mut self, who: Who, scope: &Range<u32>, dice: &mut Dice, spent: &mut u64) -> bool {
        let Some(drawn) = self.draw(who, scope, dice, spent) else { return false };
        let Some(shape) = self.members.get(who).map(|member| member.shape) else { return false };
        let mut placed: Vec<Choice> = Vec::new();
        for node in drawn.iter().flat_map(|(node, count)| (0..*count).map(|_| NodeId(*node))) {
            *spent += 1;
            let choice = self.cluster.score_on(shape, node).map(|(_, devices)| Choice { node, devices });
            match choice {
                Some(choice) if self.cluster.place(shape, &choice).is_ok() => placed.push(choice),
                _ => {
                    self.take_back(shape, &placed);
                    return false;
                }
            }
        }
        self.sit(who, placed);
        true
    }

    /// Whether there is room within these nodes.
    pub(super) fn has_room(&self, who: Who, scope: &Range<u32>, dice: &mut Dice, spent: &mut u64) -> bool {
        self.draw(who, scope, dice, spent).is_some()
    }

    fn draw(&self, who: Who, scope: &Range<u32>, dice: &mut Dice, spent: &mut u64) -> Option<Drawn> {
        *spent += u64::from(scope.end - scope.start);
        let member = self.members.get(who)?;
        let rooms = Rooms::new(self, who, scope.clone());
        let (least, most) = member.counts();
        let widest = member.job.widest;
        rooms.draw(widest, most, dice).or_else(|| {
            let fewer = rooms.widest_room(widest).min(most);
            if fewer >= least && fewer > 0 { rooms.draw(widest, fewer, dice) } else { None }
        })
    }
}

impl<'a> Rooms<'a> {
    fn new(board: &'a Board, who: Who, scope: Range<u32>) -> Self {
        let nodes: Vec<u32> = scope.clone().map(|node| room(board, who, node)).collect();
        let mut before = vec![0];
        let mut sum = 0;
        for room in &nodes {
            sum += u64::from(*room);
            before.push(sum);
        }
        Self { board, scope, nodes, before }
    }

    /// What fits on one node.
    fn on(&self, node: u32) -> u32 {
        let index = node.checked_sub(self.scope.start).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.nodes.get(index)).copied().unwrap_or_default()
    }

    /// What fits on a range of them.
    fn within(&self, nodes: &Range<u32>) -> u32 {
        let sum = |end: u32| {
            let index = end.checked_sub(self.scope.start).and_then(|index| usize::try_from(index).ok());
            index.and_then(|index| self.before.get(index)).copied().unwrap_or_default()
        };
        u32::try_from(sum(nodes.end).saturating_sub(sum(nodes.start))).unwrap_or(u32::MAX)
    }

    /// The domains of a level within these nodes, as far as they are in scope.
    fn domains(&self, level: usize, nodes: &Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let all = self.board.cluster.domains.at(level);
        let first = all.partition_point(|domain| domain.nodes.end <= nodes.start);
        let (start, end) = (nodes.start, nodes.end);
        all.iter()
            .skip(first)
            .map(|domain| domain.nodes.clone())
            .take_while(move |domain| domain.start < end)
            .map(move |domain| domain.start.max(start)..domain.end.min(end))
    }

    /// What fits into the domain of a level that has the most room.
    fn widest_room(&self, level: usize) -> u32 {
        self.domains(level, &self.scope).map(|domain| self.within(&domain)).max().unwrap_or_default()
    }

    fn draw(&self, widest: usize, count: u32, dice: &mut Dice) -> Option<Drawn> {
        let lowest = self.board.cluster.domains.lowest();
        let odd = dice.once_in(ODD);
        for level in (widest..=lowest + 1).rev() {
            let fitting: Vec<(u32, u32, Range<u32>)> = if level > lowest {
                let nodes = self.scope.clone().filter(|node| self.on(*node) >= count);
                nodes.map(|node| (self.on(node), self.free(node), node..node + 1)).collect()
            } else {
                let domains = self.domains(level, &self.scope);
                domains
                    .map(|nodes| (self.within(&nodes), 0, nodes))
                    .filter(|(room, ..)| *room >= count)
                    .collect()
            };
            let tightest = fitting.iter().min_by_key(|(room, free, nodes)| (*room, *free, nodes.start));
            let chosen = if odd { fitting.get(dice.below(fitting.len())) } else { tightest };
            if let Some((_, _, nodes)) = chosen {
                let mut drawn = Vec::new();
                self.spread(level, nodes, count, &mut drawn)?;
                drawn.sort_unstable();
                return Some(drawn);
            }
        }
        None
    }

    /// Spreads so many tasks over a domain that has room for them.
    fn spread(&self, level: usize, nodes: &Range<u32>, mut count: u32, drawn: &mut Drawn) -> Option<()> {
        let inner: Vec<Range<u32>> = if level < self.board.cluster.domains.lowest() {
            self.domains(level + 1, nodes).collect()
        } else {
            nodes.clone().map(|node| node..node + 1).collect()
        };
        let leaves = level >= self.board.cluster.domains.lowest();
        let free = |nodes: &Range<u32>| if leaves { self.free(nodes.start) } else { 0 };
        let mut left: Vec<(u32, u32, Range<u32>)> = inner
            .into_iter()
            .map(|nodes| (self.within(&nodes), free(&nodes), nodes))
            .filter(|(room, ..)| *room > 0)
            .collect();
        left.sort_unstable_by_key(|(room, free, nodes)| (*room, *free, nodes.start));
        while count > 0 {
            // The tightest that has room for all, else the roomiest.
            let at = left.partition_point(|(room, ..)| *room < count).min(left.len().checked_sub(1)?);
            let (room, _, nodes) = left.remove(at);
            let here = room.min(count);
            if leaves {
                drawn.push((nodes.start, here));
            } else {
                self.spread(level + 1, &nodes, here, drawn)?;
            }
            count -= here;
        }
        Some(())
    }

    fn free(&self, node: u32) -> u32 {
        self.board.cluster.node(NodeId(node)).map_or(0, crate::placement::Node::free_gpu)
    }
}

/// How many tasks of a job fit on a node.
fn room(board: &Board, who: Who, node: u32) -> u32 {
    let (Some(member), Some(on)) = (board.members.get(who), board.cluster.node(NodeId(node))) else {
        return 0;
    };
    let shape = &member.job.shape;
    let most = if member.job.apart.is_some() { 1 } else { member.job.count };
    if board.label_count(who, node) > 0 {
        return 0;
    }
    shape.per_gpu(&on.kind).map_or(0, |per_gpu| on.count(shape, per_gpu, most))
}
