//! Instances that exist together on a GPU.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{geometry::Geometry, name::ProfileName};

/// A GPU instance by what it is and where it lies. Identities that the driver gives (ids, a UUID) are its owner's
/// matter: they change whenever the instance is made anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Instance {
    /// The memory slice at which it begins.
    pub start: u8,
    /// What it is.
    pub profile: ProfileName,
}

impl Instance {
    /// The instance of `profile` that begins at `start`.
    pub fn new(profile: ProfileName, start: u8) -> Self {
        Self { start, profile }
    }
}

impl fmt::Display for Instance {
    /// As `3g.40gb@4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.profile, self.start)
    }
}

/// Why instances cannot exist together on a GPU.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// The GPU has no such profile.
    #[error("this GPU has no MIG profile {profile}; it has {}", list(.has))]
    UnknownProfile {
        /// What was asked for.
        profile: ProfileName,
        /// What there is.
        has: Vec<ProfileName>,
    },
    /// The profile cannot begin there.
    #[error("{instance} cannot be: {} begins at one of {}", .instance.profile, list(.starts))]
    NoSuchStart {
        /// What was asked for.
        instance: Instance,
        /// Where the profile may begin.
        starts: Vec<u8>,
    },
    /// Two instances need the same memory slice.
    #[error("{first} and {second} overlap")]
    Overlap {
        /// The one that begins first.
        first: Instance,
        /// The other.
        second: Instance,
    },
    /// The instances need more compute slices than there are.
    #[error("{} of {has} compute slices are asked for", .asked)]
    TooMuchCompute {
        /// How many they need.
        asked: u32,
        /// How many there are.
        has: u8,
    },
    /// There can be fewer of one profile.
    #[error("{asked} of {profile} are asked for and there can be {max}")]
    TooMany {
        /// Which.
        profile: ProfileName,
        /// How many are asked for.
        asked: u32,
        /// How many there can be.
        max: u8,
    },
    /// Two instances claim the engines for media.
    #[error("{first} and {second} both claim the media engines")]
    MediaTwice {
        /// The one that begins first.
        first: Instance,
        /// The other.
        second: Instance,
    },
}

/// What stands in a message for several things.
fn list(items: &[impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Instances that can exist together on a GPU, in the order of where they begin.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Layout(Vec<Instance>);

impl Layout {
    /// These instances, if they can exist together on such a GPU.
    pub fn new(
        geometry: &Geometry,
        instances: impl IntoIterator<Item = Instance>,
    ) -> Result<Self, LayoutError> {
        let mut instances: Vec<_> = instances.into_iter().collect();
        instances.sort_unstable();
        check(geometry, &instances)?;
        Ok(Self(instances))
    }

    /// The same without a check, for what was put together so that it fits.
    pub(crate) fn of_fitting(mut instances: Vec<Instance>) -> Self {
        instances.sort_unstable();
        Self(instances)
    }

    /// The instances, in the order of where they begin.
    pub fn instances(&self) -> &[Instance] {
        &self.0
    }

    /// How many of each profile there are.
    pub fn counts(&self) -> Counts {
        self.0.iter().map(|instance| (instance.profile, 1)).collect()
    }
}

impl fmt::Display for Layout {
    /// As `3g.40gb@0 3g.40gb@4`, or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        let words: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

fn check(geometry: &Geometry, instances: &[Instance]) -> Result<(), LayoutError> {
    let (mut compute, mut claims) = (0_u32, None);
    let mut taken: Vec<(u16, Instance)> = Vec::with_capacity(instances.len());
    let mut counts = Counts::default();
    for &instance in instances {
        let profile = geometry.profile(instance.profile).ok_or_else(|| LayoutError::UnknownProfile {
            profile: instance.profile,
            has: geometry.profiles().iter().map(|profile| profile.name).collect(),
        })?;
        if !profile.starts.contains(&instance.start) {
            return Err(LayoutError::NoSuchStart { instance, starts: profile.starts.clone() });
        }
        let mask = profile.mask(instance.start);
        if let Some(&(_, first)) = taken.iter().find(|(other, _)| other & mask != 0) {
            return Err(LayoutError::Overlap { first, second: instance });
        }
        taken.push((mask, instance));
        if instance.profile.extension().claims_media() {
            match claims {
                Some(first) => return Err(LayoutError::MediaTwice { first, second: instance }),
                None => claims = Some(instance),
            }
        }
        let asked = counts.add(profile.name, 1);
        if asked > u32::from(profile.max) {
            return Err(LayoutError::TooMany { profile: profile.name, asked, max: profile.max });
        }
        compute += u32::from(profile.compute_slices());
    }
    if compute > u32::from(geometry.compute_slices()) {
        return Err(LayoutError::TooMuchCompute { asked: compute, has: geometry.compute_slices() });
    }
    Ok(())
}

/// How many of each profile, wherever they lie. None of them is zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<ProfileName, u32>", into = "BTreeMap<ProfileName, u32>")]
pub struct Counts(BTreeMap<ProfileName, u32>);

impl Counts {
    /// How many there are of `profile`.
    pub fn get(&self, profile: ProfileName) -> u32 {
        self.0.get(&profile).copied().unwrap_or_default()
    }

    /// Each profile with how many there are of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ProfileName, u32)> {
        self.0.iter().map(|(&profile, &count)| (profile, count))
    }

    /// Whether there is none of anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.0.values().map(|&count| u64::from(count)).sum()
    }

    /// One less of `profile`, if there is one.
    pub(crate) fn take(&mut self, profile: ProfileName) -> bool {
        let Some(count) = self.0.get_mut(&profile) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&profile);
        }
        true
    }

    /// `count` more of `profile`; gives how many that makes.
    pub fn add(&mut self, profile: ProfileName, count: u32) -> u32 {
        if count == 0 {
            return self.get(profile);
        }
        let entry = self.0.entry(profile).or_default();
        *entry = entry.saturating_add(count);
        *entry
    }
}

impl FromIterator<(ProfileName, u32)> for Counts {
    fn from_iter<T: IntoIterator<Item = (ProfileName, u32)>>(items: T) -> Self {
        let mut counts = Self::default();
        for (profile, count) in items {
            counts.add(profile, count);
        }
        counts
    }
}

impl From<BTreeMap<ProfileName, u32>> for Counts {
    fn from(counts: BTreeMap<ProfileName, u32>) -> Self {
        counts.into_iter().collect()
    }
}

impl From<Counts> for BTreeMap<ProfileName, u32> {
    fn from(counts: Counts) -> Self {
        counts.0
    }
}

impl fmt::Display for Counts {
    /// As `2×1g.10gb 1×3g.40gb`, or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        let words: Vec<_> = self.iter().map(|(profile, count)| format!("{count}×{profile}")).collect();
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn layout(model: Model, words: &str) -> Result<Layout, LayoutError> {
        let instance = |word: &str| {
            let (profile, start) = word.split_once('@').unwrap();
            Instance::new(profile.parse().unwrap(), start.parse().unwrap())
        };
        Layout::new(&model.geometry().unwrap(), words.split_whitespace().map(instance))
    }

    #[test]
    fn what_fits_is_a_layout() {
        for words in
            ["", "7g.80gb@0", "3g.40gb@0 3g.40gb@4", "4g.40gb@0 2g.20gb@4 1g.10gb@6", "1g.20gb@0 1g.20gb@6"]
        {
            assert!(layout(Model::H100_80, words).is_ok(), "{words}");
        }
        assert_eq!(layout(Model::H100_80, "3g.40gb@4 3g.40gb@0").unwrap().to_string(), "3g.40gb@0 3g.40gb@4");
        assert_eq!(layout(Model::H100_80, "").unwrap().to_string(), "nothing");
        assert_eq!(
            layout(Model::A30, "1g.6gb@3 1g.6gb@0 2g.12gb@1").unwrap_err().to_string(),
            "2g.12gb@1 cannot be: 2g.12gb begins at one of 0, 2"
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_is_in_the_way() {
        let table = [
            (
                "3g.20gb@0",
                "this GPU has no MIG profile 3g.20gb; it has 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb",
            ),
            ("1g.10gb@7", "1g.10gb@7 cannot be: 1g.10gb begins at one of 0, 1, 2, 3, 4, 5, 6"),
            ("4g.40gb@0 1g.10gb@3", "4g.40gb@0 and 1g.10gb@3 overlap"),
            ("1g.10gb@1 1g.10gb@1", "1g.10gb@1 and 1g.10gb@1 overlap"),
            ("1g.10gb+me@0 1g.10gb+me@1", "1g.10gb+me@0 and 1g.10gb+me@1 both claim the media engines"),
        ];
        for (words, message) in table {
            assert_eq!(layout(Model::H100_80, words).unwrap_err().to_string(), message);
        }
        let twice = layout(Model::A30, "1g.6gb+me@0 2g.12gb+me@2").unwrap_err();
        assert_eq!(twice.to_string(), "1g.6gb+me@0 and 2g.12gb+me@2 both claim the media engines");
    }

    #[test]
    fn counts_are_read_and_written_without_zeros() {
        let profile = |name: &str| name.parse::<ProfileName>().unwrap();
        let counts: Counts =
            [(profile("3g.40gb"), 1), (profile("1g.10gb"), 2), (profile("2g.20gb"), 0)].into_iter().collect();
        assert_eq!(counts.to_string(), "2×1g.10gb 1×3g.40gb");
        assert_eq!(counts.total(), 3);
        assert_eq!(layout(Model::H100_80, "1g.10gb@5 1g.10gb@6 3g.40gb@0").unwrap().counts(), counts);
    }
}
