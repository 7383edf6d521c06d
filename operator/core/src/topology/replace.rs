//! Another place for the pods that are on one host, while the others stay where they are: what a node that fails needs.
//!
//! As in Kueue, those that have to be in one domain stay in the domain of the others, and pods of a slice that is broken go
//! where the rest of it is.

use std::sync::Arc;

use super::{
    Ask, Layer, Nearness, Placement, Profile, Spot, Taken, TopologyRequest, Trees,
    tree::{DomainId, Tree},
};
use crate::workload::PodSet;

/// More than any leaf has room for.
const EVERYTHING: i128 = i128::MAX / 4;

/// A domain, as a level and any leaf in it.
type Domain = (usize, usize);

impl Trees {
    /// The placement of a pod set without this host, whose pods are elsewhere then. What that takes is taken as well.
    pub fn replace(
        &self,
        ask: &Ask,
        placement: &Placement,
        host: &str,
        taken: &mut Taken,
        profile: Profile,
    ) -> Result<Placement, String> {
        let tree = self.tree(&ask.flavor).ok_or_else(|| format!("flavor {} has no topology", ask.flavor))?;
        if !placement.is_on_hosts() || !tree.is_named_by(&placement.levels) {
            return Err("the placement is not by hosts".to_owned());
        }
        let (gone, kept): (Vec<&Spot>, Vec<&Spot>) =
            placement.spots.iter().partition(|spot| spot.values.last().is_some_and(|name| **name == *host));
        let count = gone.iter().map(|spot| spot.count).sum();
        let leaf = |spot: &&Spot| match tree.leaf(&spot.values) {
            Some(leaf) => Ok((leaf, spot.count)),
            None => Err(format!(
                "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale \
                 domain {}",
                spot.values.last().map_or("", |name| name)
            )),
        };
        let kept: Vec<(usize, u32)> = kept.iter().map(leaf).collect::<Result<_, _>>()?;
        let (request, domain) = tree.still_asked(ask.request(), &kept, count);
        let pod_set = PodSet { count, topology: Some(request), ..ask.pod_set.clone() };
        let ask = Ask { pod_set, flavor: ask.flavor.clone(), implied: ask.implied };
        let mut closed = taken.clone();
        closed.close(&ask, tree, |leaf| {
            tree.name(leaf).is_some_and(|name| **name == *host)
                || domain.is_some_and(|(level, of)| !tree.are_together(leaf, of, level))
        });
        let found =
            self.place(std::slice::from_ref(&ask), &closed, profile).map_err(|misfit| misfit.message)?;
        let found = found.into_iter().next().unwrap_or_default();
        self.take_one(taken, &ask.stay(found.clone()));
        Ok(tree.merged(&kept, &found))
    }
}

impl Taken {
    /// Nobody finds a place any more in the leaves that are closed.
    fn close(&mut self, ask: &Ask, tree: &Tree, is_closed: impl Fn(usize) -> bool) {
        let Some(taken) = self.of_mut(&ask.flavor) else { return };
        for (leaf, taken) in taken.chunks_exact_mut(tree.width().max(1)).enumerate() {
            if is_closed(leaf) {
                taken.fill(EVERYTHING);
            }
        }
    }
}

impl Tree {
    /// What is asked for so many pods of a set of which the others are kept, and the domain in which they have to be, if it
    /// has to be one.
    fn still_asked(
        &self,
        request: Option<&TopologyRequest>,
        kept: &[(usize, u32)],
        count: u32,
    ) -> (TopologyRequest, Option<Domain>) {
        let request = TopologyRequest { group: None, ..request.cloned().unwrap_or_default() };
        let fits = |layer: &&Layer| count.checked_rem(layer.size) == Some(0);
        if request.layers.first().is_none_or(|layer| fits(&layer)) {
            let required = match &request.nearness {
                Some(Nearness::Required(label)) => self.level(label),
                _ => None,
            };
            let domain = required.zip(kept.first()).map(|(level, (leaf, _))| (level, *leaf));
            return (request, domain);
        }
        let broken = request.layers.iter().rev().find(|layer| !fits(layer));
        let domain = broken.and_then(|layer| self.incomplete(layer, kept, count));
        let layers: Vec<Layer> = request.layers.iter().rev().find(fits).cloned().into_iter().collect();
        // Slices alone say where pods are to be; a pod by itself may be anywhere.
        let nearness = request.nearness.or_else(|| layers.is_empty().then_some(Nearness::Unconstrained));
        (TopologyRequest { nearness, layers, group: None }, domain)
    }

    /// The domain in which a slice lacks so many pods.
    fn incomplete(&self, layer: &Layer, kept: &[(usize, u32)], count: u32) -> Option<Domain> {
        let level = self.level(&layer.level)?;
        let pods = |of: usize| {
            kept.iter()
                .filter(|(leaf, _)| self.are_together(*leaf, of, level))
                .map(|(_, count)| count)
                .sum::<u32>()
        };
        let lacks = |leaf: usize| (pods(leaf) + count).checked_rem(layer.size) == Some(0);
        kept.iter().map(|(leaf, _)| *leaf).find(|leaf| lacks(*leaf)).map(|leaf| (level, leaf))
    }

    /// Both as one placement.
    fn merged(&self, kept: &[(usize, u32)], found: &Placement) -> Placement {
        let found = found.spots.iter().filter_map(|spot| Some((self.leaf(&spot.values)?, spot.count)));
        let mut counts = std::collections::BTreeMap::<DomainId, i64>::new();
        for (leaf, count) in kept.iter().copied().chain(found) {
            *counts.entry(self.domain_of(leaf)).or_default() += i64::from(count);
        }
        self.placement(counts.into_iter().collect())
    }

    /// The name of the host that a leaf is.
    fn name(&self, leaf: usize) -> Option<&Arc<str>> {
        self.path(leaf).last()
    }

    /// Whether two leaves are in the same domain of a level.
    fn are_together(&self, a: usize, b: usize, level: usize) -> bool {
        self.path(a).get(..=level) == self.path(b).get(..=level)
    }
}
