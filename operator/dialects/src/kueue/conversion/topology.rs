//! Topology assignments: domain by domain in v1beta1, in slices column by column in v1beta2.

use serde_json::{Map, Value, json};
use whalezen_crds::kueue::v1beta2::{
    TopologyAssignment, TopologyAssignmentSlice, TopologyAssignmentSliceLevelIndividualValues as Individual,
    TopologyAssignmentSliceLevelValues as Column, TopologyAssignmentSlicePodCounts as Counts,
};

use super::Problem;

/// How many domains are written out at most.
const MOST_DOMAINS: usize = 100_000;

type Assignment = Map<String, Value>;

/// Changes every assignment of a Workload.
pub(super) fn each_assignment(
    object: &mut Value,
    change: impl Fn(&mut Assignment) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let pod_sets = object.pointer_mut("/status/admission/podSetAssignments").and_then(Value::as_array_mut);
    for pod_set in pod_sets.into_iter().flatten() {
        if let Some(Value::Object(assignment)) = pod_set.get_mut("topologyAssignment") {
            change(assignment)?;
        }
    }
    Ok(())
}

/// Writes domains as one slice.
pub(super) fn to_v1beta2(assignment: &mut Assignment) -> Result<(), Problem> {
    let Some(domains) = assignment.remove("domains") else { return Ok(()) };
    let levels = assignment.get("levels").and_then(Value::as_array).map_or(0, Vec::len);
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); levels];
    let mut counts = Vec::new();
    for (index, domain) in domains.as_array().into_iter().flatten().enumerate() {
        let values = domain.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if values.len() != levels {
            let problem =
                format!("domain {index} has {} values, and there are {levels} levels", values.len());
            return Err(Problem(problem));
        }
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value.as_str().unwrap_or_default().to_owned());
        }
        let count = domain.get("count").and_then(Value::as_i64).and_then(|count| i32::try_from(count).ok());
        counts.push(count.ok_or_else(|| Problem(format!("domain {index} has no number of pods")))?);
    }
    let slices = if counts.is_empty() {
        json!([])
    } else {
        let slice = TopologyAssignmentSlice {
            domain_count: i32::try_from(counts.len()).unwrap_or(i32::MAX),
            values_per_level: columns.iter().map(|values| column(values)).collect(),
            pod_counts: pod_counts(counts),
        };
        json!([slice])
    };
    assignment.insert("slices".to_owned(), slices);
    Ok(())
}

/// Writes slices domain by domain.
pub(super) fn to_v1beta1(assignment: &mut Assignment) -> Result<(), Problem> {
    let unreadable = |problem| Problem(format!("the topology assignment cannot be read: {problem}"));
    let whole = Value::Object(assignment.clone());
    let slices = serde_json::from_value::<TopologyAssignment>(whole).map_err(unreadable)?.slices;
    let each = slices.iter().filter(|slice| repeated(slice).is_none());
    let each = each.map(|slice| usize::try_from(slice.domain_count).unwrap_or_default());
    if each.fold(0, usize::saturating_add) > MOST_DOMAINS {
        return Err(Problem(format!("v1beta1 would have to write out more than {MOST_DOMAINS} domains")));
    }
    let mut domains = Vec::new();
    for slice in &slices {
        if let Some(domain) = repeated(slice) {
            domains.push(domain);
            continue;
        }
        for index in 0..usize::try_from(slice.domain_count).unwrap_or_default() {
            let values = slice.values_per_level.iter().map(|column| value(column, index));
            let values: Option<Vec<String>> = values.collect();
            let count =
                slice.pod_counts.universal.or_else(|| slice.pod_counts.individual.get(index).copied());
            let (Some(values), Some(count)) = (values, count) else {
                return Err(Problem(format!("a topology slice says nothing about its domain {index}")));
            };
            domains.push(json!({ "count": count, "values": values }));
        }
    }
    assignment.remove("slices");
    assignment.insert("domains".to_owned(), domains.into());
    Ok(())
}

/// The domain of a slice that says several times the same: once, with the pods of all. A number alone costs nothing to
/// write, and a hundred thousand domains would.
fn repeated(slice: &TopologyAssignmentSlice) -> Option<Value> {
    let values: Option<Vec<&str>> =
        slice.values_per_level.iter().map(|column| column.universal.as_deref()).collect();
    let (values, count) = values.zip(slice.pod_counts.universal)?;
    (slice.domain_count > 1)
        .then(|| json!({ "count": count.saturating_mul(slice.domain_count), "values": values }))
}

fn value(column: &Column, index: usize) -> Option<String> {
    if let Some(universal) = &column.universal {
        return Some(universal.clone());
    }
    let values = column.individual.as_ref()?;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    Some(part(&values.prefix) + values.roots.get(index)? + &part(&values.suffix))
}

/// The values of one level, with what they have in common written once.
fn column(values: &[String]) -> Column {
    let Some(first) = values.first() else { return Column::default() };
    if values.iter().all(|value| value == first) {
        return Column { universal: Some(first.clone()), individual: None };
    }
    let prefix = common(first, values, |a, b| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count());
    let prefix: String = first.chars().take(prefix).collect();
    let rest: Vec<&str> = values.iter().map(|value| value.strip_prefix(&prefix).unwrap_or(value)).collect();
    let first = rest.first().copied().unwrap_or_default();
    let suffix =
        common(first, &rest, |a, b| a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b).count());
    let suffix: String = first.chars().skip(first.chars().count() - suffix).collect();
    let roots = rest.iter().map(|value| value.strip_suffix(&suffix).unwrap_or(value).to_owned()).collect();
    let some = |part: String| (!part.is_empty()).then_some(part);
    Column {
        universal: None,
        individual: Some(Individual { prefix: some(prefix), suffix: some(suffix), roots }),
    }
}

/// How much the first has in common with all.
fn common<T: AsRef<str>>(first: &str, all: &[T], of_two: impl Fn(&str, &str) -> usize) -> usize {
    all.iter().map(|other| of_two(first, other.as_ref())).min().unwrap_or_default()
}

fn pod_counts(counts: Vec<i32>) -> Counts {
    match counts.first() {
        Some(first) if counts.iter().all(|count| count == first) => {
            Counts { universal: Some(*first), individual: Vec::new() }
        }
        _ => Counts { universal: None, individual: counts },
    }
}
