//! What the annotations of a pod template ask of its place.
//!
//! What may not be asked is what Kueue's webhooks refuse.

use std::collections::{BTreeMap, BTreeSet};

use whalezen_core::topology::TopologyRequest;
use whalezen_crds::kueue::{
    constants::annotation::{
        POD_SET_GROUP_NAME, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, SLICE_REQUIRED_TOPOLOGY,
        SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS, SLICE_SIZE, UNCONSTRAINED_TOPOLOGY,
    },
    v1beta2::{PodSetTopologyRequest, PodsetSliceRequiredTopologyConstraint as Layer},
};

use super::request;

/// How many layers of slices there may be.
const MOST_LAYERS: usize = 3;

type Annotations = BTreeMap<String, String>;

/// The request of a template as the scheduler has it, or what is wrong with it.
pub fn asked(annotations: &Annotations) -> Result<Option<TopologyRequest>, String> {
    check(annotations)?;
    Ok(requested(annotations).as_ref().map(request))
}

/// The request that a pod set gets by the annotations of its template. What cannot be read is none.
pub fn requested(annotations: &Annotations) -> Option<PodSetTopologyRequest> {
    let of = |name: &str| annotations.get(name).cloned();
    let request = PodSetTopologyRequest {
        required: of(REQUIRED_TOPOLOGY),
        preferred: of(PREFERRED_TOPOLOGY),
        unconstrained: of(UNCONSTRAINED_TOPOLOGY).and_then(|text| boolean(&text)),
        pod_set_group_name: of(POD_SET_GROUP_NAME),
        pod_set_slice_required_topology: of(SLICE_REQUIRED_TOPOLOGY),
        pod_set_slice_size: of(SLICE_SIZE).and_then(|text| text.parse().ok()),
        podset_slice_required_topology_constraints: of(SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
        ..PodSetTopologyRequest::default()
    };
    (request != PodSetTopologyRequest::default()).then_some(request)
}

/// As Go reads it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn check(annotations: &Annotations) -> Result<(), String> {
    let has = |name: &str| annotations.contains_key(name);
    let places = [REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, UNCONSTRAINED_TOPOLOGY];
    let given: Vec<&str> = places.into_iter().filter(|name| has(name)).collect();
    if given.len() > 1 {
        return Err(format!("only one of the annotations {} may be there", given.join(", ")));
    }
    if let Some(text) = annotations.get(UNCONSTRAINED_TOPOLOGY)
        && boolean(text).is_none()
    {
        return Err(format!(
            "the annotation {UNCONSTRAINED_TOPOLOGY} must be true or false, and is {text:?}"
        ));
    }
    if let Some(text) = annotations.get(SLICE_SIZE)
        && text.parse::<i32>().ok().is_none_or(|size| size < 1)
    {
        return Err(format!("the annotation {SLICE_SIZE} must be a number greater than 0, and is {text:?}"));
    }
    if has(SLICE_REQUIRED_TOPOLOGY) != has(SLICE_SIZE) {
        return Err(format!("the annotations {SLICE_REQUIRED_TOPOLOGY} and {SLICE_SIZE} go together"));
    }
    if let Some(text) = annotations.get(SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS) {
        for other in [SLICE_REQUIRED_TOPOLOGY, POD_SET_GROUP_NAME] {
            if has(other) {
                let both = format!("{SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS} and {other}");
                return Err(format!("the annotations {both} may not be there together"));
            }
        }
        layers(text)
            .map_err(|problem| format!("the annotation {SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS}: {problem}"))?;
    }
    group(annotations)
}

fn group(annotations: &Annotations) -> Result<(), String> {
    let Some(name) = annotations.get(POD_SET_GROUP_NAME) else { return Ok(()) };
    if name.parse::<u64>().is_ok() {
        return Err(format!("the annotation {POD_SET_GROUP_NAME} must not be a number, and is {name:?}"));
    }
    if annotations.contains_key(SLICE_REQUIRED_TOPOLOGY) {
        return Err(format!(
            "the annotations {POD_SET_GROUP_NAME} and {SLICE_REQUIRED_TOPOLOGY} may not be there together"
        ));
    }
    if ![REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY].into_iter().any(|name| annotations.contains_key(name)) {
        return Err(format!(
            "the annotation {POD_SET_GROUP_NAME} needs {REQUIRED_TOPOLOGY} or {PREFERRED_TOPOLOGY} beside it"
        ));
    }
    Ok(())
}

fn layers(text: &str) -> Result<(), String> {
    let layers: Vec<Layer> =
        serde_json::from_str(text).map_err(|problem| format!("this is no list of layers: {problem}"))?;
    if layers.is_empty() || layers.len() > MOST_LAYERS {
        return Err(format!("there may be 1 to {MOST_LAYERS} layers, and are {}", layers.len()));
    }
    if let Some(layer) = layers.iter().find(|layer| layer.size < 1) {
        return Err(format!("the size of {} must be greater than 0, and is {}", layer.topology, layer.size));
    }
    let levels: BTreeSet<&str> = layers.iter().map(|layer| layer.topology.as_str()).collect();
    if levels.len() < layers.len() {
        return Err("each layer must have a level of its own".to_owned());
    }
    let odd = layers.iter().zip(layers.iter().skip(1)).find(|(outer, inner)| outer.size % inner.size != 0);
    odd.map_or(Ok(()), |(outer, inner)| {
        Err(format!("slices of {} cannot be made of slices of {}", outer.size, inner.size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(annotations: &[(&str, &str)]) -> Option<String> {
        let annotations = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        asked(&annotations.collect()).err()
    }

    #[test]
    fn what_kueue_refuses_is_refused_in_words() {
        const LAYERS: &str = SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS;
        for (annotations, says) in [
            (&[(REQUIRED_TOPOLOGY, "rack"), (PREFERRED_TOPOLOGY, "rack")][..], "only one of the annotations"),
            (&[(UNCONSTRAINED_TOPOLOGY, "maybe")], "must be true or false, and is \"maybe\""),
            (&[(SLICE_REQUIRED_TOPOLOGY, "rack")], "go together"),
            (&[(SLICE_SIZE, "2")], "go together"),
            (&[(SLICE_REQUIRED_TOPOLOGY, "rack"), (SLICE_SIZE, "two")], "greater than 0, and is \"two\""),
            (&[(SLICE_REQUIRED_TOPOLOGY, "rack"), (SLICE_SIZE, "0")], "greater than 0, and is \"0\""),
            (&[(SLICE_REQUIRED_TOPOLOGY, "rack"), (SLICE_SIZE, "99999999999")], "greater than 0"),
            (&[(POD_SET_GROUP_NAME, "g")], "needs"),
            (&[(POD_SET_GROUP_NAME, "7"), (REQUIRED_TOPOLOGY, "rack")], "must not be a number"),
            (&[(LAYERS, "nonsense")], "this is no list of layers"),
            (&[(LAYERS, "[]")], "1 to 3 layers, and are 0"),
            (&[(LAYERS, r#"[{"topology":"rack","size":0}]"#)], "the size of rack must be greater than 0"),
            (
                &[(LAYERS, r#"[{"topology":"block","size":4},{"topology":"rack","size":3}]"#)],
                "slices of 4 cannot be made of slices of 3",
            ),
            (
                &[(LAYERS, r#"[{"topology":"rack","size":4},{"topology":"rack","size":2}]"#)],
                "a level of its own",
            ),
        ] {
            let found = problem(annotations).unwrap_or_default();
            assert!(found.contains(says), "{annotations:?}: {found:?}");
        }
    }

    #[test]
    fn what_kueue_takes_is_taken() {
        for annotations in [
            &[][..],
            &[(REQUIRED_TOPOLOGY, "rack"), (POD_SET_GROUP_NAME, "g")],
            &[(UNCONSTRAINED_TOPOLOGY, "T")],
            &[(PREFERRED_TOPOLOGY, "block"), (SLICE_REQUIRED_TOPOLOGY, "rack"), (SLICE_SIZE, "2")],
            &[(
                SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
                r#"[{"topology":"block","size":4},{"topology":"rack","size":2}]"#,
            )],
        ] {
            assert_eq!(problem(annotations), None, "{annotations:?}");
        }
    }
}
