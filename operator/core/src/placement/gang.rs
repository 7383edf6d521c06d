//! Where a gang is placed: many tasks of one shape, all or none.
//!
//! The level is the lowest on which one domain has room for all: a node, else the lowest domains, else wider ones, up to the
//! widest that the gang may be spread over. If that is nowhere, and the gang makes do with fewer, as many as fit. Of the domains of that level those with the
//! least room are tried; in each the tasks go down to the domains that they fit into most tightly, and on to nodes, and the
//! placement on the fewest nodes is taken, of those the one with the smallest score. Spots lie in the order of the topology,
//! so consecutive ranks are near each other.

use super::{
    cluster::{Choice, Cluster, NodeId, PlacementError, ShapeId, View},
    domains::Domains,
};

/// Tasks that start together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gang {
    /// The shape of each.
    pub shape: ShapeId,
    /// How many there are.
    pub count: u32,
    /// How many are enough.
    pub min_count: u32,
    /// The widest level of domains that they may be spread over; 0 is the whole cluster.
    pub widest: usize,
}

/// On which level a gang fits, and with how many tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fit {
    /// The level of the domain that all of them are in; one more than the lowest level of domains if that is a node.
    pub level: usize,
    /// How many.
    pub count: u32,
}

/// The tasks of a gang on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The node.
    pub node: NodeId,
    /// How many tasks.
    pub count: u32,
}

/// Where a gang would be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GangPlacement {
    /// On which level it is together.
    pub level: usize,
    /// The nodes, in the order of the topology.
    pub spots: Vec<Spot>,
}

/// How many domains of the level are tried.
const TRIES: usize = 4;

impl Cluster {
    /// The lowest level on which a gang fits; `None` if it fits nowhere.
    pub fn fit(&mut self, gang: &Gang) -> Option<Fit> {
        self.count(gang.shape)?;
        let view = self.view(gang.shape)?;
        let lowest = self.domains.lowest();
        let most = |level: usize| {
            if level > lowest {
                view.counts.most_on_a_node()
            } else {
                view.counts.at(level).iter().copied().max().unwrap_or_default()
            }
        };
        let levels = gang.widest..=lowest + 1;
        let fits = |count: u32| {
            levels.clone().rev().find(|level| most(*level) >= count).map(|level| Fit { level, count })
        };
        if gang.count == 0 {
            return None;
        }
        fits(gang.count).or_else(|| {
            let fewer = most(gang.widest).min(gang.count);
            if fewer > 0 && fewer >= gang.min_count { fits(fewer) } else { None }
        })
    }

    /// Where a gang is placed; `None` if it fits nowhere.
    pub fn choose_gang(&mut self, gang: &Gang) -> Option<GangPlacement> {
        let Fit { level, count } = self.fit(gang)?;
        self.rank(gang.shape)?;
        let paper = Paper { domains: &self.domains, view: self.view(gang.shape)?, ties: &self.ties };
        if level > self.domains.lowest() {
            let node = paper.best_node(0..u32::try_from(self.nodes.len()).ok()?, count)?;
            return Some(GangPlacement { level, spots: vec![Spot { node: NodeId(node), count }] });
        }
        let counts = paper.view.counts.at(level);
        let mut fitting: Vec<_> =
            counts.iter().copied().zip(0_usize..).filter(|(room, _)| *room >= count).collect();
        // Only the first few are wanted in order.
        if fitting.len() > TRIES {
            fitting.select_nth_unstable(TRIES);
            fitting.truncate(TRIES);
        }
        let tries = fitting.into_iter().filter_map(|(room, domain)| {
            let mut spots = Vec::new();
            paper.spread(level, domain, count, &mut spots)?;
            spots.sort_unstable_by_key(|spot: &Spot| spot.node);
            let score: i128 =
                spots.iter().map(|spot| i128::from(paper.score(spot.node.0)) * i128::from(spot.count)).sum();
            Some(((spots.len(), score, room, domain), spots))
        });
        let (_, spots) = tries.min_by_key(|(rank, _)| *rank)?;
        Some(GangPlacement { level, spots })
    }

    /// Places a whole gang, task by task, or nothing of it.
    pub fn place_gang(
        &mut self,
        shape: ShapeId,
        placement: &GangPlacement,
    ) -> Result<Vec<Choice>, PlacementError> {
        let mut placed: Vec<Choice> = Vec::new();
        let tasks = placement.spots.iter().flat_map(|spot| (0..spot.count).map(|_| spot.node));
        for node in tasks {
            let choice = self.score_on(shape, node).map(|(_, devices)| Choice { node, devices });
            let done = match &choice {
                Some(choice) => self.place(shape, choice),
                None => Err(self
                    .node(node)
                    .map_or(PlacementError::Unknown, |node| PlacementError::Changed(node.name.to_string()))),
            };
            match (done, choice) {
                (Ok(()), Some(choice)) => placed.push(choice),
                (Err(problem), _) => {
                    for choice in placed.iter().rev() {
                        self.remove(shape, choice)?;
                    }
                    return Err(problem);
                }
                (Ok(()), None) => {}
            }
        }
        Ok(placed)
    }
}

/// A placement while it is drawn up: nothing of the cluster changes.
struct Paper<'a> {
    domains: &'a Domains,
    view: &'a View,
    ties: &'a [super::ranking::Tie],
}

impl Paper<'_> {
    /// Spreads so many tasks over a domain. `None` if they do not fit.
    fn spread(&self, level: usize, domain: usize, mut count: u32, spots: &mut Vec<Spot>) -> Option<()> {
        let domain = self.domains.at(level).get(domain)?;
        if domain.inner.is_empty() {
            return self.fill(domain.nodes.clone(), count, spots);
        }
        let rooms = self.view.counts.at(level + 1).get(domain.inner.clone())?;
        let mut left: Vec<_> =
            rooms.iter().copied().zip(domain.inner.clone()).filter(|(room, _)| *room > 0).collect();
        while count > 0 {
            let at = tightest(&left, count)?;
            let (room, inner) = left.swap_remove(at);
            let here = room.min(count);
            self.spread(level + 1, inner, here, spots)?;
            count -= here;
        }
        Some(())
    }

    /// Spreads so many tasks over these nodes.
    fn fill(&self, nodes: std::ops::Range<u32>, mut count: u32, spots: &mut Vec<Spot>) -> Option<()> {
        let mut left: Vec<_> =
            nodes.map(|node| (self.view.counts.on(node), node)).filter(|(room, _)| *room > 0).collect();
        // Between nodes with equal room the better one comes first.
        left.sort_by_key(|(_, node)| self.order(*node));
        while count > 0 {
            let at = tightest(&left, count)?;
            let (room, node) = left.remove(at);
            let here = room.min(count);
            spots.push(Spot { node: NodeId(node), count: here });
            count -= here;
        }
        Some(())
    }

    /// The node with the least room that has enough, of those the best.
    fn best_node(&self, nodes: std::ops::Range<u32>, count: u32) -> Option<u32> {
        let room = |node: &u32| self.view.counts.on(*node);
        nodes.filter(|node| room(node) >= count).min_by_key(|node| (room(node), self.order(*node)))
    }

    fn score(&self, node: u32) -> i64 {
        self.view.ranking.score(node)
    }

    fn order(&self, node: u32) -> (i64, Option<&super::ranking::Tie>, u32) {
        (self.score(node), usize::try_from(node).ok().and_then(|index| self.ties.get(index)), node)
    }
}

/// Where the one is with the least room that has enough; else the one with the most. The first of equals.
fn tightest<T>(left: &[(u32, T)], count: u32) -> Option<usize> {
    let enough =
        left.iter().enumerate().filter(|(_, (room, _))| *room >= count).min_by_key(|(_, (room, _))| *room);
    let most = || left.iter().enumerate().max_by_key(|(at, (room, _))| (*room, std::cmp::Reverse(*at)));
    enough.or_else(most).map(|(at, _)| at)
}
