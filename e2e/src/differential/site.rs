//! One manager on a control plane of its own, and the problems that it is given.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kube::Client;
use tokio::task::JoinHandle;

use super::board::Board;
use super::generate::shared_flavors;
use super::outcome::Trace;
use super::problem::{Problem, name};
use super::{objects, play, probe, seen};
use crate::bench::{Launch, install_definitions, wait_until_ready};
use crate::{Cluster, Process};

/// How many problems are played at once.
const AT_ONCE: usize = 150;

/// A manager, its cluster, and the watch on what it does.
pub struct Site {
    label: &'static str,
    cluster: Cluster,
    manager: Process,
    board: Arc<Board>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Site {
    /// Starts a manager on a fresh control plane with the definitions of a folder.
    pub async fn start(
        label: &'static str,
        definitions: PathBuf,
        launch: impl FnOnce(&Path, &Path) -> Result<Launch>,
    ) -> Result<Self> {
        let cluster = Cluster::builder()
            .with_scheduler(false)
            .with_controller_manager(false)
            .with_kwok(false)
            .start()
            .await?;
        install_definitions(&cluster, &definitions).await?;
        let scratch = cluster.state_dir().join("differential");
        fs::create_dir_all(&scratch)?;
        let launch = launch(&cluster.kubeconfig(), &scratch)?;
        let manager = cluster.spawn("manager", &launch.command)?;
        wait_until_ready(&manager, &launch.ready).await?;
        for flavor in shared_flavors() {
            objects::create(&cluster.client(), &flavor).await?;
        }

        let board = Arc::new(Board::default());
        let mut tasks = Vec::new();
        let (watching, client) = (Arc::clone(&board), cluster.client());
        tasks.push(tokio::spawn(async move { watching.follow(client).await }));
        let (probing, client) = (Arc::clone(&board), cluster.client());
        tasks.push(tokio::spawn(async move { probe::hand_over(client, &probing).await }));
        let shared = shared_flavors();
        let names = shared.iter().map(|flavor| name(flavor.metadata.name.as_ref()));
        let site = Self { label, cluster, manager, board, tasks };
        seen::flavors(&site.cluster.client(), &site.board, names).await.with_context(|| site.last_words())?;
        Ok(site)
    }

    /// Plays these problems, many at a time; `placed` names them in the cluster. The traces come in their order.
    pub async fn play(&self, problems: &[(String, Problem)]) -> Result<Vec<Trace>> {
        let client = self.cluster.client();
        // Collected first: a closure over references to them is not general enough for a boxed future.
        let plays: Vec<_> = (problems.iter().enumerate())
            .map(|(index, (place, problem))| {
                let client = client.clone();
                async move { Ok((index, self.play_one(client, place, problem).await?)) }
            })
            .collect();
        let traces: Result<Vec<(usize, Trace)>> =
            stream::iter(plays).buffer_unordered(AT_ONCE).try_collect().await;
        let mut traces = traces.with_context(|| self.last_words())?;
        traces.sort_by_key(|(index, _)| *index);
        Ok(traces.into_iter().map(|(_, trace)| trace).collect())
    }

    async fn play_one(&self, client: Client, place: &str, problem: &Problem) -> Result<Trace> {
        let trace = play::play(client, &self.board, place, problem).await;
        self.check()?;
        trace.with_context(|| format!("problem {} as {place}", problem.seed))
    }

    /// Fails when anything here has ended that should not have.
    fn check(&self) -> Result<()> {
        self.cluster.check()?;
        if !self.manager.is_running() {
            bail!("{} has ended by itself", self.label);
        }
        if self.tasks.iter().any(JoinHandle::is_finished) {
            bail!("the probe or the watch has ended");
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        format!("{}; the manager's last lines:\n{}", self.label, self.manager.log_tail(15))
    }

    /// Copies the manager's log.
    pub fn keep_log(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let name = self.label.to_lowercase().replace(' ', "-");
        fs::copy(self.manager.log(), folder.join(format!("{name}.log")))?;
        Ok(())
    }

    /// Ends all of it, and says why a task ended early if one did.
    pub async fn stop(self) -> Result<()> {
        for task in self.tasks {
            if task.is_finished() {
                task.await??;
            } else {
                task.abort();
            }
        }
        self.cluster.stop().await
    }
}
