//! Why a pod set finds no place, in words.

use std::{collections::BTreeMap, fmt::Write as _};

use super::tree::Unfit;
use crate::{
    flavor::Taint,
    name::{FlavorName, ResourceName},
};

/// A pod set finds no place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// Which of those that were to be placed.
    pub index: usize,
    /// The flavor on whose nodes it finds none.
    pub flavor: FlavorName,
    /// Why, in Kueue's words.
    pub message: String,
}

/// Why leaves take no pod at all.
#[derive(Clone, Default, Debug)]
pub(super) struct Exclusions {
    /// How many leaves were looked at.
    pub(super) leaves: usize,
    selector: usize,
    affinity: usize,
    taints: BTreeMap<String, usize>,
    resources: BTreeMap<ResourceName, usize>,
}

impl Exclusions {
    pub(super) fn note(&mut self, unfit: &Unfit) {
        match unfit {
            Unfit::Selector => self.selector += 1,
            Unfit::Affinity => self.affinity += 1,
            Unfit::Taint(taint) => *self.taints.entry(text(taint)).or_default() += 1,
        }
    }

    pub(super) fn note_scarce(&mut self, resource: &ResourceName) {
        if let Some(count) = self.resources.get_mut(resource) {
            *count += 1;
        } else {
            self.resources.insert(resource.clone(), 1);
        }
    }

    /// What is said of them behind the message, if there are any.
    pub(super) fn append_to(&self, message: &mut String) {
        let counted = [("nodeSelector", self.selector), ("affinity", self.affinity)];
        let counted = counted.into_iter().filter(|(_, count)| *count > 0);
        let mut reasons: Vec<String> = counted.map(|(what, count)| format!("{what}: {count}")).collect();
        reasons.extend(self.taints.iter().map(|(taint, count)| format!("taint {taint:?}: {count}")));
        let scarce = self.resources.iter();
        reasons.extend(scarce.map(|(resource, count)| format!("resource {:?}: {count}", resource.as_str())));
        if reasons.is_empty() {
            return;
        }
        reasons.sort();
        let _ = write!(message, ". Total nodes: {}; excluded: {}", self.leaves, reasons.join(", "));
    }
}

/// A taint as `kubectl taint` writes it.
fn text(taint: &Taint) -> String {
    let Taint { key, value, effect } = taint;
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    format!("{key}{value}:{effect:?}")
}
