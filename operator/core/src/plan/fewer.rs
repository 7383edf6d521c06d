//! Partial admission: a workload that makes do with fewer pods gets as many as there is room for (KEP-420).
//!
//! The pod sets shrink together, each by its part of what it can do without, so that one number tells how far they have.

use crate::workload::PodSet;

/// Pod sets that may shrink.
pub(super) struct Fewer<'a> {
    pod_sets: &'a [PodSet],
    /// How many pods all of them together can do without.
    dispensable: u64,
}

impl<'a> Fewer<'a> {
    /// These, if they make do with fewer pods.
    pub(super) fn than(pod_sets: &'a [PodSet]) -> Option<Self> {
        let dispensable = pod_sets.iter().map(dispensable).sum();
        (dispensable > 0).then_some(Self { pod_sets, dispensable })
    }

    /// The most pods for which `fits` has an answer, and that answer. What fits is looked for as if whatever fits went on
    /// to fit with fewer pods, in as many attempts as a binary search takes.
    pub(super) fn most<T>(&self, mut fits: impl FnMut(&[PodSet]) -> Option<T>) -> Option<T> {
        let (mut least, mut end) = (0, self.dispensable + 1);
        let mut found = None;
        while least < end {
            let middle = least + (end - least) / 2;
            match fits(&self.without(middle)) {
                Some(answer) => {
                    found = Some((middle, answer));
                    end = middle;
                }
                None => least = middle + 1,
            }
        }
        found.filter(|(without, _)| *without == least).map(|(_, answer)| answer)
    }

    /// As few pods as they make do with.
    pub(super) fn fewest(&self) -> Vec<PodSet> {
        self.without(self.dispensable)
    }

    /// Them, shrunk so far.
    fn without(&self, step: u64) -> Vec<PodSet> {
        let shrunk = |pod_set: &PodSet| {
            let fewer =
                u128::from(dispensable(pod_set)) * u128::from(step) / u128::from(self.dispensable.max(1));
            let count = pod_set.count.saturating_sub(u32::try_from(fewer).unwrap_or(u32::MAX));
            PodSet { count, ..pod_set.clone() }
        };
        self.pod_sets.iter().map(shrunk).collect()
    }
}

/// How many of its pods a pod set can do without.
fn dispensable(pod_set: &PodSet) -> u64 {
    pod_set.min_count.map_or(0, |least| u64::from(pod_set.count.saturating_sub(least)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::workload, workload::Workload};

    fn pod_sets() -> std::sync::Arc<[PodSet]> {
        let of =
            workload("ns/it").pods("a", 10, [("cpu", 1)]).at_least(2).pods("b", 4, [("cpu", 1)]).at_least(2);
        let of: Workload = of.pods("c", 3, [("cpu", 1)]).into();
        of.pod_sets.unwrap()
    }

    fn counts(of: &[PodSet]) -> Vec<u32> {
        of.iter().map(|pod_set| pod_set.count).collect()
    }

    #[test]
    fn pod_sets_shrink_together_and_those_that_cannot_stay_as_they_are() {
        let pod_sets = pod_sets();
        let fewer = Fewer::than(&pod_sets).unwrap();
        for (step, want) in
            [(0, [10, 4, 3]), (1, [10, 4, 3]), (5, [6, 3, 3]), (9, [3, 3, 3]), (10, [2, 2, 3])]
        {
            assert_eq!(counts(&fewer.without(step)), want, "{step}");
        }
        assert_eq!(counts(&fewer.fewest()), [2, 2, 3]);
        assert!(Fewer::than(&pod_sets[2..]).is_none());
    }

    #[test]
    fn the_most_pods_that_fit_are_found() {
        let pod_sets = pod_sets();
        let fewer = Fewer::than(&pod_sets).unwrap();
        for (room, want) in
            [(99, Some(17)), (17, Some(17)), (16, Some(16)), (11, Some(11)), (7, Some(7)), (6, None)]
        {
            let fits = |pods: &[PodSet]| {
                let count: u32 = counts(pods).iter().sum();
                (count <= room).then_some(count)
            };
            assert_eq!(fewer.most(fits), want, "{room}");
        }
    }
}
