//! The conditions of a GPUNode.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use whalezen_crds::scheduling::v1alpha1::{
    GPUNodeStatus, GpuDevice, GpuHealth, LAYOUT_APPLIED, LayoutProgress, LayoutState, READY, RECONCILING,
    STALLED,
};

use super::{Known, clip, seconds};

/// The most characters of a message: enough for every GPU of a node to say a sentence.
const MOST: usize = 8192;

/// What one condition says.
struct Say {
    kind: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

/// All conditions. One that says the same as before keeps its time.
pub(super) fn conditions(
    known: &Known<'_>,
    gpus: &[GpuDevice],
    before: Option<&GPUNodeStatus>,
) -> Vec<Condition> {
    let before = before.map_or(&[][..], |status| &status.conditions);
    [ready(known, gpus), layout(known, gpus), reconciling(gpus), stalled(known, gpus)]
        .iter()
        .map(|say| condition(say, known.generation, before, known.now))
        .collect()
}

fn condition(say: &Say, generation: Option<i64>, before: &[Condition], now: Timestamp) -> Condition {
    let status = if say.status { "True" } else { "False" };
    let same = before.iter().find(|there| there.type_ == say.kind && there.status == status);
    Condition {
        type_: say.kind.to_owned(),
        status: status.to_owned(),
        reason: say.reason.to_owned(),
        message: clip(&say.message, MOST),
        observed_generation: generation,
        last_transition_time: same
            .map_or_else(|| Time(seconds(now)), |there| there.last_transition_time.clone()),
    }
}

fn ready(known: &Known<'_>, gpus: &[GpuDevice]) -> Say {
    let say = |status, reason, message| Say { kind: READY, status, reason, message };
    if let Some(blind) = known.blind {
        return say(false, "NoDriver", blind.to_owned());
    }
    let sick: Vec<String> = gpus
        .iter()
        .filter(|gpu| gpu.health == GpuHealth::Unhealthy)
        .map(|gpu| format!("GPU {}: {}", gpu.index, gpu.health_message.as_deref().unwrap_or("unhealthy")))
        .collect();
    if gpus.is_empty() {
        say(true, "NoGPU", "the driver knows no GPU".to_owned())
    } else if sick.is_empty() {
        say(true, "Seen", format!("{} seen", count(gpus.len())))
    } else if sick.len() == gpus.len() {
        say(false, "AllUnhealthy", sick.join("; "))
    } else {
        say(true, "SomeUnhealthy", sick.join("; "))
    }
}

fn layout(known: &Known<'_>, gpus: &[GpuDevice]) -> Say {
    let say = |status, reason, message| Say { kind: LAYOUT_APPLIED, status, reason, message };
    if let Some(rival) = known.rival {
        return say(false, "ManagedByOthers", rival.to_owned());
    }
    let worst = layouts(gpus).map(|(_, layout)| layout.state).max_by_key(|&state| gravity(state));
    let mut words = told(gpus, |state| state != LayoutState::Applied);
    words.extend(known.complaints.iter().cloned());
    let message = words.join("; ");
    match worst.unwrap_or_default() {
        LayoutState::Applied if known.complaints.is_empty() => {
            say(true, "Applied", "every GPU has the layout that is wanted".to_owned())
        }
        LayoutState::Applied => say(false, "NotUnderstood", message),
        LayoutState::Pending => say(false, "Pending", message),
        LayoutState::Waiting => say(false, "InUse", message),
        LayoutState::Failed => say(false, "Failed", message),
        LayoutState::Refused => say(false, "Refused", message),
    }
}

fn gravity(state: LayoutState) -> u8 {
    match state {
        LayoutState::Applied => 0,
        LayoutState::Pending => 1,
        LayoutState::Waiting => 2,
        LayoutState::Failed => 3,
        LayoutState::Refused => 4,
    }
}

fn reconciling(gpus: &[GpuDevice]) -> Say {
    let words = told(gpus, |state| matches!(state, LayoutState::Pending | LayoutState::Failed));
    let (status, reason) = if words.is_empty() { (false, "Idle") } else { (true, "Changing") };
    Say { kind: RECONCILING, status, reason, message: words.join("; ") }
}

/// What will not go by waiting alone: somebody has to change something.
fn stalled(known: &Known<'_>, gpus: &[GpuDevice]) -> Say {
    let say = |reason, message| Say { kind: STALLED, status: true, reason, message };
    if let Some(blind) = known.blind {
        return say("NoDriver", blind.to_owned());
    }
    let hanging: Vec<String> = gpus
        .iter()
        .filter(|gpu| gpu.health_reason.as_deref() == Some("Unresponsive"))
        .map(|gpu| format!("GPU {}: {}", gpu.index, gpu.health_message.as_deref().unwrap_or_default()))
        .collect();
    if !hanging.is_empty() {
        return say("Unresponsive", hanging.join("; "));
    }
    if let Some(rival) = known.rival {
        return say("ManagedByOthers", rival.to_owned());
    }
    let mut words = told(gpus, |state| state == LayoutState::Refused);
    words.extend(known.complaints.iter().cloned());
    if words.is_empty() {
        return Say { kind: STALLED, status: false, reason: "Idle", message: String::new() };
    }
    say("Refused", words.join("; "))
}

fn layouts(gpus: &[GpuDevice]) -> impl Iterator<Item = (&GpuDevice, &LayoutProgress)> {
    gpus.iter().filter_map(|gpu| Some((gpu, gpu.mig.as_ref()?.layout.as_ref()?)))
}

fn told(gpus: &[GpuDevice], of: impl Fn(LayoutState) -> bool) -> Vec<String> {
    let words = layouts(gpus).filter(|(_, layout)| of(layout.state));
    words
        .map(|(gpu, layout)| format!("GPU {}: {}", gpu.index, layout.message.as_deref().unwrap_or_default()))
        .collect()
}

fn count(gpus: usize) -> String {
    if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") }
}
