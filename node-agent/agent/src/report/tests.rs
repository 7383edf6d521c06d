//! What is told in which case.

use whalezen_crds::scheduling::v1alpha1::{
    GpuHealth, InstanceOrigin, LAYOUT_APPLIED, LayoutState, READY, RECONCILING, STALLED,
};

use super::*;
use crate::{
    claims::Claims,
    device::{Driver, Gpu, Link},
    layout::testing::{h100, held, mig, process},
    view::{SeenGpu, Trouble},
};

/// A node with these GPUs, as the test has it.
struct Scene {
    view: View,
    layouts: BTreeMap<Uuid, LayoutProgress>,
    made: BTreeSet<Uuid>,
    blind: Option<String>,
    rival: Option<String>,
    complaints: Vec<String>,
    now: Timestamp,
}

impl Scene {
    fn new(gpus: Vec<Gpu>) -> Self {
        let seen = gpus.into_iter().zip(0..).map(|(gpu, index)| SeenGpu {
            gpu: Gpu { index, uuid: format!("GPU-0{index}").into(), ..gpu },
            trouble: None,
        });
        let driver = Some(Driver { version: "580.65.06".to_owned(), cuda: Some((13, 0)) });
        let view = View { driver, gpus: seen.collect(), claims: held(&[]), ..View::default() };
        Self {
            view,
            layouts: BTreeMap::new(),
            made: BTreeSet::new(),
            blind: None,
            rival: None,
            complaints: Vec::new(),
            now: "2026-11-30T12:00:00.7Z".parse().unwrap(),
        }
    }

    fn layout(mut self, state: LayoutState, message: &str) -> Self {
        let progress =
            LayoutProgress { state, message: Some(message.to_owned()), ..LayoutProgress::default() };
        self.layouts.insert("GPU-00".into(), progress);
        self
    }

    fn status(&self, before: Option<&GPUNodeStatus>) -> GPUNodeStatus {
        let known = Known {
            view: &self.view,
            made: &self.made,
            layouts: &self.layouts,
            generation: Some(3),
            blind: self.blind.as_deref(),
            rival: self.rival.as_deref(),
            complaints: &self.complaints,
            now: self.now,
        };
        status(&known, before)
    }

    /// The conditions as `Type=status/Reason`.
    fn conditions(&self) -> Vec<String> {
        let said = self.status(None).conditions;
        said.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
    }
}

fn whole() -> Gpu {
    let mut gpu = h100("");
    (mig(&mut gpu).enabled, mig(&mut gpu).pending) = (false, false);
    gpu
}

#[test]
fn a_line_says_what_there_is_and_what_is_free() {
    let mut busy = whole();
    busy.processes = vec![crate::device::Process { pid: 1, instance: None }];
    let mut scene = Scene::new(vec![h100("1g.10gb@0 1g.10gb@1 3g.40gb@4"), whole(), busy]);
    scene.view.claims = held(&["MIG-0"]);
    let summary = scene.status(None).summary.unwrap();
    assert_eq!((summary.gpus, summary.mig.as_str()), (3, "1g.10gb:2,3g.40gb:1"));
    assert_eq!((summary.free.as_str(), summary.unhealthy), ("3/5", 0));
    assert_eq!(summary.model, "NVIDIA H100 80GB HBM3");
    assert_eq!(Scene::new(vec![whole()]).status(None).summary.unwrap().mig, "Disabled");
    assert_eq!(Scene::new(vec![h100("")]).status(None).summary.unwrap().mig, "Empty");
}

#[test]
fn an_instance_is_told_with_its_place_its_holders_and_who_made_it() {
    let mut gpu = h100("1g.10gb@0 3g.40gb@4");
    gpu.processes = vec![process(1)];
    let mut scene = Scene::new(vec![gpu]);
    scene.view.claims = held(&["MIG-0"]);
    scene.made = ["MIG-0".into()].into();
    let status = scene.status(None);
    let mig = status.gpus[0].mig.as_ref().unwrap();
    let [first, second] = mig.instances.as_slice() else { panic!("{mig:?}") };
    assert_eq!((first.start, first.size, first.uuid.as_deref()), (0, 1, Some("MIG-0")));
    assert_eq!((first.holders[0].pod.as_str(), first.busy), ("training", true));
    assert_eq!((second.start, second.busy, second.holders.len()), (4, true, 0));
    assert_eq!((first.origin, second.origin), (InstanceOrigin::Agent, InstanceOrigin::Other));
    assert!(mig.profiles.iter().any(|profile| profile.name == "3g.40gb" && profile.starts == [0, 4]));
    assert!(status.gpus[0].busy);
}

#[test]
fn a_kubelet_that_is_away_makes_nothing_busy_in_the_report() {
    let mut scene = Scene::new(vec![h100("1g.10gb@0")]);
    let before = scene.status(None);
    scene.view.claims = Claims::Unknown("away".to_owned());
    assert!(same(&before, &scene.status(Some(&before))));
}

#[test]
fn the_conditions_say_the_worst_and_who_has_to_do_something() {
    let table = [
        (LayoutState::Applied, ["True/Applied", "False/Idle", "False/Idle"]),
        (LayoutState::Pending, ["False/Pending", "True/Changing", "False/Idle"]),
        (LayoutState::Waiting, ["False/InUse", "False/Idle", "False/Idle"]),
        (LayoutState::Failed, ["False/Failed", "True/Changing", "False/Idle"]),
        (LayoutState::Refused, ["False/Refused", "False/Idle", "True/Refused"]),
    ];
    for (state, [layout, reconciling, stalled]) in table {
        let scene = Scene::new(vec![h100(""), h100("")]).layout(state, "why");
        assert_eq!(
            scene.conditions(),
            [
                format!("{READY}=True/Seen"),
                format!("{LAYOUT_APPLIED}={layout}"),
                format!("{RECONCILING}={reconciling}"),
                format!("{STALLED}={stalled}"),
            ]
        );
    }
}

#[test]
fn where_another_tool_rules_or_the_driver_is_missing_the_conditions_say_so() {
    let mut scene = Scene::new(vec![h100("")]);
    scene.rival = Some("NVIDIA's MIG manager runs here".to_owned());
    assert_eq!(
        scene.conditions()[1..],
        ["LayoutApplied=False/ManagedByOthers", "Reconciling=False/Idle", "Stalled=True/ManagedByOthers"]
    );
    let mut scene = Scene::new(Vec::new());
    scene.blind = Some("libnvidia-ml.so.1: no such file".to_owned());
    assert_eq!(scene.conditions()[0], "Ready=False/NoDriver");
    assert_eq!(scene.conditions()[3], "Stalled=True/NoDriver");
    let mut scene = Scene::new(vec![h100("")]);
    scene.complaints = vec!["MIGPolicy bad, nodeSelector: no".to_owned()];
    assert_eq!(scene.conditions()[1], "LayoutApplied=False/NotUnderstood");
    assert_eq!(scene.conditions()[3], "Stalled=True/Refused");
}

#[test]
fn a_gpu_that_is_unhealthy_is_told_and_the_node_is_ready_as_long_as_one_is_not() {
    let mut scene = Scene::new(vec![whole(), whole()]);
    let lost = Trouble { reason: "Lost".to_owned(), message: "it has fallen off the bus".to_owned() };
    scene.view.gpus[1].trouble = Some(lost.clone());
    let status = scene.status(None);
    assert_eq!(status.gpus[1].health, GpuHealth::Unhealthy);
    assert_eq!(status.gpus[1].health_reason.as_deref(), Some("Lost"));
    assert_eq!(scene.conditions()[0], "Ready=True/SomeUnhealthy");
    assert_eq!(status.summary.unwrap().free, "1/2");
    scene.view.gpus[0].trouble = Some(Trouble { reason: "Unresponsive".to_owned(), ..lost });
    assert_eq!(scene.conditions()[0], "Ready=False/AllUnhealthy");
    assert_eq!(scene.conditions()[3], "Stalled=True/Unresponsive");
}

#[test]
fn a_status_that_says_the_same_is_the_same_whenever_it_is_made() {
    let mut scene = Scene::new(vec![h100("3g.40gb@4")]).layout(LayoutState::Pending, "why");
    let first = scene.status(None);
    scene.now = "2026-11-30T13:00:00Z".parse().unwrap();
    let second = scene.status(Some(&first));
    assert!(same(&first, &second));
    assert_ne!(first.heartbeat_time, second.heartbeat_time);
    let other = Scene::new(vec![h100("3g.40gb@4")]).layout(LayoutState::Applied, "");
    assert!(!same(&second, &other.status(Some(&second))));
}

#[test]
fn gpus_that_reach_each_other_over_nvlink_are_an_island() {
    let mut scene = Scene::new(vec![whole(), whole(), whole(), whole()]);
    let link = |a: &str, b: &str, nvlinks| Link { a: a.into(), b: b.into(), path: Path::HostBridge, nvlinks };
    scene.view.links =
        vec![link("GPU-01", "GPU-02", 4), link("GPU-03", "GPU-02", 4), link("GPU-00", "GPU-01", 0)];
    let status = scene.status(None);
    let islands: Vec<_> = status.gpus.iter().map(|gpu| gpu.nvlink_island).collect();
    assert_eq!(islands, [None, Some(1), Some(1), Some(1)]);
    assert_eq!(
        status.links.iter().map(|link| (link.a, link.b)).collect::<Vec<_>>(),
        [(0, 1), (1, 2), (2, 3)]
    );
}

#[test]
fn a_long_text_is_cut_where_the_schema_ends() {
    assert_eq!(clip("short", 5), "short");
    assert_eq!(clip("ééééé", 4), "ééé…");
}
