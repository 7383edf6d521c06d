//! Writes the node's labels: by server-side apply, so the API server itself keeps whose each label is, and takes away
//! those that we stop to apply.

use std::time::{Duration, Instant};

use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ObjectMeta},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{Labels, free::Threshold, wanted};
use crate::{sense::Sensed, view::View};

/// Under which name the labels are ours.
pub const MANAGER: &str = "whalezen-agent-labels";

/// How often one looks whether a label has to change.
const LOOK: Duration = Duration::from_secs(5);

/// How long there is at least between two writes. A node that is used costs the API server no more than this.
const PAUSE: Duration = Duration::from_secs(30);

/// Where the labels come from and go to.
pub struct Publisher {
    /// The nodes of the cluster. Only one is written.
    pub nodes: Api<Node>,
    /// The node as it is in the API server.
    pub node: watch::Receiver<Option<ObjectMeta>>,
    /// What is seen.
    pub view: watch::Receiver<View>,
    /// What was read.
    pub sensed: watch::Receiver<Sensed>,
    /// How far the truth may be from the label of free memory.
    pub threshold: Threshold,
}

impl Publisher {
    /// Keeps the labels true for as long as it is polled. They stay when it ends: the agent that comes next finds them.
    pub async fn run(self) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some((name, labels)) = self.change() else { continue };
            match self.write(&name, &labels).await {
                Ok(()) => tracing::info!(?labels, "the node's labels are written"),
                Err(error) => tracing::warn!(%error, "the node's labels cannot be written"),
            }
            sleep(PAUSE).await;
        }
    }

    /// What to write, if anything.
    fn change(&self) -> Option<(String, Labels)> {
        let meta = self.node.borrow().clone()?;
        let (ours, theirs) = split(&meta);
        let view = self.view.borrow().clone();
        // Before the first look nothing is known, and labels of an agent before us are true for all that is known.
        if view == View::default() {
            return None;
        }
        let sensed = self.sensed.borrow().clone();
        let labels = wanted(&view, &sensed, Instant::now(), &ours, &theirs, self.threshold);
        (labels != ours).then_some((meta.name?, labels))
    }

    async fn write(&self, name: &str, labels: &Labels) -> kube::Result<()> {
        let patch = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": labels },
        });
        // Never by force: a label that somebody has set in this moment is theirs.
        self.nodes.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(&patch)).await.map(drop)
    }
}

/// The labels of a node that are ours, and those that are not.
pub fn split(meta: &ObjectMeta) -> (Labels, Labels) {
    let entries = meta.managed_fields.iter().flatten();
    let own = entries.filter(|entry| {
        entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some("Apply")
    });
    let fields = own.filter_map(|entry| entry.fields_v1.as_ref()).collect::<Vec<_>>();
    let is_ours = |name: &str| fields.iter().any(|FieldsV1(fields)| owns(fields, name));
    let labels = meta.labels.clone().unwrap_or_default();
    labels.into_iter().partition(|(name, _)| is_ours(name))
}

fn owns(fields: &Value, label: &str) -> bool {
    let labels = fields.get("f:metadata").and_then(|metadata| metadata.get("f:labels"));
    labels.is_some_and(|labels| labels.get(format!("f:{label}")).is_some())
}
