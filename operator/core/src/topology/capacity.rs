//! How many pods, and how many whole slices, each domain of a tree could take: counted from the leaves up.

use super::{
    misfit::Exclusions,
    shape::Shape,
    tree::{DomainId, Row, Tree},
};
use crate::{flavor::NodeDemand, name::ResourceName};

/// What a domain could take; on the way down, what it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Count {
    pub(super) pods: i64,
    pub(super) slices: i64,
    /// How many leaders: one at most.
    pub(super) leaders: i64,
    /// How many pods if it takes the leader as well.
    pub(super) pods_with_leader: i64,
    pub(super) slices_with_leader: i64,
}

/// What each domain of a tree could take.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    counts: Vec<Count>,
    pub(super) exclusions: Exclusions,
}

/// What one pod of each kind requests.
pub(super) struct Rows {
    pub(super) worker: Row,
    pub(super) leader: Option<Row>,
}

impl Counts {
    /// Counts what each domain could take of a shape, of which `taken` is taken by workloads, leaf by leaf.
    pub(super) fn new(tree: &Tree, shape: &Shape, rows: &Rows, demand: &NodeDemand, taken: &[i128]) -> Self {
        let mut counts =
            Self { counts: vec![Count::default(); tree.len()], exclusions: Exclusions::default() };
        counts.fill_leaves(tree, shape, rows, demand, taken);
        for level in (0..tree.lowest()).rev() {
            for domain in tree.domains(level) {
                let count = counts.sum(tree, shape, level, domain);
                counts.set(domain, count);
            }
        }
        counts
    }

    pub(super) fn of(&self, domain: DomainId) -> Count {
        self.counts.get(domain.0).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, domain: DomainId, count: Count) {
        if let Some(place) = self.counts.get_mut(domain.0) {
            *place = count;
        }
    }

    /// Counts a domain and all below it anew, by what its leaves could take.
    pub(super) fn recount(&mut self, tree: &Tree, shape: &Shape, level: usize, domain: DomainId) {
        if level < tree.lowest() {
            for child in tree.children(domain) {
                self.recount(tree, shape, level + 1, child);
            }
            let count = self.sum(tree, shape, level, domain);
            self.set(domain, count);
        } else if level == shape.slice_level {
            let mut count = self.of(domain);
            count.slices = count.pods / shape.slice_size;
            count.slices_with_leader = count.pods_with_leader / shape.slice_size;
            self.set(domain, count);
        }
    }

    /// A domain, and all below it, take nothing any more, or only no leader.
    pub(super) fn clear(&mut self, tree: &Tree, domain: DomainId, only_leader: bool) {
        let Count { pods, slices, .. } = if only_leader { self.of(domain) } else { Count::default() };
        self.set(domain, Count { pods, slices, ..Count::default() });
        for child in tree.children(domain) {
            self.clear(tree, child, only_leader);
        }
    }

    fn fill_leaves(&mut self, tree: &Tree, shape: &Shape, rows: &Rows, demand: &NodeDemand, taken: &[i128]) {
        let width = tree.width();
        let leaves = tree.domains(tree.lowest()).zip(tree.unfit(demand));
        let rooms = tree.room().chunks_exact(width).zip(taken.chunks_exact(width));
        for ((leaf, unfit), (room, taken)) in leaves.zip(rooms) {
            self.exclusions.leaves += 1;
            if let Some(unfit) = unfit {
                self.exclusions.note(&unfit);
                continue;
            }
            let free = |column: usize| {
                room.get(column).zip(taken.get(column)).map(|(room, taken)| room - taken).unwrap_or_default()
            };
            let (pods, scarce) = times(&rows.worker, free);
            if pods == 0
                && let Some(resource) = scarcest(tree, &rows.worker, scarce)
            {
                self.exclusions.note_scarce(resource);
            }
            let mut count = Count { pods, pods_with_leader: pods, ..Count::default() };
            if let Some(leader) = &rows.leader
                && times(leader, free).0 > 0
            {
                let of_leader = |column: usize| {
                    leader
                        .amounts
                        .iter()
                        .find(|(of, _)| *of == column)
                        .map_or(0, |(_, amount)| i128::from(*amount))
                };
                count.leaders = 1;
                count.pods_with_leader = times(&rows.worker, |column| free(column) - of_leader(column)).0;
            }
            if tree.lowest() == shape.slice_level {
                count.slices = count.pods / shape.slice_size;
                count.slices_with_leader = count.pods_with_leader / shape.slice_size;
            }
            self.set(leaf, count);
        }
    }

    /// What a domain could take, by what its children could.
    fn sum(&self, tree: &Tree, shape: &Shape, level: usize, domain: DomainId) -> Count {
        let unit = shape.inner.get(&(level + 1)).copied().unwrap_or(1);
        let whole = |pods: i64| pods / unit * unit;
        let mut sum = Count::default();
        // The least that the leader costs, in pods and in slices, in a child that could take it.
        let mut cost: Option<(i64, i64)> = None;
        for child in tree.children(domain).map(|child| self.of(child)) {
            sum.pods += whole(child.pods);
            sum.slices += child.slices;
            sum.leaders = sum.leaders.max(child.leaders);
            if shape.leaders == 0 || child.leaders > 0 {
                let pods = whole(child.pods) - whole(child.pods_with_leader);
                let slices = child.slices - child.slices_with_leader;
                let least = cost.unwrap_or((i64::MAX, i64::MAX));
                cost = Some((least.0.min(pods), least.1.min(slices)));
            }
        }
        if let Some((pods, slices)) = cost {
            sum.pods_with_leader = sum.pods - pods;
            sum.slices_with_leader = sum.slices - slices;
        }
        if level == shape.slice_level {
            sum.slices = sum.pods / shape.slice_size;
            sum.slices_with_leader = sum.pods_with_leader / shape.slice_size;
        }
        sum
    }
}

/// How often a pod fits in what is free, and the first column that allows no more.
fn times(row: &Row, free: impl Fn(usize) -> i128) -> (i64, Option<usize>) {
    const MOST: i64 = i32::MAX as i64;
    let (mut least, mut scarce) = (MOST, None);
    for (column, amount) in &row.amounts {
        let free = i64::try_from(free(*column).max(0)).unwrap_or(i64::MAX);
        let times = free / amount;
        if times < least {
            (least, scarce) = (times, Some(*column));
        }
    }
    if row.missing.is_some() { (0, scarce.filter(|_| least == 0)) } else { (least, scarce) }
}

/// The resource for want of which a leaf takes no pod.
fn scarcest<'a>(tree: &'a Tree, row: &'a Row, column: Option<usize>) -> Option<&'a ResourceName> {
    let resource = column.and_then(|column| tree.column(column));
    match (&row.missing, resource) {
        (Some(missing), Some(resource)) => Some(missing.min(resource)),
        (Some(missing), None) => Some(missing),
        (None, resource) => resource,
    }
}
