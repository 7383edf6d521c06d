//! Names of profiles: `3g.40gb`, `1g.10gb+me`, `1c.3g.40gb`.
//!
//! The grammar is mig-parted's, `[Cc.]Gg.Mgb[+attribute|-attribute]`: how many of the instance's compute slices the
//! compute instance has (left out where it is all), how many the instance has, its share of the GPU's memory in GB,
//! and what it has more or less than others of its size. On a node the same name is a resource, with a dot in place of
//! the plus: `nvidia.com/mig-1g.10gb.me`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What stands before a profile in the name of a resource.
pub const RESOURCE_PREFIX: &str = "nvidia.com/mig-";

/// The name of a profile. It says nothing about whether any GPU has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileName {
    slices: u8,
    gigabytes: u16,
    extension: Extension,
    compute: u8,
}

/// What an instance has more or less than others of its size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Extension {
    /// Nothing.
    #[default]
    Plain,
    /// `+me`: one of the engines for media, of which some GPUs have a single one to give.
    Media,
    /// `+me.all`: all engines for media.
    AllMedia,
    /// `+gfx`: graphics.
    Graphics,
    /// `-me`: no engine for media, where others of its size have one.
    NoMedia,
}

impl Extension {
    const ALL: [Self; 5] = [Self::Plain, Self::Media, Self::AllMedia, Self::Graphics, Self::NoMedia];

    /// As it stands at the end of a profile's name.
    fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Media => "+me",
            Self::AllMedia => "+me.all",
            Self::Graphics => "+gfx",
            Self::NoMedia => "-me",
        }
    }

    /// Whether it claims engines for media that no other instance on the GPU may claim then.
    pub fn claims_media(self) -> bool {
        matches!(self, Self::Media | Self::AllMedia)
    }
}

/// Why a text is not the name of a profile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// It does not follow the grammar.
    #[error("{0:?} is not a MIG profile: expected something like 3g.40gb, 1g.10gb+me or 1c.3g.40gb")]
    Malformed(String),
    /// An attribute that no profile has.
    #[error("{name:?} ends in {attribute:?}; the attributes of MIG profiles are +me, +me.all, +gfx and -me")]
    UnknownAttribute {
        /// The whole text.
        name: String,
        /// The attribute with its sign.
        attribute: String,
    },
    /// A number that cannot be: zero slices, zero memory, or a compute instance larger than the instance it is in.
    #[error("{0:?} cannot be a MIG profile: it has no slice, no memory, or more compute than its instance")]
    Impossible(String),
}

impl ProfileName {
    /// The profile with `slices` compute slices and `gigabytes` of memory; `None` where either is zero.
    pub fn new(slices: u8, gigabytes: u16, extension: Extension) -> Option<Self> {
        (slices > 0 && gigabytes > 0).then_some(Self { slices, gigabytes, extension, compute: slices })
    }

    /// How many compute slices the GPU instance has.
    pub fn slices(self) -> u8 {
        self.slices
    }

    /// Its share of the GPU's memory, in GB, rounded as names are.
    pub fn gigabytes(self) -> u16 {
        self.gigabytes
    }

    /// What it has more or less than others of its size.
    pub fn extension(self) -> Extension {
        self.extension
    }

    /// How many compute slices the compute instance has.
    pub fn compute(self) -> u8 {
        self.compute
    }

    /// The profile of the GPU instance: this one without the prefix for a part of its compute slices.
    pub fn gpu_instance(self) -> Self {
        Self { compute: self.slices, ..self }
    }

    /// The name of the resource under which a node offers it where each profile is a resource of its own (what NVIDIA's
    /// device plugin calls the mixed strategy).
    pub fn resource(self) -> String {
        format!("{RESOURCE_PREFIX}{}", self.to_string().replace('+', "."))
    }

    /// The profile of which `resource` is the name; `None` if it is the name of another resource.
    pub fn from_resource(resource: &str) -> Option<Self> {
        let text = resource.strip_prefix(RESOURCE_PREFIX)?;
        let (size, after) = text.split_once("gb")?;
        let attribute = match after.strip_prefix('.') {
            Some(attribute) => format!("+{attribute}"),
            None if after.starts_with('+') => return None,
            None => after.to_owned(),
        };
        format!("{size}gb{attribute}").parse().ok()
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.compute != self.slices {
            write!(f, "{}c.", self.compute)?;
        }
        write!(f, "{}g.{}gb{}", self.slices, self.gigabytes, self.extension.suffix())
    }
}

impl FromStr for ProfileName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let malformed = || NameError::Malformed(text.to_owned());
        let (size, attribute) = text.split_at(text.find(['+', '-']).unwrap_or(text.len()));
        let known = Extension::ALL.into_iter().find(|extension| extension.suffix() == attribute);
        let mut fields = size.split('.').rev();
        let gigabytes = fields.next().and_then(|field| number(field, "gb")).ok_or_else(malformed)?;
        let slices = fields.next().and_then(|field| number(field, "g")).ok_or_else(malformed)?;
        let compute = match fields.next() {
            Some(field) => number(field, "c").ok_or_else(malformed)?,
            None => slices,
        };
        if fields.next().is_some() {
            return Err(malformed());
        }
        let extension = known.ok_or_else(|| NameError::UnknownAttribute {
            name: text.to_owned(),
            attribute: attribute.to_owned(),
        })?;
        let impossible = || NameError::Impossible(text.to_owned());
        let small = |value: u16| u8::try_from(value).map_err(|_| impossible());
        let (slices, compute) = (small(slices)?, small(compute)?);
        if compute == 0 || compute > slices {
            return Err(impossible());
        }
        Ok(Self { compute, ..Self::new(slices, gigabytes, extension).ok_or_else(impossible)? })
    }
}

/// The number before `unit`: digits alone, and no zero in front of others.
fn number(field: &str, unit: &str) -> Option<u16> {
    let digits = field.strip_suffix(unit)?;
    let plain =
        digits.bytes().all(|digit| digit.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}

impl TryFrom<String> for ProfileName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<ProfileName> for String {
    fn from(name: ProfileName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_written_alike() {
        let names =
            ["1g.5gb", "7g.141gb", "1g.10gb+me", "1g.24gb+me.all", "2g.48gb+gfx", "1g.24gb-me", "1c.3g.40gb"];
        for name in names {
            assert_eq!(name.parse::<ProfileName>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_compute_instance_that_is_all_of_its_instance_needs_no_prefix() {
        assert_eq!("3c.3g.40gb".parse::<ProfileName>().unwrap().to_string(), "3g.40gb");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let malformed = [
            "",
            "g",
            "1g",
            "1g.",
            "1g.5",
            "1g.gb",
            ".5gb",
            "1g.5gb ",
            " 1g.5gb",
            "1G.5GB",
            "-1g.5gb",
            "1g.05gb",
            "1g.5gb.",
            "1g.5.gb",
            "1x.1g.5gb",
            "1c.1c.1g.5gb",
            "1g.99999gb",
            "1g.5gb.me",
            "+me",
            "١g.5gb",
        ];
        for name in malformed {
            assert_eq!(name.parse::<ProfileName>(), Err(NameError::Malformed(name.to_owned())), "{name}");
        }
        for name in
            ["1g.5gb+", "1g.5gb-", "1g.5gb+ME", "1g.5gb+me,gfx", "1g.5gb-gfx", "1g.5gb+me+me", "1g.5gb +me"]
        {
            let refused = name.parse::<ProfileName>().unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
        for name in ["0g.5gb", "1g.0gb", "0c.1g.5gb", "4c.3g.40gb", "300g.5gb"] {
            assert_eq!(name.parse::<ProfileName>(), Err(NameError::Impossible(name.to_owned())), "{name}");
        }
    }

    #[test]
    fn a_resource_is_named_after_its_profile_with_dots() {
        let table = [
            ("3g.40gb", "nvidia.com/mig-3g.40gb"),
            ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
            ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
            ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
            ("1c.3g.40gb", "nvidia.com/mig-1c.3g.40gb"),
        ];
        for (name, resource) in table {
            let name: ProfileName = name.parse().unwrap();
            assert_eq!(name.resource(), resource);
            assert_eq!(ProfileName::from_resource(resource), Some(name));
        }
        let others = [
            "nvidia.com/gpu",
            "nvidia.com/mig-",
            "nvidia.com/mig-1g.10gb+me",
            "amd.com/mig-1g.5gb",
            "mig-1g.5gb",
        ];
        for other in others {
            assert_eq!(ProfileName::from_resource(other), None, "{other}");
        }
    }
}
