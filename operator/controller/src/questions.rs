//! What others ask the engine, which owns everything that is known.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use whalezen_core::{
    name::WorkloadKey,
    state::{Snapshot, explain::Explanation},
};
use whalezen_crds::visibility::PendingWorkload;
use whalezen_decisions::observe::Summary;
use whalezen_dialects::kueue::visibility::{InQueue, Page};

use crate::metrics::gauges::Gauges;

/// How many may wait for an answer.
const BACKLOG: usize = 16;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question, and where the answer goes.
#[derive(Debug)]
pub enum Question {
    /// How does everything stand?
    Gauges(oneshot::Sender<Gauges>),
    /// What are plans made from?
    Snapshot(oneshot::Sender<Snapshot>),
    /// Why does this workload wait? Nothing if it is not known.
    Explain(WorkloadKey, oneshot::Sender<Option<Explanation>>),
    /// Who waits in a queue, in which order? Nothing if the queue is not known.
    Pending(InQueue, Page, oneshot::Sender<Option<Vec<PendingWorkload>>>),
    /// How do plans compare with what another scheduler does? Nothing if this replica decides itself.
    Observed(oneshot::Sender<Option<Summary>>),
}

/// Where questions are asked. There is no answer if the engine does not find the time.
#[derive(Clone, Debug)]
pub struct Asker(mpsc::Sender<Question>);

/// A way to ask, and where the questions come out.
pub fn channel() -> (Asker, mpsc::Receiver<Question>) {
    let (to, questions) = mpsc::channel(BACKLOG);
    (Asker(to), questions)
}

impl Asker {
    /// How everything stands.
    pub async fn gauges(&self) -> Option<Gauges> {
        self.ask(Question::Gauges).await
    }

    /// What plans are made from.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        self.ask(Question::Snapshot).await
    }

    /// Why a workload waits.
    pub async fn explain(&self, workload: WorkloadKey) -> Option<Option<Explanation>> {
        self.ask(|to| Question::Explain(workload, to)).await
    }

    /// Who waits in a queue.
    pub async fn pending(&self, queue: InQueue, page: Page) -> Option<Option<Vec<PendingWorkload>>> {
        self.ask(|to| Question::Pending(queue, page, to)).await
    }

    /// How plans compare with what another scheduler does.
    pub async fn observed(&self) -> Option<Option<Summary>> {
        self.ask(Question::Observed).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (to, answer) = oneshot::channel();
        self.0.try_send(question(to)).ok()?;
        timeout(PATIENCE, answer).await.ok()?.ok()
    }
}
