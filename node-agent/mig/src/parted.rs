//! mig-parted's configuration file: named layouts for the GPUs of a node.
//!
//! ```yaml
//! version: v1
//! mig-configs:
//!   all-balanced:
//!     - device-filter: ["0x233010DE", "0x233110DE"]
//!       devices: all
//!       mig-enabled: true
//!       mig-devices: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
//! ```
//!
//! It is read as mig-parted reads it: what it does not know is refused, `devices` and `mig-enabled` have to be there, and
//! `mig-devices` where MIG is on and only there. Two things are refused that mig-parted takes and that can never apply: a
//! device filter that is no PCI id, and a negative index. Some names are understood without a file, as mig-parted's
//! generated configurations have them ([`well_known`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use thiserror::Error;

use crate::{
    geometry::Geometry,
    layout::Counts,
    name::{Extension, ProfileName},
    search::Search,
};

/// What a GPU should be like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// MIG is off.
    Disabled,
    /// MIG is on, with these instances.
    Enabled(Counts),
}

/// The named configurations of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Configurations(BTreeMap<String, Vec<Entry>>);

/// Which GPUs should be like what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The PCI ids of the models that it is for (device id, then vendor id, as NVML has it); all where there are none.
    pub filter: BTreeSet<u32>,
    /// The indexes of the GPUs on their node that it is for; all where it does not say.
    pub devices: Option<BTreeSet<u32>>,
    /// What they should be like.
    pub setting: Setting,
}

/// Why a text is not a configuration file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// It is not YAML of the right shape.
    #[error("not a configuration of mig-parted: {0}")]
    Malformed(String),
    /// Another version.
    #[error("version {0:?} of mig-parted's configuration is not known; v1 is")]
    Version(String),
    /// There is a place for configurations and none in it.
    #[error("mig-configs has no entry")]
    NoConfigurations,
    /// A configuration that says nothing.
    #[error("configuration {0} has no entry")]
    NoEntries(String),
    /// An entry that contradicts itself.
    #[error("configuration {name}, entry {entry}: {problem}")]
    Entry {
        /// The configuration.
        name: String,
        /// Which of its entries, from 0.
        entry: usize,
        /// What is wrong with it.
        problem: EntryError,
    },
}

/// What is wrong with an entry.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    /// Neither all devices nor some.
    #[error("devices is {0:?}; it can be all, or a list of indexes")]
    Devices(String),
    /// No PCI id.
    #[error("device-filter {0:?} is not a PCI id like 0x233010DE")]
    Filter(String),
    /// MIG on without a word on what for.
    #[error("mig-devices is missing, though mig-enabled is true")]
    NoInstances,
    /// Instances without MIG.
    #[error("mig-devices is there, though mig-enabled is false")]
    Instances,
}

impl Configurations {
    /// Reads a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let malformed = |error: serde_saphyr::Error| ConfigError::Malformed(error.to_string());
        // The version first: of another one nothing else is known.
        let Version { version } = serde_saphyr::from_str(text).map_err(malformed)?;
        if version != "v1" {
            return Err(ConfigError::Version(version));
        }
        let file: File = serde_saphyr::from_str(text).map_err(malformed)?;
        if file.configurations.as_ref().is_some_and(BTreeMap::is_empty) {
            return Err(ConfigError::NoConfigurations);
        }
        let mut configurations = BTreeMap::new();
        for (name, raw) in file.configurations.unwrap_or_default() {
            if raw.is_empty() {
                return Err(ConfigError::NoEntries(name));
            }
            let mut entries = Vec::with_capacity(raw.len());
            for (entry, raw) in raw.into_iter().enumerate() {
                let wrong = |problem| ConfigError::Entry { name: name.clone(), entry, problem };
                entries.push(raw.checked().map_err(wrong)?);
            }
            configurations.insert(name, entries);
        }
        Ok(Self(configurations))
    }

    /// The names of the configurations, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The entries of a configuration, in their order; `None` if there is no such configuration.
    pub fn entries(&self, name: &str) -> Option<&[Entry]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

/// What `entries` say of the GPU with that index and PCI id: the last one that is for it counts, as they are applied in
/// order. `None` if none is: then it stays as it is.
pub fn setting(entries: &[Entry], index: u32, pci_id: u32) -> Option<&Setting> {
    entries.iter().rfind(|entry| entry.is_for(index, pci_id)).map(|entry| &entry.setting)
}

impl Entry {
    /// Whether it is for the GPU with that index and PCI id.
    pub fn is_for(&self, index: u32, pci_id: u32) -> bool {
        let model = self.filter.is_empty() || self.filter.contains(&pci_id);
        model && self.devices.as_ref().is_none_or(|devices| devices.contains(&index))
    }
}

/// What the names that need no file mean on such a GPU: `all-disabled`, `all-enabled`, `all-balanced`, and `all-` with a
/// profile, which is as many of it as there can be. `None` if the name is none of them or the GPU has nothing of the kind.
pub fn well_known(name: &str, geometry: &Geometry) -> Option<Setting> {
    match name {
        "all-disabled" => Some(Setting::Disabled),
        "all-enabled" => Some(Setting::Enabled(Counts::default())),
        "all-balanced" => balanced(geometry).map(Setting::Enabled),
        _ => {
            let text = name.strip_prefix("all-")?;
            // A label's value may have no plus, so configurations are named as resources are.
            let named = ProfileName::from_resource(&format!("nvidia.com/mig-{text}"));
            let name = text.parse().ok().or(named)?;
            let max = geometry.profile(name)?.max;
            Some(Setting::Enabled([(name, u32::from(max))].into_iter().collect()))
        }
    }
}

/// Two of the smallest profile, and then as it comes one of each next size that there still is room for: 1g, 1g, 2g and 3g
/// on a GPU with seven compute slices, 1g, 1g and 2g on one with four.
fn balanced(geometry: &Geometry) -> Option<Counts> {
    let plain = geometry.profiles().iter().filter(|profile| profile.name.extension() == Extension::Plain);
    let mut smallest: BTreeMap<u8, ProfileName> = BTreeMap::new();
    for profile in plain {
        smallest.entry(profile.compute_slices()).or_insert(profile.name);
    }
    let first = *smallest.get(&1)?;
    let mut counts: Counts = [(first, 2)].into_iter().collect();
    for (_, &profile) in smallest.range(2..) {
        let mut more = counts.clone();
        more.add(profile, 1);
        if Search::new(geometry, &[], &[], &more).and_then(Search::any).is_some() {
            counts = more;
        }
    }
    Some(counts)
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "version")]
    _version: String,
    #[serde(rename = "mig-configs")]
    configurations: Option<BTreeMap<String, Vec<RawEntry>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawEntry {
    #[serde(default)]
    device_filter: Filter,
    devices: Devices,
    mig_enabled: bool,
    mig_devices: Option<BTreeMap<ProfileName, u32>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "device-filter has to be a PCI id or a list of PCI ids, in quotes")]
enum Filter {
    One(String),
    Some(Vec<String>),
}

impl Default for Filter {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "devices has to be all or a list of indexes")]
enum Devices {
    Word(String),
    Some(BTreeSet<u32>),
}

impl RawEntry {
    fn checked(self) -> Result<Entry, EntryError> {
        let filter = match self.device_filter {
            Filter::One(id) if id.is_empty() => Vec::new(),
            Filter::One(id) => vec![id],
            Filter::Some(ids) => ids,
        };
        let devices = match self.devices {
            Devices::Word(word) if word == "all" => None,
            Devices::Word(word) => return Err(EntryError::Devices(word)),
            Devices::Some(devices) => Some(devices),
        };
        let setting = match (self.mig_enabled, self.mig_devices) {
            (true, Some(counts)) => Setting::Enabled(counts.into()),
            (true, None) => return Err(EntryError::NoInstances),
            (false, Some(counts)) if !counts.is_empty() => return Err(EntryError::Instances),
            (false, _) => Setting::Disabled,
        };
        Ok(Entry { filter: filter.iter().map(|id| pci_id(id)).collect::<Result<_, _>>()?, devices, setting })
    }
}

/// A PCI id as text, `0x` and up to eight digits.
fn pci_id(text: &str) -> Result<u32, EntryError> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let id = digits
        .filter(|digits| !digits.starts_with('+'))
        .and_then(|digits| u32::from_str_radix(digits, 16).ok());
    id.ok_or_else(|| EntryError::Filter(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Model, pci_id},
        testing::counts,
    };

    fn parsed(entries: &str) -> Result<Configurations, ConfigError> {
        Configurations::parse(&format!("version: v1\nmig-configs:\n  c:\n{entries}"))
    }

    #[test]
    fn a_file_says_what_each_gpu_should_be_like() {
        let file = parsed(
            r#"
    - devices: all
      mig-enabled: false
    - device-filter: ["0x233010DE", "0x233110DE"]
      devices: [0, 2]
      mig-enabled: true
      mig-devices: {"1g.10gb": 2, "3g.40gb": 1, "2g.20gb": 0}
    - device-filter: "0x20b710de"
      devices: all
      mig-enabled: true
      mig-devices: {}
"#,
        )
        .unwrap();
        assert_eq!(file.names().collect::<Vec<_>>(), ["c"]);
        let entries = file.entries("c").unwrap();
        let (h100, a30) = (pci_id(0x2330), pci_id(0x20b7));
        assert_eq!(setting(entries, 0, h100), Some(&Setting::Enabled(counts("1g.10gb 1g.10gb 3g.40gb"))));
        assert_eq!(setting(entries, 1, h100), Some(&Setting::Disabled));
        assert_eq!(setting(entries, 2, a30), Some(&Setting::Enabled(Counts::default())));
        assert_eq!(setting(&entries[1..], 1, h100), None);
        assert_eq!(file.entries("d"), None);
        assert_eq!(Configurations::parse("version: v1").unwrap().names().count(), 0);
    }

    #[test]
    fn what_mig_parted_refuses_is_refused_with_what_is_wrong() {
        let table = [
            ("    - {mig-enabled: false}", "devices"),
            ("    - {devices: all}", "mig-enabled"),
            ("    - {devices: all, mig-enabled: true}", "entry 0: mig-devices is missing"),
            ("    - {devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}", "mig-devices is there"),
            ("    - {devices: some, mig-enabled: false}", "devices is \"some\""),
            ("    - {devices: [-1], mig-enabled: false}", "devices has to be all or a list of indexes"),
            ("    - {devices: all, mig-enabled: false, device-filter: x}", "\"x\" is not a PCI id"),
            ("    - {devices: all, mig-enabled: false, device-filter: '0x+2330'}", "is not a PCI id"),
            ("    - {devices: all, mig-enabled: true, mig-devices: {1g.5: 1}}", "is not a MIG profile"),
            ("    - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}", "-1"),
            ("    - {devices: all, mig-enabled: true, mig-devices: {}, extra: 1}", "extra"),
            ("    []", "configuration c has no entry"),
        ];
        for (entries, word) in table {
            let refused = parsed(entries).unwrap_err().to_string();
            assert!(refused.contains(word), "{entries}: {refused}");
        }
        assert_eq!(Configurations::parse("version: v2\nnew: 1"), Err(ConfigError::Version("v2".to_owned())));
        assert_eq!(Configurations::parse("version: v1\nmig-configs: {}"), Err(ConfigError::NoConfigurations));
        for text in [
            "",
            "{}",
            "[]",
            "version: [v1]",
            "mig-configs: {}",
            "version: v1\nmig-config: {}",
            "\u{0}",
            "a: &a [*a]",
        ] {
            assert!(matches!(Configurations::parse(text), Err(ConfigError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn some_names_need_no_file() {
        let h100 = Model::H100_80.geometry().unwrap();
        let a30 = Model::A30.geometry().unwrap();
        let enabled = |words| Some(Setting::Enabled(counts(words)));
        assert_eq!(well_known("all-disabled", &h100), Some(Setting::Disabled));
        assert_eq!(well_known("all-enabled", &h100), enabled(""));
        assert_eq!(well_known("all-balanced", &h100), enabled("1g.10gb 1g.10gb 2g.20gb 3g.40gb"));
        assert_eq!(well_known("all-balanced", &a30), enabled("1g.6gb 1g.6gb 2g.12gb"));
        assert_eq!(well_known("all-3g.40gb", &h100), enabled("3g.40gb 3g.40gb"));
        assert_eq!(well_known("all-1g.10gb.me", &h100), enabled("1g.10gb+me"));
        assert_eq!(well_known("all-1g.20gb", &h100), enabled("1g.20gb 1g.20gb 1g.20gb 1g.20gb"));
        for name in ["all-3g.71gb", "all-", "balanced", "", "all-1c.3g.20gb"] {
            assert_eq!(well_known(name, &h100), None, "{name}");
        }
    }

    #[test]
    fn what_needs_no_file_can_exist() {
        for geometry in Model::ALL.map(|model| model.geometry().unwrap()) {
            let profiles = geometry.profiles().iter().map(|profile| format!("all-{}", profile.name));
            for name in profiles.chain(["all-balanced".to_owned()]) {
                let Some(Setting::Enabled(counts)) = well_known(&name, &geometry) else { panic!("{name}") };
                let wanted = crate::Wanted::Counts(counts);
                assert!(crate::transition(&geometry, &[], &wanted).is_ok(), "{name}");
            }
        }
    }
}
