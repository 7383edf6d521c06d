//! Placements whose domains get about as much each, for who prefers to be near each other.
//!
//! Below one domain of the next wider level as few domains are chosen as take all, such that each of them gets at least
//! a *threshold* of slices, and the threshold is as high as it can be. Of the sets of so few domains the one with the
//! least room beyond is taken, by dynamic programming.

use std::collections::BTreeMap;

use super::{
    capacity::Counts,
    choice::{in_order, in_order_with_leader},
    shape::Shape,
    tree::{DomainId, Tree},
};

/// A balanced placement, as far as its domains: what each gets is its count.
pub(super) struct Balanced {
    pub(super) level: usize,
    pub(super) domains: Vec<DomainId>,
    pub(super) counts: Counts,
}

/// The domains that are filled one after another, in short.
struct Filled {
    number: i64,
    last_with_leader: Option<DomainId>,
    last: Option<DomainId>,
}

/// A balanced placement, if there is one.
pub(super) fn balance(tree: &Tree, shape: &Shape, counts: &Counts) -> Option<Balanced> {
    let (threshold, siblings, mut counts) = best_siblings(tree, shape, counts)?;
    let mut level = shape.level;
    let mut domains = siblings;
    if level < shape.slice_level {
        domains = fewest(tree, shape, &counts, &domains, true)?;
        domains = domains.iter().flat_map(|domain| tree.children(*domain)).collect();
        level += 1;
    }
    let mut chosen = fewest(tree, shape, &counts, &domains, false)?;
    let all = i64::try_from(chosen.len()).ok()?;
    let mut extra = shape.slices() - all * threshold;
    if extra < 0 {
        return None;
    }
    in_order_with_leader(&counts, shape, &mut chosen);
    let mut leaders = shape.leaders;
    for domain in &chosen {
        let mut count = counts.of(*domain);
        let takes = if leaders > 0 { count.slices_with_leader } else { count.slices };
        let more = if leaders > 0 || extra > 0 { (takes - threshold).min(extra) } else { 0 };
        count.leaders = leaders.min(1);
        leaders -= count.leaders;
        count.slices = threshold + more;
        count.pods = count.slices * shape.slice_size;
        count.slices_with_leader = count.slices;
        count.pods_with_leader = count.pods - count.leaders;
        extra -= more;
        counts.set(*domain, count);
    }
    (extra <= 0 && leaders <= 0).then_some(Balanced { level, domains: chosen, counts })
}

/// The threshold, the domains below one of the next wider level with the highest, and what they could take once those
/// are left out that take less.
fn best_siblings(tree: &Tree, shape: &Shape, counts: &Counts) -> Option<(i64, Vec<DomainId>, Counts)> {
    let groups: Vec<Vec<DomainId>> = match shape.level.checked_sub(1) {
        None => vec![tree.domains(0).collect()],
        Some(above) => tree.domains(above).map(|domain| tree.children(domain).collect()).collect(),
    };
    let mut best: Option<(i64, i64, Vec<DomainId>, Counts)> = None;
    for siblings in groups {
        let so_far = best.as_ref().map_or(0, |(threshold, ..)| *threshold);
        let lower: Vec<DomainId> = if shape.level < shape.slice_level {
            siblings.iter().flat_map(|domain| tree.children(*domain)).collect()
        } else {
            siblings.clone()
        };
        let Some(filled) = fill(counts, shape, &lower) else { continue };
        let mut threshold = shape.slices().checked_div(filled.number).unwrap_or_default();
        if let Some(last) = filled.last_with_leader {
            threshold = threshold.min(counts.of(last).slices_with_leader);
        }
        if let Some(last) = filled.last {
            threshold = threshold.min(counts.of(last).slices);
        }
        if threshold < so_far {
            continue;
        }
        let last = filled.last.filter(|_| shape.leaders > 0);
        let with_leader = last.map_or(threshold, |last| threshold.min(counts.of(last).slices_with_leader));
        let mut pruned = prune(tree, shape, counts, &siblings, threshold);
        let mut after = fill(&pruned, shape, &siblings);
        // A lower one may leave room for the leader.
        if after.is_none() && with_leader < threshold && with_leader > 0 && with_leader >= so_far {
            threshold = with_leader;
            pruned = prune(tree, shape, counts, &siblings, threshold);
            after = fill(&pruned, shape, &siblings);
        }
        let Some(number) = after.map(|filled| filled.number) else { continue };
        let better = best.as_ref().map_or(threshold > 0, |(known, of, ..)| {
            threshold > *known || (threshold == *known && number < *of)
        });
        if better {
            best = Some((threshold, number, siblings, pruned));
        }
    }
    best.map(|(threshold, _, siblings, counts)| (threshold, siblings, counts))
}

/// How many domains are filled if those go first that take most, and which are the last; none if they do not take all.
fn fill(counts: &Counts, shape: &Shape, domains: &[DomainId]) -> Option<Filled> {
    let (mut slices, mut leaders) = (shape.slices(), shape.leaders);
    let mut filled = Filled { number: 0, last_with_leader: None, last: None };
    let mut sorted = domains.to_vec();
    let mut index = 0;
    if leaders > 0 {
        in_order_with_leader(counts, shape, &mut sorted);
        while leaders > 0
            && let Some(domain) = sorted.get(index).filter(|domain| counts.of(**domain).leaders > 0)
        {
            filled.number += 1;
            filled.last_with_leader = Some(*domain);
            leaders -= counts.of(*domain).leaders;
            slices -= counts.of(*domain).slices_with_leader;
            index += 1;
        }
    }
    if leaders > 0 {
        return None;
    }
    let mut left = sorted.split_off(index.min(sorted.len()));
    in_order(counts, shape, &mut left);
    for domain in left {
        let takes = counts.of(domain).slices;
        if slices <= 0 || takes == 0 {
            break;
        }
        filled.number += 1;
        filled.last = Some(domain);
        slices -= takes;
    }
    (slices <= 0).then_some(filled)
}

/// The counts without those of these domains, and of their children, that take less than the threshold.
fn prune(tree: &Tree, shape: &Shape, counts: &Counts, domains: &[DomainId], threshold: i64) -> Counts {
    // Slices within slices do not count here.
    let shape = Shape { inner: BTreeMap::new(), ..shape.clone() };
    let mut counts = counts.clone();
    for child in domains.iter().flat_map(|domain| tree.children(*domain)) {
        prune_one(tree, &shape, &mut counts, child, threshold);
    }
    for domain in domains {
        counts.recount(tree, &shape, shape.level, *domain);
        prune_one(tree, &shape, &mut counts, *domain, threshold);
    }
    counts
}

fn prune_one(tree: &Tree, shape: &Shape, counts: &mut Counts, domain: DomainId, threshold: i64) {
    let count = counts.of(domain);
    if count.slices < threshold {
        counts.clear(tree, domain, false);
    } else if shape.leaders > 0 && count.leaders > 0 && count.slices_with_leader < threshold {
        counts.clear(tree, domain, true);
    }
}

/// As few of these domains as take all, with the least room beyond.
fn fewest(
    tree: &Tree,
    shape: &Shape,
    counts: &Counts,
    domains: &[DomainId],
    by_entropy: bool,
) -> Option<Vec<DomainId>> {
    let number = usize::try_from(fill(counts, shape, domains)?.number).ok()?;
    let mut ordered = domains.to_vec();
    ordered.sort_unstable();
    if by_entropy {
        ordered.sort_by(|a, b| {
            let of = |domain: DomainId| (counts.of(domain).leaders, counts.of(domain).slices_with_leader);
            let entropy = |domain: DomainId| entropy(tree, counts, domain);
            of(*b).cmp(&of(*a)).then_with(|| entropy(*b).total_cmp(&entropy(*a)))
        });
    }
    // Of each number of domains, by the leaders and the pods that have no place in them, the first such set.
    let mut sets: Vec<BTreeMap<(i64, i64), Vec<DomainId>>> = vec![BTreeMap::new(); number + 1];
    let none = (shape.leaders, shape.slices() * shape.slice_size);
    sets.first_mut()?.insert(none, Vec::new());
    for domain in ordered {
        let count = counts.of(domain);
        for size in (1..=number).rev() {
            let smaller = sets.get(size - 1)?.clone();
            let larger = sets.get_mut(size)?;
            for ((leaders, pods), set) in smaller {
                if leaders <= 0 && pods <= 0 {
                    continue;
                }
                let with = || set.iter().copied().chain([domain]).collect::<Vec<_>>();
                if leaders > 0 && count.leaders > 0 {
                    let left = (leaders - count.leaders, pods - count.pods_with_leader);
                    larger.entry(left).or_insert_with(with);
                }
                if count.slices > 0 {
                    larger.entry((leaders, pods - count.pods)).or_insert_with(with);
                }
            }
        }
    }
    let sets = sets.pop()?;
    sets.into_iter().rfind(|((leaders, pods), _)| *leaders == 0 && *pods <= 0).map(|(_, set)| set)
}

/// How evenly the room of a domain is spread over its children.
fn entropy(tree: &Tree, counts: &Counts, domain: DomainId) -> f64 {
    let pods = || tree.children(domain).map(|child| counts.of(child).pods).filter(|pods| *pods > 0);
    let float = |pods: i64| f64::from(i32::try_from(pods).unwrap_or(i32::MAX));
    let all = float(pods().sum());
    pods().map(|pods| float(pods) / all).map(|part| -part * libm::log2(part)).sum()
}
