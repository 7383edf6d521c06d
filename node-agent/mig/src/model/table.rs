//! What each model's profiles are: the rows that all models of a kind share, and what an instance of each size has on a
//! model.
//!
//! Placements are those that `nvidia-smi mig -lgipp` prints on A100, A30 and H100; the fractions in NVIDIA's MIG guide
//! say that H200 and Blackwell have the same. Memory and multiprocessors are what `nvidia-smi mig -lgip` prints where it
//! was seen (A100, A30, H100, H100 NVL, the 1g of H200 and B200), and nominal otherwise.

use super::{Architecture, Model};
use crate::{
    geometry::{Engines, Profile},
    name::{Extension, ProfileName},
};

/// The profiles of `model`.
pub(super) fn profiles(model: Model) -> Vec<Profile> {
    let rows: &[Row] = if model == Model::A30 { &FOUR } else { &EIGHT };
    rows.iter().filter_map(|row| profile(model, row)).collect()
}

/// The sizes of instances; the rows of a model's table are in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    One,
    OneDouble,
    Two,
    Three,
    Four,
    Whole,
}

/// What an instance of one size has.
struct Share {
    gigabytes: u16,
    memory_mib: u64,
    multiprocessors: u32,
    copy: u32,
    decoders: u32,
    jpeg: u32,
}

/// A profile, whatever the model.
#[derive(Clone, Copy)]
struct Row {
    size: Size,
    extension: Extension,
    slot: u32,
    id: u32,
    compute: u8,
    memory: u8,
    starts: &'static [u8],
    max: u8,
}

const fn row(
    size: Size,
    (slot, id): (u32, u32),
    compute: u8,
    memory: u8,
    starts: &'static [u8],
    max: u8,
) -> Row {
    Row { size, extension: Extension::Plain, slot, id, compute, memory, starts, max }
}

/// The same with the engine for media, of which there is one.
const fn media(row: Row) -> Row {
    Row { extension: Extension::Media, max: 1, ..row }
}

/// Eight memory slices and seven compute slices.
const EIGHT: [Row; 7] = [
    row(Size::One, (0, 19), 1, 1, &[0, 1, 2, 3, 4, 5, 6], 7),
    media(row(Size::One, (7, 20), 1, 1, &[0, 1, 2, 3, 4, 5, 6], 1)),
    row(Size::OneDouble, (9, 15), 1, 2, &[0, 2, 4, 6], 4),
    row(Size::Two, (1, 14), 2, 2, &[0, 2, 4], 3),
    row(Size::Three, (2, 9), 3, 4, &[0, 4], 2),
    row(Size::Four, (3, 5), 4, 4, &[0], 1),
    row(Size::Whole, (4, 0), 7, 8, &[0], 1),
];

/// The A30: four and four.
const FOUR: [Row; 5] = [
    row(Size::One, (0, 14), 1, 1, &[0, 1, 2, 3], 4),
    media(row(Size::One, (7, 21), 1, 1, &[0, 1, 2, 3], 1)),
    row(Size::Two, (1, 5), 2, 2, &[0, 2], 2),
    media(row(Size::Two, (8, 6), 2, 2, &[0, 2], 1)),
    row(Size::Whole, (3, 0), 4, 4, &[0], 1),
];

fn profile(model: Model, row: &Row) -> Option<Profile> {
    let size = share(model, row.size);
    let whole = row.size == Size::Whole;
    Some(Profile {
        name: ProfileName::new(row.compute, size.gigabytes, row.extension)?,
        slot: row.slot,
        id: row.id,
        memory_slices: row.memory,
        starts: row.starts.to_vec(),
        max: row.max,
        engines: Engines {
            memory_mib: size.memory_mib,
            multiprocessors: size.multiprocessors,
            copy: size.copy,
            decoders: if row.extension == Extension::Media { size.decoders.max(1) } else { size.decoders },
            encoders: 0,
            jpeg: if row.extension == Extension::Media { size.jpeg.max(1) } else { size.jpeg },
            optical_flow: u32::from(whole || row.extension == Extension::Media),
        },
    })
}

/// What an instance of that size has on this model.
fn share(model: Model, size: Size) -> Share {
    let index = size as usize;
    let gigabytes: [u16; 6] = match model {
        Model::A100_40 => [5, 10, 10, 20, 20, 40],
        Model::A100_80 | Model::H100_80 => [10, 20, 20, 40, 40, 80],
        Model::A30 => [6, 0, 12, 0, 0, 24],
        Model::H100Nvl => [12, 24, 24, 47, 47, 94],
        Model::H200 => [18, 35, 35, 71, 71, 141],
        Model::B200 => [23, 45, 45, 90, 90, 180],
        Model::Gb200 => [23, 47, 47, 93, 93, 186],
    };
    let memory_mib: [u64; 6] = match model {
        Model::A100_40 => [4_864, 9_856, 9_856, 19_968, 19_968, 40_192],
        Model::A100_80 => [9_728, 19_968, 19_968, 40_192, 40_192, 80_896],
        Model::A30 => [5_952, 0, 11_968, 0, 0, 24_000],
        Model::H100_80 => [9_984, 20_096, 20_096, 40_448, 40_448, 81_152],
        Model::H100Nvl => [11_008, 22_144, 22_144, 47_488, 47_488, 95_360],
        Model::H200 => [16_384, 33_280, 33_280, 71_168, 71_168, 143_360],
        Model::B200 => [22_144, 45_568, 45_568, 91_136, 91_136, 182_272],
        Model::Gb200 => [23_040, 47_104, 47_104, 94_208, 94_208, 188_416],
    };
    let (multiprocessors, copy, decoders, jpeg) = match model.architecture() {
        Architecture::Ampere if model == Model::A30 => {
            ([14, 0, 28, 0, 0, 56], [1, 0, 2, 0, 0, 4], [0, 0, 2, 0, 0, 4], [0, 0, 0, 0, 0, 1])
        }
        Architecture::Ampere => {
            ([14, 14, 28, 42, 56, 98], [1, 1, 2, 3, 4, 7], [0, 1, 1, 2, 2, 5], [0, 0, 0, 0, 0, 1])
        }
        Architecture::Hopper => {
            ([16, 26, 32, 60, 64, 132], [1, 1, 2, 3, 4, 8], [1, 1, 2, 3, 4, 7], [1, 1, 2, 3, 4, 7])
        }
        Architecture::Blackwell => {
            ([18, 30, 36, 70, 72, 148], [2, 2, 3, 6, 8, 16], [1, 1, 2, 3, 4, 7], [1, 1, 2, 3, 4, 7])
        }
    };
    let at = |values: [u32; 6]| values.get(index).copied().unwrap_or_default();
    Share {
        gigabytes: gigabytes.get(index).copied().unwrap_or_default(),
        memory_mib: memory_mib.get(index).copied().unwrap_or_default(),
        multiprocessors: at(multiprocessors),
        copy: at(copy),
        decoders: at(decoders),
        jpeg: at(jpeg),
    }
}
