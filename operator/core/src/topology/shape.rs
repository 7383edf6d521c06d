//! What a pod set asks for, in terms of one tree's levels.

use std::collections::BTreeMap;

use super::{Layer, Nearness, Profile, TopologyRequest, tree::Tree};

/// What is to be placed, by levels of a tree.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// How many pods.
    pub(super) count: i64,
    /// How many leaders beside them: one, or none.
    pub(super) leaders: i64,
    /// The level of the domain that all should be in.
    pub(super) level: usize,
    /// How many pods make a slice; 1 without slices.
    pub(super) slice_size: i64,
    /// The level of the domain that a slice has to be in.
    pub(super) slice_level: usize,
    /// The size of the slices within slices, at each level at which they are not to be broken.
    pub(super) inner: BTreeMap<usize, i64>,
    /// The layers of slices, if there are several.
    pub(super) layers: Vec<Layer>,
    /// Whether several domains will not do.
    pub(super) required: bool,
    /// Whether the domain may be any.
    pub(super) unconstrained: bool,
    /// Whether the domain with the least room goes first, and not the one that fits best.
    pub(super) fills_up: bool,
}

impl Shape {
    /// The shape of a request, or why the tree has none for it.
    pub(super) fn new(
        tree: &Tree,
        request: &TopologyRequest,
        implied: bool,
        count: u32,
        leaders: i64,
        profile: Profile,
    ) -> Result<Self, String> {
        let first = request.layers.first();
        let slice_size = first.map_or(1, |layer| i64::from(layer.size));
        if slice_size == 0 {
            return Err("slice topology requested, but slice size not provided".to_owned());
        }
        let label = wanted_level(tree, request, implied).ok_or("topology level not specified")?;
        let level = tree.level(label).ok_or_else(|| format!("no requested topology level: {label}"))?;
        let slice_label = first.map_or_else(|| tree.label(tree.lowest()), |layer| &layer.level);
        let slice_level = tree
            .level(slice_label)
            .ok_or_else(|| format!("no requested topology level for slices: {slice_label}"))?;
        if level > slice_level {
            return Err(format!("podset slice topology {slice_label} is above the podset topology {label}"));
        }
        let inner = inner_sizes(tree, &request.layers, slice_level)?;
        let slices_only = !request.layers.is_empty()
            && !matches!(request.nearness, Some(Nearness::Required(_) | Nearness::Preferred(_)));
        let unconstrained = implied || slices_only || request.nearness == Some(Nearness::Unconstrained);
        Ok(Self {
            count: i64::from(count),
            leaders,
            level,
            slice_size,
            slice_level,
            layers: if inner.is_empty() { Vec::new() } else { request.layers.clone() },
            inner,
            required: matches!(request.nearness, Some(Nearness::Required(_))),
            unconstrained,
            fills_up: unconstrained && profile.fills_up_the_unconstrained,
        })
    }

    /// How many slices are to be placed.
    pub(super) fn slices(&self) -> i64 {
        self.count / self.slice_size.max(1)
    }
}

/// The label of the level of the domain that all pods should be in.
fn wanted_level<'a>(tree: &'a Tree, request: &'a TopologyRequest, implied: bool) -> Option<&'a str> {
    match &request.nearness {
        Some(Nearness::Required(label) | Nearness::Preferred(label)) => Some(label),
        _ if !request.layers.is_empty() => Some(tree.label(0)),
        Some(Nearness::Unconstrained) => Some(tree.label(tree.lowest())),
        None => implied.then(|| tree.label(tree.lowest())),
    }
}

/// Whether a tree has every level that a request names.
pub(super) fn has_levels(tree: &Tree, request: &TopologyRequest) -> bool {
    wanted_level(tree, request, false).is_some_and(|label| tree.level(label).is_some())
        && request.layers.iter().all(|layer| tree.level(&layer.level).is_some())
}

/// How large the slices within slices are at each level below the outermost slices.
fn inner_sizes(tree: &Tree, layers: &[Layer], slice_level: usize) -> Result<BTreeMap<usize, i64>, String> {
    let mut sizes = BTreeMap::new();
    let (mut above, mut size_above) = (slice_level, layers.first().map_or(1, |layer| layer.size));
    for layer in layers.iter().skip(1) {
        let label = &layer.level;
        let level = tree
            .level(label)
            .ok_or_else(|| format!("no requested topology level for additional slice layer: {label}"))?;
        if level <= above {
            let above = tree.label(above);
            return Err(format!(
                "additional slice layer topology {label} must be at a lower level than {above}"
            ));
        }
        if size_above.checked_rem(layer.size) != Some(0) {
            let size = layer.size;
            return Err(format!(
                "additional slice layer size {size} must evenly divide parent layer size {size_above}"
            ));
        }
        sizes.extend((above + 1..=level).map(|level| (level, i64::from(layer.size))));
        (above, size_above) = (level, layer.size);
    }
    Ok(sizes)
}
