//! The live numbers, for Prometheus, under the names and labels of NVIDIA's DCGM exporter: dashboards and alerts that
//! were made for that work unchanged. They are made of what was read last when somebody asks.
//!
//! A whole GPU, and a GPU in MIG mode, is one series; each MIG instance is another with `GPU_I_PROFILE` and `GPU_I_ID`.
//! Who has a device is in `namespace`, `pod` and `container`; a device that several containers share has a series for
//! each, as there. What a GPU does not tell is not there. A GPU that was not read lately has no series but its Xid.

mod families;
pub mod serve;
mod values;

use std::{fmt, time::Instant};

use prometheus_client::{encoding::prometheus_text, registry::Registry};

use self::families::Families;
pub use self::values::{Metric, float};
use crate::{
    device::{Gpu, MigInstance, Uuid},
    sense::Sensed,
    view::View,
    xid::Xids,
};

/// What the labels are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Names {
    /// As the DCGM exporter names them: `modelName`.
    #[default]
    Dcgm,
    /// As `promtool check metrics` wants them: `model_name`. Nothing else differs.
    SnakeCase,
}

/// What there is to show.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The node's name.
    pub node: &'a str,
    /// What is seen.
    pub view: &'a View,
    /// What was read.
    pub sensed: &'a Sensed,
    /// The last error that each GPU reported.
    pub xids: &'a Xids,
    /// The present.
    pub now: Instant,
}

/// The text that Prometheus reads.
pub fn text(shown: Shown<'_>, names: Names) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let families = Families::register(&mut registry);
    for seen in &shown.view.gpus {
        let gpu = &seen.gpu;
        let own = labels(shown.node, gpu, names);
        let held = with_holders(&own, shown.view, &gpu.uuid);
        families.set(Metric::Xid, &held, shown.xids.last(&gpu.uuid));
        let Some(track) = shown.sensed.of(&gpu.uuid, shown.now) else { continue };
        for (metric, value) in values::of_gpu(&track.load) {
            families.set(metric, &held, value);
        }
        for instance in gpu.mig.iter().flat_map(|mig| &mig.instances) {
            let Some(uuid) = instance.device() else { continue };
            let Some(load) = track.load.instances.iter().find(|load| load.uuid == *uuid) else { continue };
            let held = with_holders(&with_instance(&own, instance), shown.view, uuid);
            for (metric, value) in values::of_instance(load) {
                families.set(metric, &held, value);
            }
        }
    }
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The labels of a series.
type Labels = Vec<(&'static str, String)>;

fn labels(node: &str, gpu: &Gpu, names: Names) -> Labels {
    let model = match names {
        Names::Dcgm => "modelName",
        Names::SnakeCase => "model_name",
    };
    let mut labels = vec![
        ("gpu", gpu.index.to_string()),
        ("UUID", gpu.uuid.to_string()),
        ("device", format!("nvidia{}", gpu.minor.unwrap_or(gpu.index))),
        (model, gpu.model.clone()),
        ("Hostname", node.to_owned()),
    ];
    if let Some(pci) = &gpu.pci {
        labels.insert(2, ("pci_bus_id", pci.bus_id.clone()));
    }
    labels
}

fn with_instance(labels: &Labels, instance: &MigInstance) -> Labels {
    let mut labels = labels.clone();
    labels.push(("GPU_I_PROFILE", instance.instance.profile.to_string()));
    labels.push(("GPU_I_ID", instance.id.to_string()));
    labels
}

/// The labels once for each container that has the device, or as they are if none has. One that is just being given the
/// device has no name yet.
fn with_holders(labels: &Labels, view: &View, device: &Uuid) -> Vec<Labels> {
    let named = view.claims.of(device).iter().filter(|holder| !holder.pod.is_empty());
    let mut all = named
        .map(|holder| {
            let mut labels = labels.clone();
            labels.push(("namespace", holder.namespace.clone()));
            labels.push(("pod", holder.pod.clone()));
            labels.push(("container", holder.container.clone()));
            labels
        })
        .collect::<Vec<_>>();
    if all.is_empty() {
        all.push(labels.clone());
    }
    all
}
