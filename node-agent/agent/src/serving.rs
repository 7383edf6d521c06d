//! What the agent serves beside its loop: devices to the kubelet, numbers to Prometheus, labels to the node. All of it
//! follows the [`View`] that the loop makes, and none of it holds the loop up.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kube::{Api, Client};
use tokio::{
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    device::Lanes,
    labels::{free::Threshold, publish::Publisher},
    metrics::serve::{Sources, serve},
    plugin::{given::Given, set},
    sense::{self, Rate, Sensed},
    view::View,
    xid::Xids,
};

/// How long plugins may take to withdraw what they offer.
const END: Duration = Duration::from_secs(4);

/// What is served, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name.
    pub node: String,
    /// The device plugin, unless another one hands devices out.
    pub plugin: Option<set::Config>,
    /// Where Prometheus finds the numbers.
    pub metrics: Option<SocketAddr>,
    /// How often GPUs are read.
    pub rate: Rate,
    /// How far the truth may be from the label of free memory; without it the node gets no labels.
    pub labels: Option<Threshold>,
}

/// What serving needs of the rest of the agent.
pub struct Parts {
    /// The API server.
    pub client: Client,
    /// The GPUs.
    pub lanes: Arc<Lanes>,
    /// What the loop sees.
    pub view: watch::Receiver<View>,
    /// What GPUs reported.
    pub xids: watch::Receiver<Xids>,
    /// Who was given what.
    pub given: Arc<Given>,
}

/// What is being served.
pub struct Serving {
    /// Ended by being dropped.
    _others: JoinSet<()>,
    plugins: Option<JoinHandle<()>>,
}

impl Serving {
    /// Begins.
    pub fn start(config: Config, parts: Parts) -> Self {
        let Parts { client, lanes, view, xids, given } = parts;
        let mut others = JoinSet::new();
        let sensed = Arc::new(watch::Sender::new(Sensed::default()));
        if let Some(address) = config.metrics {
            let node = config.node.as_str().into();
            others.spawn(serve(
                address,
                Sources { node, view: view.clone(), sensed: sensed.subscribe(), xids },
            ));
        }
        if let Some(threshold) = config.labels {
            let publisher = Publisher {
                nodes: Api::all(client),
                node: config.node,
                view: view.clone(),
                sensed: sensed.subscribe(),
                threshold,
            };
            others.spawn(publisher.run());
        }
        others.spawn(sense::run(config.rate, lanes, view.clone(), sensed));
        let plugins = config.plugin.map(|plugin| tokio::spawn(set::run(plugin, view, given)));
        Self { _others: others, plugins }
    }

    /// Ends, when the view's sender is gone: the kubelet is offered nothing more. What containers have they keep.
    pub async fn end(self) {
        if let Some(plugins) = self.plugins
            && timeout(END, plugins).await.is_err()
        {
            tracing::warn!(
                "the kubelet does not answer: it may believe for a while that devices are offered"
            );
        }
    }
}
