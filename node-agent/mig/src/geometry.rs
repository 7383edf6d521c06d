//! Which profiles a GPU has and where each may lie.
//!
//! A GPU's memory is cut into slices, eight on most models, and its compute into seven (four and four on an A30). A GPU
//! instance takes a run of memory slices that begins at one of a few places, and some compute slices, wherever those
//! are. So what can exist together is said by the runs not overlapping, the compute slices being enough, the
//! profiles' own limits, and the engines for media, which one instance at most can claim.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::name::{Extension, ProfileName};

/// The most memory slices that a GPU may have: occupancy is kept in 16 bits.
pub const MOST_SLICES: u8 = 16;

/// The most profiles that a GPU may have; NVML knows 17.
pub const MOST_PROFILES: usize = 32;

/// One profile of a GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// NVML's index of it, what `nvmlDeviceGetGpuInstanceProfileInfo` takes (`NVML_GPU_INSTANCE_PROFILE_*`).
    pub slot: u32,
    /// The GPU's own id of it, what `nvidia-smi mig -cgi` and `nvmlDeviceCreateGpuInstance` take.
    pub id: u32,
    /// How many memory slices it takes.
    pub memory_slices: u8,
    /// The memory slices at which it may begin, in order.
    pub starts: Vec<u8>,
    /// How many there may be at once.
    pub max: u8,
    /// What its owner can use.
    pub engines: Engines,
}

impl Profile {
    /// How many compute slices it takes.
    pub fn compute_slices(&self) -> u8 {
        self.name.slices()
    }

    /// The memory slices that it takes when it begins at `start`, a bit each.
    pub(crate) fn mask(&self, start: u8) -> u16 {
        let run = (1_u32 << self.memory_slices.min(MOST_SLICES)) - 1;
        u16::try_from((run << start.min(MOST_SLICES)) & 0xffff).unwrap_or(u16::MAX)
    }
}

/// What an instance has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Engines {
    /// Memory that programs can use, in MiB.
    pub memory_mib: u64,
    /// Streaming multiprocessors. They are not in proportion to the compute slices on Hopper and later.
    pub multiprocessors: u32,
    /// Copy engines.
    pub copy: u32,
    /// Video decoders.
    pub decoders: u32,
    /// Video encoders.
    pub encoders: u32,
    /// JPEG decoders.
    pub jpeg: u32,
    /// Optical flow accelerators.
    pub optical_flow: u32,
}

/// Which profiles a GPU has and where each may lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    memory_slices: u8,
    compute_slices: u8,
    profiles: Vec<Profile>,
    sizes: Vec<Vec<Place>>,
}

/// A place for an instance: a profile, by its number, and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) profile: usize,
    pub(crate) start: u8,
}

/// Why profiles do not make a geometry.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum GeometryError {
    /// There is no profile.
    #[error("the GPU has no MIG profile")]
    Empty,
    /// More profiles than there are in any driver.
    #[error("the GPU has {0} MIG profiles, which is more than {MOST_PROFILES}")]
    TooMany(usize),
    /// A profile with no slice, no place, or a place outside of the GPU.
    #[error("MIG profile {0} has no place on the GPU, or one beyond its {MOST_SLICES} slices")]
    OutOfPlace(ProfileName),
    /// Two profiles of one name, index or id.
    #[error("MIG profile {0} is there twice, by its name, its index or its id")]
    Twice(ProfileName),
    /// The driver reports what has no name.
    #[error(
        "the driver reports GPU instance profile {slot} with {slices} compute slices and {memory_mib} MiB, for which there is no name"
    )]
    Unnamed {
        /// NVML's index of it.
        slot: u32,
        /// Its compute slices.
        slices: u32,
        /// Its memory in MiB.
        memory_mib: u64,
    },
}

impl Geometry {
    /// The geometry with these profiles. The GPU has as many slices as they reach.
    pub fn new(profiles: Vec<Profile>) -> Result<Self, GeometryError> {
        let mut profiles = profiles;
        if profiles.len() > MOST_PROFILES {
            return Err(GeometryError::TooMany(profiles.len()));
        }
        let (mut names, mut slots, mut ids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for profile in &mut profiles {
            profile.starts.sort_unstable();
            profile.starts.dedup();
            let last = profile.starts.last().map(|start| start.saturating_add(profile.memory_slices));
            if profile.memory_slices == 0 || profile.max == 0 || last.is_none_or(|last| last > MOST_SLICES) {
                return Err(GeometryError::OutOfPlace(profile.name));
            }
            if !(names.insert(profile.name) && slots.insert(profile.slot) && ids.insert(profile.id)) {
                return Err(GeometryError::Twice(profile.name));
            }
        }
        let ends = profiles.iter().filter_map(|p| p.starts.last().map(|start| start + p.memory_slices));
        let memory_slices = ends.max().ok_or(GeometryError::Empty)?;
        let compute_slices =
            profiles.iter().map(Profile::compute_slices).max().ok_or(GeometryError::Empty)?;
        profiles.sort_by_key(|profile| profile.name);
        let sizes = sizes(&profiles);
        Ok(Self { memory_slices, compute_slices, profiles, sizes })
    }

    /// The geometry of a GPU with `device_memory` bytes, from what its driver reports. The driver gives profiles no
    /// names, so they are named here.
    pub fn reported(device_memory: u64, profiles: &[Reported]) -> Result<Self, GeometryError> {
        let named = profiles.iter().map(|reported| reported.profile(device_memory));
        Self::new(named.collect::<Result<_, _>>()?)
    }

    /// The same GPU with only those of its profiles for which `keep` says so: its slices stay as many.
    pub fn restricted(&self, keep: impl Fn(&Profile) -> bool) -> Self {
        let profiles: Vec<_> = self.profiles.iter().filter(|profile| keep(profile)).cloned().collect();
        let sizes = sizes(&profiles);
        Self { profiles, sizes, ..*self }
    }

    /// How many memory slices the GPU has.
    pub fn memory_slices(&self) -> u8 {
        self.memory_slices
    }

    /// How many compute slices the GPU has.
    pub fn compute_slices(&self) -> u8 {
        self.compute_slices
    }

    /// Its profiles, by name.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// The profile of that name; of a name for a part of the compute slices, the profile of the instance it is in.
    pub fn profile(&self, name: ProfileName) -> Option<&Profile> {
        self.profiles.get(self.index(name)?)
    }

    /// Which of the profiles it is.
    pub(crate) fn index(&self, name: ProfileName) -> Option<usize> {
        let name = name.gpu_instance();
        self.profiles.binary_search_by_key(&name, |profile| profile.name).ok()
    }

    /// The places of each size of instance, the largest first. Those of a size are in the order of where they begin, and
    /// at each the profile that needs the least compute is first.
    pub(crate) fn sizes(&self) -> &[Vec<Place>] {
        &self.sizes
    }

    /// The profile with that index of NVML's.
    pub fn by_slot(&self, slot: u32) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.slot == slot)
    }

    /// The profile with that id.
    pub fn by_id(&self, id: u32) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.id == id)
    }
}

fn sizes(profiles: &[Profile]) -> Vec<Vec<Place>> {
    let mut sizes: BTreeMap<u8, Vec<(u8, u8, usize)>> = BTreeMap::new();
    for (index, profile) in profiles.iter().enumerate() {
        let places = profile.starts.iter().map(|&start| (start, profile.compute_slices(), index));
        sizes.entry(profile.memory_slices).or_default().extend(places);
    }
    let ordered = |mut places: Vec<(u8, u8, usize)>| {
        places.sort_unstable();
        places.into_iter().map(|(start, _, profile)| Place { profile, start }).collect()
    };
    sizes.into_values().rev().map(ordered).collect()
}

/// A profile as NVML reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reported {
    /// NVML's index of it.
    pub slot: u32,
    /// Its id on this GPU.
    pub id: u32,
    /// Its compute slices (`sliceCount`).
    pub slices: u32,
    /// How many there may be at once (`instanceCount`).
    pub max: u32,
    /// Where it may lie, as (start, size) in memory slices (`nvmlDeviceGetGpuInstancePossiblePlacements`).
    pub placements: Vec<(u32, u32)>,
    /// What it has; the memory is `memorySizeMB`.
    pub engines: Engines,
}

impl Reported {
    fn profile(&self, device_memory: u64) -> Result<Profile, GeometryError> {
        let unnamed = || GeometryError::Unnamed {
            slot: self.slot,
            slices: self.slices,
            memory_mib: self.engines.memory_mib,
        };
        let slices = u8::try_from(self.slices).map_err(|_| unnamed())?;
        let gigabytes = gigabytes(self.engines.memory_mib, device_memory).ok_or_else(unnamed)?;
        let name = ProfileName::new(slices, gigabytes, extension(self.slot)).ok_or_else(unnamed)?;
        let out_of_place = || GeometryError::OutOfPlace(name);
        let mut starts = Vec::with_capacity(self.placements.len());
        let mut size = None;
        for &(start, length) in &self.placements {
            let start = u8::try_from(start).map_err(|_| out_of_place())?;
            let length = u8::try_from(length).map_err(|_| out_of_place())?;
            if *size.get_or_insert(length) != length {
                return Err(out_of_place());
            }
            starts.push(start);
        }
        Ok(Profile {
            name,
            slot: self.slot,
            id: self.id,
            memory_slices: size.ok_or_else(out_of_place)?,
            starts,
            max: u8::try_from(self.max).unwrap_or(u8::MAX),
            engines: self.engines,
        })
    }
}

/// What the index of a profile says beside its size (nvml.h, `NVML_GPU_INSTANCE_PROFILE_*`).
fn extension(slot: u32) -> Extension {
    match slot {
        7 | 8 => Extension::Media,
        10..=12 => Extension::Graphics,
        13 | 14 => Extension::NoMedia,
        15 | 16 => Extension::AllMedia,
        _ => Extension::Plain,
    }
}

/// The memory in a profile's name, after mig-parted: the share of the GPU's memory rounded up to an eighth, times the
/// GPU's memory in whole GB, rounded.
fn gigabytes(profile_mib: u64, device_memory: u64) -> Option<u16> {
    const MIB: u128 = 1 << 20;
    const GIB: u128 = 1 << 30;
    let device = u128::from(device_memory);
    if device == 0 {
        return None;
    }
    let eighths = (u128::from(profile_mib) * MIB * 8).div_ceil(device);
    let whole = device.div_ceil(GIB);
    u16::try_from((eighths * whole + 4) / 8).ok()
}
