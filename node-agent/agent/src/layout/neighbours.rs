//! NVIDIA's own tools on the node: whether one of them changes layouts, and what they are told.
//!
//! The MIG manager of NVIDIA's GPU operator is driven by the node's label `nvidia.com/mig.config` and answers in
//! `nvidia.com/mig.config.state`; it stops the other tools by labels while it works. Two that change layouts undo each
//! other's work, so the agent keeps away from a node where another one does, unless a label of the node says that it is
//! to take over.

use std::collections::BTreeMap;

use whalezen_crds::scheduling::v1alpha1::LayoutState;

use super::policies::Node;

/// Which layout the node's GPUs are to have, by name.
pub const CONFIG_LABEL: &str = "nvidia.com/mig.config";

/// How far that is.
pub const STATE_LABEL: &str = "nvidia.com/mig.config.state";

/// Whether NVIDIA's MIG manager runs on the node.
pub const MIG_MANAGER_LABEL: &str = "nvidia.com/gpu.deploy.mig-manager";

/// With the value `whalezen`, the agent changes layouts though another tool may.
pub const TAKE_OVER_LABEL: &str = "scheduling.gen.io/mig-manager";

/// The state that the agent last wrote: another one is of somebody else.
pub const STATE_ANNOTATION: &str = "scheduling.gen.io/mig-config-state";

/// What a client is told to stop with.
pub const PAUSED: &str = "paused-for-mig-change";

/// The tools that NVIDIA's operator runs on a node and stops while a layout changes.
pub const CLIENTS: [&str; 6] = [
    "nvidia.com/gpu.deploy.device-plugin",
    "nvidia.com/gpu.deploy.gpu-feature-discovery",
    "nvidia.com/gpu.deploy.dcgm-exporter",
    "nvidia.com/gpu.deploy.dcgm",
    "nvidia.com/gpu.deploy.nvsm",
    "nvidia.com/gpu.deploy.client",
];

/// Who else changes layouts on the node, for people; `None` if nobody does, or the agent is to take over.
pub fn rival(node: &Node, dynamic_mig: bool) -> Option<String> {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    if label(TAKE_OVER_LABEL) == Some("whalezen") {
        return None;
    }
    let hint = format!("label the node {TAKE_OVER_LABEL}=whalezen to have the agent take over");
    if label(MIG_MANAGER_LABEL).is_some_and(|value| value == "true" || value == PAUSED) {
        return Some(format!("NVIDIA's MIG manager runs here ({MIG_MANAGER_LABEL}); {hint}"));
    }
    let state = label(STATE_LABEL).filter(|state| matches!(*state, "pending" | "rebooting"));
    let ours = node.annotations.get(STATE_ANNOTATION).map(String::as_str);
    if let Some(state) = state.filter(|state| ours != Some(state)) {
        return Some(format!("somebody else is changing the layout ({STATE_LABEL}={state}); {hint}"));
    }
    if dynamic_mig {
        return Some(format!("NVIDIA's DRA driver makes MIG instances here as they are claimed; {hint}"));
    }
    None
}

/// Changes to the node's labels and annotations: what to set, or to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePatch {
    /// Labels.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    pub annotations: BTreeMap<String, Option<String>>,
}

impl NodePatch {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What the node's labels are to say, where no rival is there: the true state of the configuration that is asked for, and
/// which of NVIDIA's tools run. While they `restart` those that run are stopped, since they see new instances only when
/// they begin; at any other time none is. So a MIG manager or an agent that was stopped in the middle leaves nobody
/// stopped for longer than until this is asked next.
pub fn labels(node: &Node, states: &[LayoutState], restart: bool) -> NodePatch {
    let mut patch = NodePatch::default();
    let (from, to) = if restart { ("true", PAUSED) } else { (PAUSED, "true") };
    for client in CLIENTS {
        if node.labels.get(client).is_some_and(|value| value == from) {
            patch.labels.insert(client.to_owned(), Some(to.to_owned()));
        }
    }
    let state = node.labels.contains_key(CONFIG_LABEL).then(|| state(states));
    let set = |there: Option<&String>| there.map(String::as_str) != state;
    let ours = node.annotations.get(STATE_ANNOTATION);
    let there = node.labels.get(STATE_LABEL);
    // Where nobody asks for a configuration a state is taken back only if the agent wrote it.
    if set(there) && (state.is_some() || ours == there) {
        patch.labels.insert(STATE_LABEL.to_owned(), state.map(str::to_owned));
    }
    if set(ours) {
        patch.annotations.insert(STATE_ANNOTATION.to_owned(), state.map(str::to_owned));
    }
    patch
}

/// The states of the GPUs in mig-parted's one word.
fn state(states: &[LayoutState]) -> &'static str {
    let any = |wanted: &[LayoutState]| states.iter().any(|state| wanted.contains(state));
    if any(&[LayoutState::Failed, LayoutState::Refused]) {
        "failed"
    } else if any(&[LayoutState::Pending, LayoutState::Waiting]) {
        "pending"
    } else {
        "success"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Node {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        Node { labels: map(labels), annotations: map(annotations), ..Node::default() }
    }

    fn change(key: &str, value: Option<&str>) -> (String, Option<String>) {
        (key.to_owned(), value.map(str::to_owned))
    }

    #[test]
    fn the_agent_keeps_away_where_another_tool_changes_layouts() {
        let take_over = (TAKE_OVER_LABEL, "whalezen");
        let table: [(&[_], &[_], bool, bool); 10] = [
            (&[], &[], false, false),
            (&[(MIG_MANAGER_LABEL, "true")], &[], false, true),
            (&[(MIG_MANAGER_LABEL, "false")], &[], false, false),
            (&[(MIG_MANAGER_LABEL, "true"), take_over], &[], false, false),
            (&[(MIG_MANAGER_LABEL, "true"), (TAKE_OVER_LABEL, "nvidia")], &[], false, true),
            (&[(STATE_LABEL, "pending")], &[], false, true),
            (&[(STATE_LABEL, "pending")], &[(STATE_ANNOTATION, "pending")], false, false),
            (&[(STATE_LABEL, "success")], &[], false, false),
            (&[], &[], true, true),
            (&[take_over], &[], true, false),
        ];
        for (labels, annotations, dynamic, away) in table {
            let rival = rival(&node(labels, annotations), dynamic);
            assert_eq!(rival.is_some(), away, "{labels:?} {annotations:?} {dynamic}: {rival:?}");
        }
    }

    #[test]
    fn the_state_of_a_configuration_is_that_of_the_worst_gpu() {
        use LayoutState::{Applied, Failed, Pending, Refused, Waiting};
        let table: [(&[LayoutState], _); 6] = [
            (&[Applied, Applied], "success"),
            (&[], "success"),
            (&[Applied, Pending], "pending"),
            (&[Waiting, Applied], "pending"),
            (&[Pending, Failed], "failed"),
            (&[Refused, Applied], "failed"),
        ];
        for (states, word) in table {
            let asked = node(&[(CONFIG_LABEL, "all-balanced")], &[]);
            let patch = labels(&asked, states, false);
            assert_eq!(patch.labels, [change(STATE_LABEL, Some(word))].into());
            assert_eq!(patch.annotations, [change(STATE_ANNOTATION, Some(word))].into());
            let told =
                node(&[(CONFIG_LABEL, "all-balanced"), (STATE_LABEL, word)], &[(STATE_ANNOTATION, word)]);
            assert!(labels(&told, states, false).is_empty());
        }
    }

    #[test]
    fn where_no_configuration_is_asked_for_there_is_no_state_of_ours() {
        assert!(labels(&node(&[], &[]), &[LayoutState::Failed], false).is_empty());
        assert!(labels(&node(&[(STATE_LABEL, "success")], &[]), &[], false).is_empty());
        let left = node(&[(STATE_LABEL, "failed")], &[(STATE_ANNOTATION, "failed")]);
        let patch = labels(&left, &[], false);
        assert_eq!(patch.labels, [change(STATE_LABEL, None)].into());
        assert_eq!(patch.annotations, [change(STATE_ANNOTATION, None)].into());
    }

    #[test]
    fn a_client_that_somebody_left_paused_goes_on() {
        let [first, second, third, ..] = CLIENTS;
        let paused = node(&[(first, PAUSED), (second, "false"), (third, "true")], &[]);
        assert_eq!(labels(&paused, &[], false).labels, [change(first, Some("true"))].into());
    }

    #[test]
    fn clients_that_run_are_stopped_while_they_restart_and_no_others() {
        let [first, second, third, ..] = CLIENTS;
        let there = node(&[(first, "true"), (second, "false"), (third, PAUSED)], &[]);
        assert_eq!(labels(&there, &[], true).labels, [change(first, Some(PAUSED))].into());
    }
}
