//! The course of the demo.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use tokio::time::{interval, timeout};
use whalezen_e2e::{Cluster, Replicas, manifests};

use crate::fault::Fault;
use crate::observe::Observer;
use crate::row::{Row, State};
use crate::score::Score;
use crate::show::{Show, text};
use crate::{Options, jobs};

/// Long enough for a machine that is busy with something else; the run itself takes half a minute.
const DEADLINE: Duration = Duration::from_mins(3);
const ELECTION: Duration = Duration::from_mins(1);
const TICK: Duration = Duration::from_millis(150);

/// Installs, submits, watches until everything has finished, and prints the tables and the summary.
pub async fn play(cluster: &Cluster, operator: &Path, options: &Options) -> Result<()> {
    cluster.install_operator().await?;
    let mut replicas = Replicas::start(cluster, operator).await?;
    let leader = timeout(ELECTION, replicas.elected()).await;
    let leader =
        leader.unwrap_or_else(|_| bail!("no replica leads after {ELECTION:?}{}", replicas.last_words()))?;
    println!("Two replicas of the operator run with their service account's rights; {leader} leads.");
    cluster.apply_dir(manifests("examples/quickstart/queues")).await.context("the queues")?;
    let active = ["wait", "--for=condition=Active", "--timeout=30s", "clusterqueues", "--all"];
    cluster.kubectl(&active).await.with_context(|| replicas.last_words())?;

    let jobs = jobs::render(cluster).await?;
    let capacity = capacity(cluster).await?;
    let observer = Observer::start(&cluster.client());
    println!("{} jobs are submitted. Time is scaled: {}.\n", jobs.count, jobs::scales());
    let run = Run { cluster, observer, capacity, submitted: jobs.count, start: Instant::now() };
    let fault = if options.kill_leader { Fault::Armed } else { Fault::None };
    let watched = run.watch(&mut replicas, fault, options.plain);
    let ((), score) = tokio::try_join!(jobs::submit(cluster, &jobs), watched)?;

    // Queue counters are written in batches: the tables wait for them to be right.
    let counters =
        ["wait", "--for=jsonpath={.status.admittedWorkloads}=0", "--timeout=20s", "clusterqueues", "--all"];
    cluster.kubectl(&counters).await.context("the queues' counters")?;
    let get = ["get", "clusterqueues,localqueues,workloads", "--all-namespaces"];
    println!("\n$ kubectl {}\n{}", get.join(" "), cluster.kubectl(&get).await?);
    println!("{}", score.summary(jobs.count, capacity));
    Ok(())
}

/// The jobs' run.
struct Run<'a> {
    cluster: &'a Cluster,
    observer: Observer,
    capacity: i64,
    submitted: usize,
    start: Instant,
}

impl Run<'_> {
    async fn watch(&self, replicas: &mut Replicas, mut fault: Fault, plain: bool) -> Result<Score> {
        let mut show = Show::new(plain, self.capacity)?;
        let mut score = Score::default();
        let mut ticks = interval(TICK);
        loop {
            ticks.tick().await;
            self.cluster.check()?;
            replicas.check()?;
            let (rows, at) = (self.observer.rows(), self.start.elapsed());
            show.rows(&rows, &score, at)?;
            score.note(&rows, at, self.capacity)?;
            if let Some(told) = fault.step(replicas, &rows, at).await? {
                show.note(at, &told);
            }
            if score.finished() == self.submitted {
                return Ok(score);
            }
            if at > DEADLINE {
                bail!("after {DEADLINE:?} {}{}", unfinished(&rows, self.submitted), replicas.last_words());
            }
        }
    }
}

fn unfinished(rows: &[Row], submitted: usize) -> String {
    let each = rows.iter().filter(|row| row.state != State::Finished);
    let each: Vec<String> = each.map(|row| format!("{} {}", row.name, text(&row.state))).collect();
    format!(
        "only {} of {submitted} jobs have finished: {}",
        submitted - each.len().min(submitted),
        each.join("; ")
    )
}

/// The GPUs that the nodes offer.
async fn capacity(cluster: &Cluster) -> Result<i64> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let nodes = nodes.list(&ListParams::default()).await?;
    let allocatable = nodes.iter().filter_map(|node| node.status.as_ref()?.allocatable.as_ref());
    let gpus = allocatable.filter_map(|resources| resources.get("nvidia.com/gpu")?.0.parse::<i64>().ok());
    Ok(gpus.sum())
}
