//! Both managers side by side, and what they make of the same problems.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::outcome::{Difference, Trace, beside, difference};
use super::problem::{Family, Problem};
use super::site::Site;
use crate::bench::{Kueue, Operator, definitions};
use crate::built_operator;

/// Our operator and Kueue, each on a control plane of its own.
pub struct Pair {
    ours: Site,
    theirs: Site,
    played: AtomicUsize,
}

/// What both made of a problem.
pub struct Case {
    /// The problem.
    pub problem: Problem,
    /// What our operator made of it.
    pub ours: Trace,
    /// What Kueue made of it.
    pub theirs: Trace,
    /// Where they differ first.
    pub difference: Option<Difference>,
}

impl Pair {
    /// Starts Kueue and the operator that was built in the profile of the running program.
    pub async fn start_built(family: Family) -> Result<Self> {
        let kueue = tokio::task::spawn_blocking(Kueue::build).await??;
        Self::start(&Operator::find(Some(&built_operator()?))?, &kueue, family).await
    }

    /// Starts both as the problems of a family need them.
    pub(crate) async fn start(operator: &Operator, kueue: &Kueue, family: Family) -> Result<Self> {
        let settings = settings(family);
        let ours = Site::start("WhaleZEN", definitions(), |kubeconfig, scratch| {
            operator.launch(kubeconfig, scratch, &settings)
        });
        let theirs = Site::start("Kueue", kueue.crds(), |kubeconfig, scratch| {
            kueue.launch(kubeconfig, scratch, &settings)
        });
        let (ours, theirs) = tokio::try_join!(ours, theirs)?;
        Ok(Self { ours, theirs, played: AtomicUsize::new(0) })
    }

    /// Gives these problems to both.
    pub async fn play(&self, problems: Vec<Problem>) -> Result<Vec<Case>> {
        let place = |problem| (format!("p{}", self.played.fetch_add(1, Ordering::Relaxed)), problem);
        let placed: Vec<_> = problems.into_iter().map(place).collect();
        let (ours, theirs) = tokio::try_join!(self.ours.play(&placed), self.theirs.play(&placed))?;
        let traces = ours.into_iter().zip(theirs);
        Ok(placed
            .into_iter()
            .zip(traces)
            .map(|((_, problem), (ours, theirs))| Case::new(problem, ours, theirs))
            .collect())
    }

    /// Copies the logs of both managers.
    pub fn keep_logs(&self, folder: &Path) -> Result<()> {
        self.ours.keep_log(folder)?;
        self.theirs.keep_log(folder)
    }

    /// Ends both.
    pub async fn stop(self) -> Result<()> {
        let ours = self.ours.stop().await;
        self.theirs.stop().await.and(ours)
    }
}

/// The fields of the configuration that are not the defaults.
fn settings(family: Family) -> Map<String, Value> {
    let mut settings = Map::new();
    if family == Family::Fairness {
        let strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"];
        settings.insert("fairSharing".to_owned(), json!({ "preemptionStrategies": strategies }));
    }
    settings
}

impl Case {
    fn new(problem: Problem, ours: Trace, theirs: Trace) -> Self {
        let difference = difference(&ours, &theirs);
        Self { problem, ours, theirs, difference }
    }

    /// The whole problem and what both made of it, for a person.
    pub fn whole(&self) -> Result<String> {
        let outcome = self.difference.map(|difference| beside(&self.ours, &self.theirs, difference));
        Ok(format!("{}\n{}", self.problem.yaml()?, outcome.unwrap_or_else(|| "both agree".to_owned())))
    }
}
