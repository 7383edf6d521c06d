//! Claims of Workloads on instances: made, kept as long as they can be served, and taken out when they are nobody's.

use std::collections::BTreeMap;

use serde_json::json;
use whalezen_core::{mig::Fit, name::WorkloadKey};
use whalezen_crds::scheduling::v1alpha1::{Claimant, GPUNodeSpec, GpuHealth};
use whalezen_mig::{Counts, Instance};

use super::{
    super::jobs::Of,
    Need, is_waiting,
    known::{Known, NodeView, uid, wanted},
    note,
};
use crate::write::{Note, Target, Verb, Write};

/// What a node's GPUs are to be when a Workload has what was found for it.
pub(super) fn claiming(view: &NodeView, fit: &Fit, of: Of<'_>) -> GPUNodeSpec {
    let claimant = Claimant {
        namespace: of.key.namespace.to_string(),
        name: of.key.name.to_string(),
        uid: Some(of.view.uid.clone()),
    };
    let mut gpus: BTreeMap<&str, _> =
        view.spec.gpus.iter().map(|gpu| (gpu.uuid.as_str(), gpu.clone())).collect();
    for (uuid, instances) in &fit.layouts {
        let on_it = fit.claims.iter().filter(|claim| claim.gpu == *uuid);
        let claims: BTreeMap<Instance, Claimant> =
            on_it.map(|claim| (claim.instance, claimant.clone())).collect();
        let before = gpus.get(&**uuid).cloned();
        gpus.insert(uuid, wanted(uuid, instances, before.as_ref(), &claims));
    }
    GPUNodeSpec { gpus: gpus.into_values().collect() }
}

/// Whether the claims of a Workload on a node are all it needs, and can be served: on GPUs that are there and well. Else
/// they go, and others are made.
pub(super) fn stands(view: &NodeView, of: Of<'_>, known: &Known) -> bool {
    let Some(need) = Need::of_holder(of.workload) else { return false };
    let claims = || view.claims().filter(|claim| uid(claim.by) == of.view.uid);
    let counts: Counts = claims().map(|claim| (claim.instance.profile, 1)).collect();
    let well = |gpu| view.gpu(gpu).is_some_and(|device| device.health == GpuHealth::Healthy);
    // With claims on several nodes, of which one was not seen when the other was made, the first by name counts.
    let is_home = known.nodes_of(&of.view.uid).next().is_some_and(|home| home.name == view.name);
    is_home && counts == need.instances && claims().all(|claim| well(claim.gpu))
}

/// The write that takes those claims out of a node that are nobody's any more, if there are any. Who holds quota has its
/// claims until it gives that back; who still waits, only as long as they can be served.
pub fn tidy<'a>(
    name: &str,
    known: &Known,
    workload: impl Fn(&WorkloadKey) -> Option<Of<'a>>,
) -> Option<Write> {
    let view = known.node(name)?;
    let keeps = |by: &Claimant| {
        let of = workload(&WorkloadKey::new(by.namespace.as_str(), by.name.as_str()));
        of.filter(|of| of.view.uid == uid(by) && of.workload.admission().is_some())
            .is_some_and(|of| !is_waiting(of.view) || stands(view, of, known))
    };
    let mut spec = view.spec.clone();
    for gpu in &mut spec.gpus {
        for instance in &mut gpu.instances {
            instance.assignment = instance.assignment.take().filter(|of| keeps(&of.workload));
        }
    }
    spec.gpus.retain(|gpu| gpu.instances.iter().any(|instance| instance.assignment.is_some()));
    (spec != view.spec).then(|| layout(view, &spec))
}

/// What to say to those whose instances are on GPUs that were well before and are not any more.
pub fn reported<'a>(
    view: &NodeView,
    before: &NodeView,
    workload: impl Fn(&WorkloadKey) -> Option<Of<'a>>,
) -> Vec<Note> {
    let well = |view: &NodeView, gpu: &str| view.gpu(gpu).is_some_and(|gpu| gpu.health == GpuHealth::Healthy);
    let failed = view.claims().filter(|claim| well(before, claim.gpu) && !well(view, claim.gpu));
    let said = failed.filter_map(|claim| {
        let of = workload(&WorkloadKey::new(claim.by.namespace.as_str(), claim.by.name.as_str()))?;
        let why = view
            .gpu(claim.gpu)
            .map_or("it is gone", |gpu| gpu.health_reason.as_deref().unwrap_or("unhealthy"));
        let message = format!("GPU {} of node {} takes no new work: {why}", claim.gpu, view.name);
        (of.view.uid == uid(claim.by)).then(|| Note { warning: true, ..note(of, "GPUUnhealthy", message) })
    });
    // Once for each, however many instances it has.
    let once: BTreeMap<_, _> = said.map(|note| ((note.about.clone(), note.message.clone()), note)).collect();
    once.into_values().collect()
}

/// The write of a node's layout, on the condition that it is as it was seen.
pub(super) fn layout(view: &NodeView, spec: &GPUNodeSpec) -> Write {
    let body = json!({
        "metadata": { "uid": view.uid, "resourceVersion": view.version.to_string() },
        "spec": { "gpus": spec.gpus },
    });
    Write { target: target(&view.name), status: false, verb: Verb::Merge, body }
}

/// The `GPUNode` of this name.
pub fn target(name: &str) -> Target {
    Target {
        group: "scheduling.gen.io",
        version: "v1alpha1",
        kind: "GPUNode",
        plural: "gpunodes",
        namespace: None,
        name: name.to_owned(),
    }
}
