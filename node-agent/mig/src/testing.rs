//! Layouts as words, for tests.

use crate::{Counts, Existing, Geometry, Instance, Layout};

/// `3g.40gb@0 1g.10gb@6`.
pub(crate) fn instances(words: &str) -> Vec<Instance> {
    let instance = |word: &str| {
        let (profile, start) = word.split_once('@').unwrap();
        Instance::new(profile.parse().unwrap(), start.parse().unwrap())
    };
    words.split_whitespace().map(instance).collect()
}

/// The same, where it can exist.
pub(crate) fn layout(geometry: &Geometry, words: &str) -> Layout {
    Layout::new(geometry, instances(words)).unwrap()
}

/// `3g.40gb 1g.10gb 1g.10gb`, in any order.
pub(crate) fn counts(words: &str) -> Counts {
    words.split_whitespace().map(|word| (word.parse().unwrap(), 1)).collect()
}

/// `3g.40gb@0! 1g.10gb@6`, where a mark says that it is busy.
pub(crate) fn existing(words: &str) -> Vec<Existing> {
    let one = |word: &str| {
        let (plain, busy) = word.strip_suffix('!').map_or((word, false), |plain| (plain, true));
        instances(plain).into_iter().map(move |instance| Existing { instance, busy }).collect::<Vec<_>>()
    };
    words.split_whitespace().flat_map(one).collect()
}
