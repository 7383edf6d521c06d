//! The quota forest against its definition, worked out naively.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use whalezen_core::{
    forest::Forest,
    name::{CohortName, FlavorResource},
    quantity::Amount,
    queue::{ClusterQueue, Cohort, Quota, Quotas},
    testing::queue,
};

use crate::GPU;

/// A node: quota and limits, and a number that stands for its parent among the cohorts before it, or for none.
type Node = (i64, Option<i64>, Option<i64>, usize);

/// Cohorts and then queues, each below an earlier cohort or nothing.
#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<Node>,
    cohorts: usize,
}

fn trees() -> impl Strategy<Value = Tree> {
    let limit = || prop_oneof![Just(None), (0..8_i64).prop_map(Some)];
    let node = move || (0..8_i64, limit(), limit(), 0..6_usize);
    (vec(node(), 0..5), vec(node(), 1..4)).prop_map(|(mut nodes, queues)| {
        let cohorts = nodes.len();
        nodes.extend(queues);
        Tree { nodes, cohorts }
    })
}

fn key() -> FlavorResource {
    FlavorResource::new("f", GPU)
}

impl Tree {
    fn parent(&self, index: usize) -> Option<usize> {
        let above = index.min(self.cohorts);
        let parent = self.nodes[index].3 % (above + 1);
        (parent < above).then_some(parent)
    }

    fn queues(&self) -> std::ops::Range<usize> {
        self.cohorts..self.nodes.len()
    }

    fn quota(&self, index: usize) -> Quota {
        let (nominal, borrow, lend, _) = self.nodes[index];
        Quota {
            nominal: Amount(nominal),
            borrowing_limit: borrow.map(Amount),
            lending_limit: lend.map(Amount),
        }
    }

    fn forest(&self) -> Forest {
        let parent = |index| self.parent(index).map(|parent| CohortName::from(format!("c{parent}")));
        let cohorts: BTreeMap<CohortName, Cohort> = (0..self.cohorts)
            .map(|index| {
                let name = CohortName::from(format!("c{index}"));
                let quotas = Quotas::from([(key(), self.quota(index))]);
                (
                    name.clone(),
                    Cohort {
                        name,
                        parent: parent(index),
                        quotas,
                        weight: whalezen_core::queue::Weight::default(),
                        invalid: None,
                    },
                )
            })
            .collect();
        let queues: Vec<ClusterQueue> = self
            .queues()
            .map(|index| {
                let mut queue: ClusterQueue =
                    queue(&format!("q{index}")).group([GPU]).flavor("f", [(GPU, 0)]).into();
                queue.cohort = parent(index);
                queue.groups[0].flavors[0].quotas[0].1 = self.quota(index);
                queue
            })
            .collect();
        Forest::new(queues.iter(), &cohorts)
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |child| self.parent(*child) == Some(of))
    }

    fn height(&self, of: usize) -> u32 {
        self.children(of).map(|child| self.height(child) + 1).max().unwrap_or(0)
    }

    /// What the subtree owns, as far as its root can see it.
    fn owned(&self, index: usize) -> i64 {
        self.nodes[index].0
            + self.children(index).map(|child| self.owned(child) - self.kept(child)).sum::<i64>()
    }

    /// What a node never lends.
    fn kept(&self, index: usize) -> i64 {
        self.nodes[index].2.map_or(0, |lend| (self.owned(index) - lend).max(0))
    }

    /// What is used at a node, if the queues use this much.
    fn in_use(&self, index: usize, queues: &[i64]) -> i64 {
        if index >= self.cohorts {
            return queues[index - self.cohorts];
        }
        self.children(index).map(|child| (self.in_use(child, queues) - self.kept(child)).max(0)).sum()
    }

    /// Whether the queues may use this much: nobody more than there is, nor than it may borrow.
    fn allows(&self, queues: &[i64]) -> bool {
        (0..self.nodes.len()).all(|index| {
            let over = self.in_use(index, queues) - self.owned(index);
            match self.parent(index) {
                None => over <= 0,
                Some(_) => self.nodes[index].1.is_none_or(|limit| over <= limit),
            }
        })
    }
}

proptest! {
    #[test]
    fn available_is_the_most_that_breaks_no_limit_anywhere(tree in trees(), wants in vec((0..8_usize, 0..6_i64), 0..12)) {
        let forest = tree.forest();
        let mut used = forest.unused();
        let mut queues = vec![0; tree.queues().len()];
        for (which, wanted) in wants {
            let which = which % queues.len();
            let leaf = forest.leaf(&format!("q{}", tree.cohorts + which).into()).unwrap();
            let available = forest.available(&used, leaf, &key()).0;
            let most = (0..60).rev().find(|more| {
                let mut then = queues.clone();
                then[which] += more;
                tree.allows(&then)
            });
            prop_assert_eq!(Some(available), most);
            if queues.iter().all(|used| *used == 0) {
                prop_assert_eq!(forest.capacity(leaf, &key()).0, available);
            }
            let taken = wanted.min(available);
            forest.charge(&mut used, leaf, &key(), Amount(taken));
            queues[which] += taken;
            prop_assert_eq!(used.get(leaf, &key()).0, queues[which]);
        }
    }

    #[test]
    fn what_is_charged_and_released_in_any_order_leaves_what_was_never_released(
        tree in trees(),
        charges in vec((0..8_usize, 0..i64::MAX, any::<bool>(), 0..1000_u32, 0..62_u32), 0..16),
    ) {
        let forest = tree.forest();
        let leaf = |which: usize| {
            let queue = tree.cohorts + which % tree.queues().len();
            forest.leaf(&format!("q{queue}").into()).unwrap()
        };
        let mut used = forest.unused();
        let mut rest = forest.unused();
        let mut released = Vec::new();
        for (which, amount, stays, turn, shift) in charges {
            let amount = Amount(amount >> shift);
            forest.charge(&mut used, leaf(which), &key(), amount);
            if stays {
                forest.charge(&mut rest, leaf(which), &key(), amount);
            } else {
                released.push((turn, which, amount));
            }
        }
        released.sort();
        for (_, which, amount) in released {
            forest.release(&mut used, leaf(which), &key(), amount);
        }
        prop_assert_eq!(used, rest);
    }

    #[test]
    fn nobody_borrows_from_further_than_it_must(tree in trees(), held in vec(0..6_i64, 8), wanted in 0..12_i64) {
        let forest = tree.forest();
        let mut used = forest.unused();
        let leaf = |index: usize| forest.leaf(&format!("q{index}").into()).unwrap();
        let queues: Vec<i64> = tree.queues().enumerate().map(|(n, index)| {
            let taken = held[n].min(forest.available(&used, leaf(index), &key()).0);
            forest.charge(&mut used, leaf(index), &key(), Amount(taken));
            taken
        }).collect();
        for (n, index) in tree.queues().enumerate() {
            let level = forest.borrowing_level(&used, leaf(index), &key(), Amount(wanted));
            let mut then = queues.clone();
            then[n] += wanted;
            let path: Vec<usize> = std::iter::successors(Some(index), |node| tree.parent(*node)).collect();
            let fits = |node: &&usize| tree.in_use(**node, &then) <= tree.owned(**node);
            let lowest = path.iter().find(fits).or(path.last()).unwrap();
            prop_assert_eq!(level, tree.height(*lowest));
        }
    }
}
