//! From the domains that take a pod set down to the leaves: which of them get how many.
//!
//! Down to the level of the slices the children of all domains are filled together. Below it each domain's share is
//! dealt to its own children, so that no slice is broken.

use super::{
    capacity::Counts,
    choice::{best_fit, in_order, leader_first, pods, slices},
    shape::Shape,
    tree::{DomainId, Tree},
};

/// What is dealt out to domains.
#[derive(Clone, Copy)]
struct Load {
    /// How many pods.
    pods: i64,
    leaders: i64,
    /// How many of them have to stay together.
    unit: i64,
    /// Whether units are counted that domains take, or single pods.
    in_slices: bool,
}

/// The leaves that get pods of these domains of a level; what each gets is its count then. None if the domains take
/// less than was counted. Where each domain `has_its_share` by its count, it keeps that.
pub(super) fn spread(
    tree: &Tree,
    shape: &Shape,
    counts: &mut Counts,
    mut level: usize,
    domains: Vec<DomainId>,
    has_its_share: bool,
) -> Option<Vec<DomainId>> {
    let all = Load { pods: shape.count, leaders: shape.leaders, unit: shape.slice_size, in_slices: true };
    let mut domains = deal(shape, counts, domains, all)?;
    while level < tree.lowest().min(shape.slice_level) && !has_its_share {
        let mut below: Vec<DomainId> = domains.iter().flat_map(|domain| tree.children(*domain)).collect();
        in_order(counts, shape, &mut below);
        domains = deal(shape, counts, below, all)?;
        level += 1;
    }
    deal_down(tree, shape, counts, level, domains)
}

/// The same, once each domain has its share.
fn deal_down(
    tree: &Tree,
    shape: &Shape,
    counts: &mut Counts,
    mut level: usize,
    mut domains: Vec<DomainId>,
) -> Option<Vec<DomainId>> {
    while level < tree.lowest() {
        let unit = match shape.inner.get(&(level + 1)) {
            _ if level < shape.slice_level => shape.slice_size,
            inner => inner.copied().unwrap_or(1),
        };
        let mut below = Vec::new();
        for domain in domains {
            let mut children: Vec<DomainId> = tree.children(domain).collect();
            in_order(counts, shape, &mut children);
            if unit > 1 {
                recount(counts, &children, unit);
            }
            let given = counts.of(domain);
            let load = Load { pods: given.pods, leaders: given.leaders, unit, in_slices: unit > 1 };
            below.extend(deal(shape, counts, children, load)?);
        }
        domains = below;
        level += 1;
    }
    Some(domains)
}

/// Counts in smaller slices what domains take.
fn recount(counts: &mut Counts, domains: &[DomainId], unit: i64) {
    for domain in domains {
        let mut count = counts.of(*domain);
        count.slices = count.pods / unit;
        count.slices_with_leader = count.pods_with_leader / unit;
        counts.set(*domain, count);
    }
}

/// Deals a load to domains, in this order, and gives those that got something of it: the last one is that which fits
/// best. What each got is its count then.
fn deal(shape: &Shape, counts: &mut Counts, mut domains: Vec<DomainId>, load: Load) -> Option<Vec<DomainId>> {
    let (unit, mut leaders) = (if load.in_slices { load.unit } else { 1 }, load.leaders);
    let mut left = load.pods / unit;
    if load.in_slices {
        leader_first(counts, &mut domains, left, leaders, |count| (count.slices, count.slices_with_leader));
    } else {
        leader_first(counts, &mut domains, left, leaders, |count| (count.pods, count.pods_with_leader));
    }
    let takes = if load.in_slices { slices } else { pods };
    let mut dealt = Vec::new();
    for (index, next) in domains.iter().enumerate() {
        let mut domain = *next;
        let takes = takes(leaders);
        let is_enough = |domain: DomainId, counts: &Counts| {
            takes(&counts.of(domain)) >= left && counts.of(domain).leaders >= leaders
        };
        if !shape.fills_up && is_enough(domain, counts) {
            domain = best_fit(counts, domains.get(index..)?, left, leaders, takes)?;
        }
        let mut count = counts.of(domain);
        let last = is_enough(domain, counts);
        let part = if last { left } else { takes(&count).min(left) };
        count.leaders = if last { leaders } else { count.leaders.min(leaders) };
        count.pods = part * unit;
        if load.in_slices {
            count.slices = part;
        }
        counts.set(domain, count);
        dealt.push(domain);
        if last {
            return Some(dealt);
        }
        left -= part;
        leaders -= count.leaders;
    }
    None
}
