//! The lowest level at which domains take all of a pod set, and which of its domains do.

use std::cmp::Reverse;

use super::{
    capacity::{Count, Counts},
    shape::Shape,
    tree::{DomainId, Tree},
};

/// In which order domains are filled that need not take the leader: those first that take most slices (or least, where
/// room is filled up), of equals those that have least room beyond, then by value.
pub(super) fn in_order(counts: &Counts, shape: &Shape, domains: &mut [DomainId]) {
    domains.sort_by_cached_key(|domain| {
        let Count { pods, slices, .. } = counts.of(*domain);
        (if shape.fills_up { slices } else { -slices }, pods, *domain)
    });
}

/// In which order domains are filled as long as the leader has no place.
pub(super) fn in_order_with_leader(counts: &Counts, shape: &Shape, domains: &mut [DomainId]) {
    domains.sort_by_cached_key(|domain| {
        let Count { leaders, slices_with_leader: slices, pods_with_leader: pods, .. } = counts.of(*domain);
        (Reverse(leaders), if shape.fills_up { slices } else { -slices }, pods, *domain)
    });
}

/// The first of the domains that fit best: those that take enough, and least beyond. If none takes enough, the first.
pub(super) fn best_fit(
    counts: &Counts,
    domains: &[DomainId],
    needed: i64,
    leaders: i64,
    takes: impl Fn(&Count) -> i64,
) -> Option<DomainId> {
    let enough = domains.iter().filter_map(|domain| {
        let count = counts.of(*domain);
        (count.leaders >= leaders && takes(&count) >= needed).then(|| (takes(&count), *domain))
    });
    enough.min_by_key(|(takes, _)| *takes).map(|(_, domain)| domain).or_else(|| domains.first().copied())
}

/// How many slices a domain takes, with the leader if there is one to place.
pub(super) fn slices(leaders: i64) -> fn(&Count) -> i64 {
    if leaders > 0 { |count| count.slices_with_leader } else { |count| count.slices }
}

/// How many pods a domain takes, with the leader if there is one to place.
pub(super) fn pods(leaders: i64) -> fn(&Count) -> i64 {
    if leaders > 0 { |count| count.pods_with_leader } else { |count| count.pods }
}

/// The domain first that takes the leader and leaves enough room for all others. The room of a domain was counted with the
/// child in which the leader costs least, so that there is one.
pub(super) fn leader_first(
    counts: &Counts,
    domains: &mut [DomainId],
    needed: i64,
    leaders: i64,
    takes: impl Fn(&Count) -> (i64, i64),
) {
    if leaders == 0 {
        return;
    }
    let all: i64 = domains.iter().map(|domain| takes(&counts.of(*domain)).0).sum();
    let leaves_enough = |domain: &DomainId| {
        let count = counts.of(*domain);
        let (without, with) = takes(&count);
        count.leaders >= leaders && all - (without - with) >= needed
    };
    if let Some(index) = domains.iter().position(leaves_enough)
        && let Some(head) = domains.get_mut(..=index)
    {
        head.rotate_right(1);
    }
}

/// The level, and the domains of it that take all.
pub(super) fn choose(tree: &Tree, shape: &Shape, counts: &Counts) -> Result<(usize, Vec<DomainId>), String> {
    let mut level = shape.level;
    loop {
        match choose_at(tree, shape, counts, level)? {
            Some(domains) => return Ok((level, domains)),
            None => level = level.saturating_sub(1),
        }
    }
}

/// The domains of a level that take all; none if a wider level is to be tried.
fn choose_at(
    tree: &Tree,
    shape: &Shape,
    counts: &Counts,
    level: usize,
) -> Result<Option<Vec<DomainId>>, String> {
    let mut sorted: Vec<DomainId> = tree.domains(level).collect();
    in_order_with_leader(counts, shape, &mut sorted);
    let Some(first) = sorted.first().copied() else {
        return Err(format!("no topology domains at level: {}", tree.label(level)));
    };
    let (needed, leaders) = (shape.slices(), shape.leaders);
    let takes_all = |domain: &DomainId| {
        let count = counts.of(*domain);
        count.leaders >= leaders && slices(leaders)(&count) >= needed
    };
    if shape.fills_up {
        if let Some(domain) = sorted.iter().find(|domain| takes_all(domain)) {
            return Ok(Some(vec![*domain]));
        }
    } else if takes_all(&first) {
        return Ok(best_fit(counts, &sorted, needed, leaders, slices(leaders)).map(|domain| vec![domain]));
    }
    if shape.required {
        return Err(no_room(tree, shape, counts, level, counts.of(first).slices));
    }
    if level > 0 && !shape.unconstrained {
        return Ok(None);
    }
    several(shape, counts, sorted).map(Some).map_err(|fit| no_room(tree, shape, counts, level, fit))
}

/// As few domains as take all together, or how many slices they have room for.
fn several(shape: &Shape, counts: &Counts, mut sorted: Vec<DomainId>) -> Result<Vec<DomainId>, i64> {
    let (all, mut leaders) = (shape.slices(), shape.leaders);
    let mut needed = all;
    leader_first(counts, &mut sorted, all, leaders, |count| (count.slices, count.slices_with_leader));
    let mut chosen = Vec::new();
    let mut index = 0;
    while leaders > 0
        && let Some(next) = sorted.get(index).filter(|domain| counts.of(**domain).leaders > 0)
    {
        let mut domain = *next;
        if !shape.fills_up && counts.of(domain).slices_with_leader >= needed {
            let left = sorted.get(index..).unwrap_or_default();
            domain = best_fit(counts, left, needed, leaders, slices(leaders)).unwrap_or(domain);
        }
        let count = counts.of(domain);
        chosen.push(domain);
        leaders -= count.leaders;
        needed -= count.slices_with_leader;
        index += 1;
    }
    if leaders > 0 {
        return Err(shape.leaders - leaders);
    }
    let mut left = sorted.split_off(index.min(sorted.len()));
    in_order(counts, shape, &mut left);
    for (index, next) in left.iter().enumerate() {
        if needed <= 0 {
            break;
        }
        let mut domain = *next;
        if !shape.fills_up && counts.of(domain).slices >= needed {
            let left = left.get(index..).unwrap_or_default();
            domain = best_fit(counts, left, needed, 0, slices(0)).unwrap_or(domain);
        }
        chosen.push(domain);
        needed -= counts.of(domain).slices;
    }
    if needed > 0 { Err(all - needed) } else { Ok(chosen) }
}

/// Why a level has no room, of which the best is for `fit` slices.
pub(super) fn no_room(tree: &Tree, shape: &Shape, counts: &Counts, level: usize, fit: i64) -> String {
    let topology = tree.topology().as_str();
    let all = shape.slices();
    let unit = if shape.slice_size == 1 { "pod" } else { "slice" };
    let mut message = if !shape.layers.is_empty() {
        let mut message = format!("topology {topology:?} doesn't allow to fit");
        message.extend(layers(tree, shape, counts, level));
        message
    } else if fit == 0 {
        format!("topology {topology:?} doesn't allow to fit any of {all} {unit}(s)")
    } else {
        format!("topology {topology:?} allows to fit only {fit} out of {all} {unit}(s)")
    };
    counts.exclusions.append_to(&mut message);
    message
}

/// What is said of each layer of slices: how many the domain with the most room takes.
fn layers(tree: &Tree, shape: &Shape, counts: &Counts, level: usize) -> Vec<String> {
    let most = |domain: &DomainId| (counts.of(*domain).slices, Reverse(*domain));
    let Some(best) = tree.domains(level).max_by_key(most) else { return Vec::new() };
    let layers = shape.layers.iter().filter_map(|layer| {
        let (target, size) = (tree.level(&layer.level)?, i64::from(layer.size));
        let needed = shape.count.checked_div(size)?;
        let below = (level..target).fold(vec![best], |domains, _| {
            domains.into_iter().flat_map(|domain| tree.children(domain)).collect()
        });
        let fit: i64 = below.into_iter().map(|domain| counts.of(domain).pods / size).sum();
        Some(format!("; {fit}/{needed} slice(s) fit on level {}", layer.level))
    });
    layers.collect()
}
