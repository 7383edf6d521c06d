//! The tables of known models.
//!
//! They are what a simulated GPU has and what is assumed of one that cannot be asked; a real GPU is asked.

mod table;

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::geometry::{Geometry, GeometryError};

/// A model of GPU that has MIG.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Model {
    /// NVIDIA A100 with 40 GB.
    A100_40,
    /// NVIDIA A100 with 80 GB.
    A100_80,
    /// NVIDIA A30 with 24 GB.
    A30,
    /// NVIDIA H100 with 80 GB.
    H100_80,
    /// NVIDIA H100 NVL with 94 GB.
    H100Nvl,
    /// NVIDIA H200 with 141 GB.
    H200,
    /// NVIDIA B200 with 180 GB.
    B200,
    /// NVIDIA GB200 with 186 GB.
    Gb200,
}

/// The generation of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Architecture {
    /// Compute capability 8: switching MIG on or off takes effect with a reset of the GPU.
    Ampere,
    /// Compute capability 9.
    Hopper,
    /// Compute capability 10.
    Blackwell,
}

impl Architecture {
    /// Whether switching MIG on or off takes effect only with a reset of the GPU. Later generations switch as soon as
    /// nobody uses the GPU.
    pub fn resets_for_mode(self) -> bool {
        self == Self::Ampere
    }

    /// Its name in lower case, as in the label `nvidia.com/gpu.family`.
    pub fn family(self) -> &'static str {
        match self {
            Self::Ampere => "ampere",
            Self::Hopper => "hopper",
            Self::Blackwell => "blackwell",
        }
    }

    /// The compute capability of its data centre GPUs, major and minor.
    pub fn compute_capability(self) -> (u8, u8) {
        match self {
            Self::Ampere => (8, 0),
            Self::Hopper => (9, 0),
            Self::Blackwell => (10, 0),
        }
    }
}

/// What is not a model known here.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no GPU model known here; known are {known}", known = Model::ALL.map(Model::short).join(", "))]
pub struct UnknownModel(String);

impl Model {
    /// Every model there is here.
    pub const ALL: [Self; 8] = [
        Self::A100_40,
        Self::A100_80,
        Self::A30,
        Self::H100_80,
        Self::H100Nvl,
        Self::H200,
        Self::B200,
        Self::Gb200,
    ];

    /// A short name, for configurations.
    pub fn short(self) -> &'static str {
        match self {
            Self::A100_40 => "A100-40",
            Self::A100_80 => "A100-80",
            Self::A30 => "A30",
            Self::H100_80 => "H100-80",
            Self::H100Nvl => "H100-NVL",
            Self::H200 => "H200",
            Self::B200 => "B200",
            Self::Gb200 => "GB200",
        }
    }

    /// Its name as the driver says it (`nvmlDeviceGetName`).
    pub fn product(self) -> &'static str {
        match self {
            Self::A100_40 => "NVIDIA A100-SXM4-40GB",
            Self::A100_80 => "NVIDIA A100-SXM4-80GB",
            Self::A30 => "NVIDIA A30",
            Self::H100_80 => "NVIDIA H100 80GB HBM3",
            Self::H100Nvl => "NVIDIA H100 NVL",
            Self::H200 => "NVIDIA H200",
            Self::B200 => "NVIDIA B200",
            Self::Gb200 => "NVIDIA GB200",
        }
    }

    /// Its generation.
    pub fn architecture(self) -> Architecture {
        match self {
            Self::A100_40 | Self::A100_80 | Self::A30 => Architecture::Ampere,
            Self::H100_80 | Self::H100Nvl | Self::H200 => Architecture::Hopper,
            Self::B200 | Self::Gb200 => Architecture::Blackwell,
        }
    }

    /// The PCI device ids of its variants, the first one the most common. A PCI id as NVML and mig-parted's
    /// `device-filter` have it is the device id followed by the vendor's: see [`pci_id`].
    pub fn device_ids(self) -> &'static [u16] {
        match self {
            Self::A100_40 => &[0x20b0, 0x20f1],
            Self::A100_80 => &[0x20b2, 0x20b5],
            Self::A30 => &[0x20b7],
            Self::H100_80 => &[0x2330, 0x2331],
            Self::H100Nvl => &[0x2321],
            Self::H200 => &[0x2335, 0x233b],
            Self::B200 => &[0x2901],
            Self::Gb200 => &[0x2941],
        }
    }

    /// The model with that PCI id (device id, then vendor id, as NVML has it).
    pub fn from_pci_id(pci: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.device_ids().iter().any(|&device| pci_id(device) == pci))
    }

    /// The memory of the whole GPU in MiB, as the driver says it.
    pub fn memory_mib(self) -> u64 {
        match self {
            Self::A100_40 => 40_960,
            Self::A100_80 => 81_920,
            Self::A30 => 24_576,
            Self::H100_80 => 81_559,
            Self::H100Nvl => 95_830,
            Self::H200 => 143_771,
            Self::B200 => 183_359,
            Self::Gb200 => 189_471,
        }
    }

    /// What the whole GPU has while MIG is off.
    pub fn multiprocessors(self) -> u32 {
        match self {
            Self::A100_40 | Self::A100_80 => 108,
            Self::A30 => 56,
            Self::H100_80 | Self::H100Nvl | Self::H200 => 132,
            Self::B200 | Self::Gb200 => 148,
        }
    }

    /// Which profiles it has and where each may lie.
    pub fn geometry(self) -> Result<Geometry, GeometryError> {
        Geometry::new(table::profiles(self))
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    /// Accepts the short name or the product, in any case.
    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        let known = |model: &Self| {
            text.eq_ignore_ascii_case(model.short()) || text.eq_ignore_ascii_case(model.product())
        };
        Self::ALL.into_iter().find(known).ok_or_else(|| UnknownModel(text.to_owned()))
    }
}

/// A PCI id as NVML and mig-parted have it: the device id, then NVIDIA's vendor id.
pub fn pci_id(device: u16) -> u32 {
    (u32::from(device) << 16) | 0x10de
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Profile, Reported};

    fn reported(profile: &Profile) -> Reported {
        Reported {
            slot: profile.slot,
            id: profile.id,
            slices: profile.compute_slices().into(),
            max: profile.max.into(),
            placements: profile.starts.iter().map(|&at| (at.into(), profile.memory_slices.into())).collect(),
            engines: profile.engines,
        }
    }

    #[test]
    fn each_table_is_a_geometry() {
        for model in Model::ALL {
            let geometry = model.geometry().unwrap();
            let slices = (geometry.memory_slices(), geometry.compute_slices());
            assert_eq!(slices, if model == Model::A30 { (4, 4) } else { (8, 7) }, "{model}");
            assert!(geometry.profiles().iter().all(|profile| profile.engines.memory_mib > 0), "{model}");
        }
    }

    #[test]
    fn what_a_driver_would_report_gets_the_names_in_the_table() {
        for model in Model::ALL {
            let geometry = model.geometry().unwrap();
            let profiles: Vec<_> = geometry.profiles().iter().map(reported).collect();
            assert_eq!(Geometry::reported(model.memory_mib() << 20, &profiles), Ok(geometry), "{model}");
        }
    }

    #[test]
    fn a_model_is_known_by_its_names_and_its_pci_ids() {
        for model in Model::ALL {
            assert_eq!(model.short().parse(), Ok(model));
            assert_eq!(model.product().to_lowercase().parse(), Ok(model));
            for &device in model.device_ids() {
                assert_eq!(Model::from_pci_id(pci_id(device)), Some(model));
            }
        }
        assert_eq!(Model::from_pci_id(0x2330_10de), Some(Model::H100_80));
        assert_eq!(Model::from_pci_id(0x2330_1002), None);
        let refused = "T4".parse::<Model>().unwrap_err().to_string();
        assert!(refused.contains("\"T4\"") && refused.contains("H100-NVL"), "{refused}");
    }

    #[test]
    fn profiles_that_cannot_be_make_no_geometry() {
        let plain = reported(&Model::A30.geometry().unwrap().profiles()[0]);
        let memory = Model::A30.memory_mib() << 20;
        let with = |change: &dyn Fn(&mut Reported)| {
            let mut changed = plain.clone();
            change(&mut changed);
            Geometry::reported(memory, &[changed]).unwrap_err()
        };
        assert_eq!(Geometry::reported(memory, &[]), Err(GeometryError::Empty));
        assert!(matches!(
            Geometry::reported(0, std::slice::from_ref(&plain)),
            Err(GeometryError::Unnamed { .. })
        ));
        assert!(matches!(with(&|r| r.slices = 0), GeometryError::Unnamed { .. }));
        assert!(matches!(with(&|r| r.slices = 1_000), GeometryError::Unnamed { .. }));
        assert!(matches!(with(&|r| r.engines.memory_mib = u64::MAX), GeometryError::Unnamed { .. }));
        assert!(matches!(with(&|r| r.placements.clear()), GeometryError::OutOfPlace(_)));
        assert!(matches!(with(&|r| r.placements = vec![(0, 1), (2, 2)]), GeometryError::OutOfPlace(_)));
        assert!(matches!(with(&|r| r.placements = vec![(0, 0)]), GeometryError::OutOfPlace(_)));
        assert!(matches!(with(&|r| r.placements = vec![(200, 100)]), GeometryError::OutOfPlace(_)));
        assert!(matches!(with(&|r| r.placements = vec![(u32::MAX, 1)]), GeometryError::OutOfPlace(_)));
        assert!(matches!(with(&|r| r.max = 0), GeometryError::OutOfPlace(_)));
        let twice = [plain.clone(), plain.clone()];
        assert!(matches!(Geometry::reported(memory, &twice), Err(GeometryError::Twice(_))));
    }
}
