//! GPUs for the tests of this module: an H100 with whatever is on it.

use std::collections::BTreeMap;

use whalezen_crds::scheduling::v1alpha1::{Holder, LayoutSource, ModeChange};
use whalezen_mig::{Counts, Instance, Model, Wanted};

use super::wish::{Target, Wish};
use crate::{
    claims::Claims,
    device::{Compute, Gpu, Mig, MigInstance, Pci, Process, Uuid},
};

/// An H100 in MIG mode with these instances, such as `3g.40gb@4`. The n-th has the number n and the device `MIG-n`.
pub(crate) fn h100(instances: &str) -> Gpu {
    let model = Model::H100_80;
    Gpu {
        uuid: "GPU-0a".into(),
        index: 0,
        minor: Some(0),
        model: model.product().to_owned(),
        pci: Some(Pci { bus_id: "00000000:17:00.0".to_owned(), id: 0x2330_10de }),
        numa: Some(0),
        memory: 81_559 << 20,
        mig: Some(Mig {
            enabled: true,
            pending: true,
            geometry: model.geometry().unwrap(),
            instances: instances
                .split_whitespace()
                .zip(0..)
                .map(|(word, id)| there(instance(word), id))
                .collect(),
        }),
        processes: Vec::new(),
    }
}

fn there(instance: Instance, id: u32) -> MigInstance {
    let geometry = Model::H100_80.geometry().unwrap();
    MigInstance {
        id,
        instance,
        size: geometry.profile(instance.profile).unwrap().memory_slices,
        computes: vec![Compute {
            id: 0,
            slices: instance.profile.slices(),
            uuid: Some(format!("MIG-{id}").into()),
        }],
    }
}

pub(crate) fn instance(word: &str) -> Instance {
    let (profile, start) = word.split_once('@').unwrap();
    Instance::new(profile.parse().unwrap(), start.parse().unwrap())
}

pub(crate) fn counts(words: &str) -> Counts {
    words.split_whitespace().map(|word| (word.parse().unwrap(), 1)).collect()
}

/// The instances of a GPU, to be changed.
pub(crate) fn mig(gpu: &mut Gpu) -> &mut Mig {
    gpu.mig.as_mut().unwrap()
}

/// A process in that instance.
pub(crate) fn process(instance: u32) -> Process {
    Process { pid: 4711, instance: Some(instance) }
}

/// What the kubelet says when these devices are held.
pub(crate) fn held(devices: &[&str]) -> Claims {
    let holder =
        Holder { namespace: "team".to_owned(), pod: "training".to_owned(), container: "main".to_owned() };
    let known: BTreeMap<Uuid, _> = devices.iter().map(|&d| (Uuid::from(d), vec![holder.clone()])).collect();
    Claims::Known(known)
}

/// A wish for these instances at their places.
pub(crate) fn placed(words: &str) -> Wish {
    let instances = words.split_whitespace().map(instance).collect();
    wanting(Target::On(Wanted::Placed(instances)))
}

/// A wish for so many instances.
pub(crate) fn counted(words: &str) -> Wish {
    wanting(Target::On(Wanted::Counts(counts(words))))
}

pub(crate) fn wanting(target: Target) -> Wish {
    Wish {
        source: LayoutSource::Default,
        policy: Some("example".to_owned()),
        mode_change: ModeChange::WhenIdle,
        target: Ok(Some(target)),
    }
}
