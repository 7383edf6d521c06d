//! The compressed form of a placement in an admission (KEP-2724).
//!
//! Domains come in slices. What all values of a slice begin and end with is written once. Where that takes less room,
//! neighbours whose host names share a prefix up to a `-` get a slice of their own.

use std::{collections::BTreeMap, sync::Arc};

use whalezen_core::topology::{Placement, Spot};
use whalezen_crds::kueue::v1beta2::{
    TopologyAssignment, TopologyAssignmentSlice, TopologyAssignmentSliceLevelIndividualValues,
    TopologyAssignmentSliceLevelValues, TopologyAssignmentSlicePodCounts,
};

/// How many domains a slice may have, by the schema.
const MOST_DOMAINS: usize = 100_000;
/// How many slices an assignment may have, by the schema.
const MOST_SLICES: usize = 1_000;

/// The placement that an assignment means. A domain that lacks a value is none.
pub fn read(assignment: &TopologyAssignment) -> Placement {
    Placement {
        levels: assignment.levels.iter().map(|level| level.as_str().into()).collect(),
        spots: assignment.slices.iter().flat_map(spots).collect(),
    }
}

/// The values of a slice at one level.
enum Column<'a> {
    Same(Arc<str>),
    Each { prefix: &'a str, roots: &'a [String], suffix: &'a str },
    None,
}

impl<'a> Column<'a> {
    fn of(values: &'a TopologyAssignmentSliceLevelValues) -> Self {
        match (&values.universal, &values.individual) {
            (Some(value), _) => Self::Same(value.as_str().into()),
            (None, Some(of)) => Self::Each {
                prefix: of.prefix.as_deref().unwrap_or_default(),
                roots: &of.roots,
                suffix: of.suffix.as_deref().unwrap_or_default(),
            },
            (None, None) => Self::None,
        }
    }

    fn value(&self, index: usize) -> Option<Arc<str>> {
        match self {
            Self::Same(value) => Some(Arc::clone(value)),
            Self::Each { prefix, roots, suffix } => {
                Some(format!("{prefix}{}{suffix}", roots.get(index)?).into())
            }
            Self::None => None,
        }
    }
}

/// The domains of a slice: no more than are spelled out, for a number alone costs nothing to write. Where nothing is, they
/// are all the same one.
fn spots(slice: &TopologyAssignmentSlice) -> Vec<Spot> {
    let columns: Vec<Column<'_>> = slice.values_per_level.iter().map(Column::of).collect();
    let counts = &slice.pod_counts;
    let spelled_out = columns.iter().filter_map(|column| match column {
        Column::Each { roots, .. } => Some(roots.len()),
        Column::Same(_) | Column::None => None,
    });
    let spelled_out =
        spelled_out.chain((counts.universal.is_none()).then_some(counts.individual.len())).min();
    let values = |index: usize| columns.iter().map(|column| column.value(index)).collect::<Option<_>>();
    let domains = u32::try_from(slice.domain_count).unwrap_or_default();
    let Some(spelled_out) = spelled_out else {
        let count = counts.universal.and_then(|count| u32::try_from(count).ok());
        let spot = values(0).zip(count).filter(|_| domains > 0);
        return spot
            .map(|(values, count)| Spot { values, count: count.saturating_mul(domains) })
            .into_iter()
            .collect();
    };
    let domains = spelled_out.min(usize::try_from(domains).unwrap_or(usize::MAX));
    let spot = |index| {
        let count = counts.universal.or_else(|| counts.individual.get(index).copied())?;
        Some(Spot { values: values(index)?, count: count.try_into().ok()? })
    };
    (0..domains).filter_map(spot).collect()
}

/// A placement as it is written.
pub fn written(placement: &Placement) -> TopologyAssignment {
    let runs =
        if placement.is_on_hosts() { runs_by_prefix(&placement.spots) } else { vec![&*placement.spots] };
    let by_prefix = assignment(placement, &runs);
    if by_prefix.slices.len() <= 1 || placement.spots.len() > MOST_DOMAINS {
        return by_prefix;
    }
    let single = assignment(placement, &[&*placement.spots]);
    let length = |of: &TopologyAssignment| serde_json::to_string(of).map_or(usize::MAX, |text| text.len());
    if length(&single) < length(&by_prefix) { single } else { by_prefix }
}

fn assignment(placement: &Placement, runs: &[&[Spot]]) -> TopologyAssignment {
    let chunks = runs.iter().flat_map(|run| run.chunks(MOST_DOMAINS));
    TopologyAssignment {
        levels: placement.levels.iter().map(ToString::to_string).collect(),
        slices: chunks.map(|chunk| slice(placement.levels.len(), chunk)).collect(),
    }
}

fn slice(levels: usize, spots: &[Spot]) -> TopologyAssignmentSlice {
    let at = |level: usize| {
        let of = spots.iter().map(|spot| spot.values.get(level).map_or("", |value| &**value));
        values(&of.collect::<Vec<_>>())
    };
    let count = |spot: &Spot| i32::try_from(spot.count).unwrap_or(i32::MAX);
    let first = spots.first().map(count);
    let same = spots.iter().all(|spot| Some(count(spot)) == first);
    TopologyAssignmentSlice {
        domain_count: i32::try_from(spots.len()).unwrap_or(i32::MAX),
        values_per_level: (0..levels).map(at).collect(),
        pod_counts: TopologyAssignmentSlicePodCounts {
            universal: first.filter(|_| same),
            individual: if same { Vec::new() } else { spots.iter().map(count).collect() },
        },
    }
}

/// The values of one level, with what they have in common written once.
fn values(all: &[&str]) -> TopologyAssignmentSliceLevelValues {
    let first = all.first().copied().unwrap_or_default();
    if all.iter().all(|value| *value == first) {
        let universal = Some(first.to_owned());
        return TopologyAssignmentSliceLevelValues { universal, individual: None };
    }
    let shortest = all.iter().map(|value| value.len()).min().unwrap_or_default();
    let common = |other: &str, from_end: bool| {
        let pairs = |(a, b): &(u8, u8)| a == b;
        if from_end {
            first.bytes().rev().zip(other.bytes().rev()).take_while(pairs).count()
        } else {
            first.bytes().zip(other.bytes()).take_while(pairs).count()
        }
    };
    let least = |from_end| all.iter().map(|value| common(value, from_end)).min().unwrap_or_default();
    let mut suffix = least(true);
    while !first.is_char_boundary(first.len() - suffix) {
        suffix -= 1;
    }
    // Both may want the same letters of the shortest.
    let mut prefix = least(false).min(shortest - suffix);
    while !first.is_char_boundary(prefix) {
        prefix -= 1;
    }
    let part = |value: &str, range: std::ops::Range<usize>| value.get(range).unwrap_or_default().to_owned();
    let roots = all.iter().map(|value| part(value, prefix..value.len() - suffix));
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    TopologyAssignmentSliceLevelValues {
        universal: None,
        individual: Some(TopologyAssignmentSliceLevelIndividualValues {
            prefix: some(part(first, 0..prefix)),
            suffix: some(part(first, first.len() - suffix..first.len())),
            roots: roots.collect(),
        }),
    }
}

/// Neighbours that share the longest prefix up to a `-` that more than one host has; shorter ones if there were too many.
fn runs_by_prefix(spots: &[Spot]) -> Vec<&[Spot]> {
    let host = |spot: &Spot| spot.values.last().cloned().unwrap_or_default();
    let hosts: Vec<Arc<str>> = spots.iter().map(host).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for prefix in hosts.iter().flat_map(|host| prefixes(host)) {
        *counts.entry(prefix).or_default() += 1;
    }
    let deepest = hosts.iter().map(|host| prefixes(host).count()).max().unwrap_or_default();
    let key = |host: &str, depth: usize| {
        let shared = |prefix: &&str| counts.get(prefix).is_some_and(|count| *count > 1);
        prefixes(host).take(depth).filter(shared).last().map_or(0, str::len)
    };
    for depth in (1..=deepest).rev() {
        let keys: Vec<&str> =
            hosts.iter().map(|host| host.get(..key(host, depth)).unwrap_or_default()).collect();
        let mut runs: Vec<&[Spot]> = Vec::new();
        let mut start = 0;
        for end in 1..=spots.len() {
            if keys.get(end) != keys.get(start) {
                runs.extend(spots.get(start..end));
                start = end;
            }
        }
        let slices: usize = runs.iter().map(|run| run.len().div_ceil(MOST_DOMAINS)).sum();
        if slices <= MOST_SLICES {
            return runs;
        }
    }
    if spots.is_empty() { Vec::new() } else { vec![spots] }
}

/// What a name begins with up to each `-` in it but a last one.
fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    let ends = name.match_indices('-').map(|(index, _)| index + 1).filter(|end| *end < name.len());
    ends.filter_map(|end| name.get(..end))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::{Value, json};

    use super::*;

    fn placement(levels: &[&str], spots: &[(&[&str], u32)]) -> Placement {
        let spot = |(values, count): &(&[&str], u32)| Spot {
            values: values.iter().map(|value| (*value).into()).collect(),
            count: *count,
        };
        Placement {
            levels: levels.iter().map(|level| (*level).into()).collect(),
            spots: spots.iter().map(spot).collect(),
        }
    }

    fn slices(levels: &[&str], spots: &[(&[&str], u32)]) -> Value {
        serde_json::to_value(written(&placement(levels, spots)).slices).unwrap()
    }

    #[test]
    fn what_values_have_in_common_is_written_once() {
        const HOST: &[&str] = &["kubernetes.io/hostname"];
        for (levels, spots, want) in [
            (HOST, &[][..], json!([])),
            (
                HOST,
                &[(&["a-1"][..], 2)],
                json!([{ "domainCount": 1, "valuesPerLevel": [{ "universal": "a-1" }], "podCounts": { "universal": 2 } }]),
            ),
            (
                HOST,
                &[(&["x1-z"][..], 1), (&["x22-z"], 3)],
                json!([{
                    "domainCount": 2,
                    "valuesPerLevel": [{ "individual": { "prefix": "x", "suffix": "-z", "roots": ["1", "22"] } }],
                    "podCounts": { "individual": [1, 3] },
                }]),
            ),
            (
                HOST,
                &[(&["aba"][..], 1), (&["ababa"], 1)],
                json!([{
                    "domainCount": 2,
                    "valuesPerLevel": [{ "individual": { "suffix": "aba", "roots": ["", "ab"] } }],
                    "podCounts": { "universal": 1 },
                }]),
            ),
            (
                &["block", "rack"],
                &[(&["b1", "r1"][..], 1), (&["b1", "r2"], 1)],
                json!([{
                    "domainCount": 2,
                    "valuesPerLevel": [
                        { "universal": "b1" },
                        { "individual": { "prefix": "r", "roots": ["1", "2"] } },
                    ],
                    "podCounts": { "universal": 1 },
                }]),
            ),
        ] {
            assert_eq!(slices(levels, spots), want, "{spots:?}");
        }
    }

    #[test]
    fn hosts_of_a_pool_get_a_slice_if_that_is_shorter() {
        let long = |pool: &str, index: usize| format!("{pool}-of-machines-in-the-cellar-{index}");
        let names: Vec<String> =
            (0..40).map(|index| long(if index < 20 { "one" } else { "other" }, index)).collect();
        let values: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let spots: Vec<(&[&str], u32)> = values.iter().map(|values| (values.as_slice(), 1)).collect();
        let slices = written(&placement(&["kubernetes.io/hostname"], &spots)).slices;
        assert_eq!(slices.iter().map(|slice| slice.domain_count).collect::<Vec<_>>(), [20, 20]);
    }

    #[test]
    fn a_domain_that_lacks_a_value_is_none() {
        let mut written = written(&placement(&["kubernetes.io/hostname"], &[(&["a"], 1), (&["b"], 2)]));
        for slice in &mut written.slices {
            slice.domain_count = i32::MAX;
        }
        assert_eq!(read(&written).spots.len(), 2);
    }

    #[test]
    fn a_number_of_domains_alone_takes_no_room() {
        let slice = json!({
            "domainCount": 100_000, "valuesPerLevel": [{ "universal": "a" }], "podCounts": { "universal": 2 },
        });
        let many = json!({ "levels": ["kubernetes.io/hostname"], "slices": [slice] });
        let many = read(&serde_json::from_value(many).unwrap());
        assert_eq!(many, placement(&["kubernetes.io/hostname"], &[(&["a"], 200_000)]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_it_was(
            on_hosts: bool,
            spots in vec((vec("[ab]-?[a-c1-3]{0,3}-[0-9]{0,2}[ä]?", 2), 1..4_u32), 0..12),
        ) {
            let levels: &[&str] = if on_hosts { &["kubernetes.io/hostname"] } else { &["block", "rack"] };
            let spot = |(values, count): &(Vec<String>, u32)| Spot {
                values: values.iter().take(levels.len()).map(|value| value.as_str().into()).collect(),
                count: *count,
            };
            let levels = levels.iter().map(|level| (*level).into()).collect();
            let placement = Placement { levels, spots: spots.iter().map(spot).collect() };
            prop_assert_eq!(read(&written(&placement)), placement);
        }
    }
}
