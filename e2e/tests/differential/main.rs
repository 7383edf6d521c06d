//! A hundred random quota problems, played step by step by Kueue's own binary and by our operator.
//!
//! Where both do not end alike, the reason is one of those in `src/differential/explained.yaml`. A problem of which
//! this says that it differs is shown whole, and made smaller, by `whalezen-bench differential --problem NAME`.

use anyhow::{Result, ensure};
use whalezen_e2e::differential::{Family, Pair, Problem, Report, Seed, generate};

/// How many of a family may differ once and not when they are played again.
const UNSTEADY: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn without_fair_sharing_both_admit_and_evict_the_same_workloads() -> Result<()> {
    let problems = first(35, Family::Borrowing).chain(first(40, Family::Preemption));
    Box::pin(compare(Family::Preemption, problems.collect())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_fair_sharing_both_admit_and_evict_the_same_workloads() -> Result<()> {
    Box::pin(compare(Family::Fairness, first(25, Family::Fairness).collect())).await
}

fn first(count: u64, family: Family) -> impl Iterator<Item = Problem> {
    (0..count).map(move |number| generate(Seed { family, number }))
}

/// Both are configured as the family needs it.
async fn compare(family: Family, problems: Vec<Problem>) -> Result<()> {
    let pair = Pair::start_built(family).await?;
    let report = Report::of(&pair, problems).await?;
    println!("{report}");
    pair.stop().await?;
    ensure!(report.differences.is_empty() && report.unsteady.len() <= UNSTEADY, "{report}");
    Ok(())
}
