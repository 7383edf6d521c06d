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

/// How long the node's labels are taken for what they were when they were last seen. Those of others change seldom.
const SEEN: Duration = Duration::from_mins(5);

/// How long a driver is waited for before the node is one without GPUs.
const PATIENCE: Duration = Duration::from_mins(5);

/// Where the labels come from and go to.
pub struct Publisher {
    /// The nodes of the cluster. Only one is read and written.
    pub nodes: Api<Node>,
    /// The name of that one.
    pub node: String,
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
        let (began, mut seen) = (Instant::now(), None::<(Instant, ObjectMeta)>);
        loop {
            ticks.tick().await;
            if self.view.borrow().driver.is_none() && began.elapsed() < PATIENCE {
                // Nothing is known yet, and what was said before is true for all that is known.
                continue;
            }
            if seen.as_ref().is_none_or(|(at, _)| at.elapsed() >= SEEN) {
                match self.nodes.get_metadata(&self.node).await {
                    Ok(node) => seen = Some((Instant::now(), node.metadata)),
                    Err(error) => tracing::warn!(%error, "the node's labels cannot be read"),
                }
            }
            let Some(labels) = seen.as_ref().and_then(|(_, meta)| self.change(meta)) else { continue };
            match self.write(&labels).await {
                Ok(meta) => {
                    tracing::info!(?labels, "the node's labels are written");
                    seen = Some((Instant::now(), meta));
                }
                Err(error) => {
                    // Perhaps somebody has just set one of them.
                    tracing::warn!(%error, "the node's labels cannot be written");
                    seen = None;
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// What to write, if anything.
    fn change(&self, meta: &ObjectMeta) -> Option<Labels> {
        let (ours, theirs) = split(meta);
        let (view, sensed) = (self.view.borrow(), self.sensed.borrow());
        let labels = wanted(&view, &sensed, Instant::now(), &ours, &theirs, self.threshold);
        (labels != ours).then_some(labels)
    }

    async fn write(&self, labels: &Labels) -> kube::Result<ObjectMeta> {
        let patch = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.node, "labels": labels },
        });
        // Never by force: a label that somebody has set in this moment is theirs.
        let written = self
            .nodes
            .patch_metadata(&self.node, &PatchParams::apply(MANAGER), &Patch::Apply(&patch))
            .await?;
        Ok(written.metadata)
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
