//! The differential test as a benchmark: thousands of quota problems, ours beside Kueue's answers.

use anyhow::Result;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::kueue::Kueue;
use super::operator::Operator;
use super::{Benchmark, Measurement, Options};
use crate::differential::{Family, Pair, Report, Seed, generate, shrink};

/// How many problems of a family are played, where nobody asks for another number.
const PROBLEMS: u64 = 700;

/// The problems of one family.
pub struct Differential {
    family: Family,
    name: &'static str,
    about: &'static str,
}

impl Differential {
    /// One for each family.
    pub fn all() -> [Self; 3] {
        [
            (
                Family::Borrowing,
                "differential/borrowing",
                "random quota problems without preemption, beside Kueue",
            ),
            (
                Family::Preemption,
                "differential/preemption",
                "random quota problems with preemption, beside Kueue",
            ),
            (
                Family::Fairness,
                "differential/fairness",
                "random quota problems with fair sharing, beside Kueue",
            ),
        ]
        .map(|(family, name, about)| Self { family, name, about })
    }

    async fn compare(&self, options: &Options) -> Result<Vec<Measurement>> {
        if options.problem.is_some_and(|problem| problem.family != self.family) {
            return Ok(Vec::new());
        }
        let operator = Operator::find(options.operator.as_deref())?;
        let kueue = tokio::task::spawn_blocking(Kueue::build).await??;
        let pair = Pair::start(&operator, &kueue, self.family).await?;
        let result = match options.problem {
            Some(problem) => show(&pair, problem).await.map(|()| Vec::new()),
            None => self.play_all(&pair, &kueue, options).await,
        };
        if let Some(folder) = &options.keep_logs {
            pair.keep_logs(&folder.join(self.name.replace('/', "-")))?;
        }
        pair.stop().await?;
        result
    }

    async fn play_all(&self, pair: &Pair, kueue: &Kueue, options: &Options) -> Result<Vec<Measurement>> {
        let count = options.problems.unwrap_or(PROBLEMS);
        let problems = (0..count).map(|number| generate(Seed { family: self.family, number })).collect();
        let report = Report::of(pair, problems).await?;
        println!("{report}");
        // Who answers as Kueue does agrees on all of them.
        let all = report.agreements + report.explained.len() + report.differences.len();
        let measure = |what: &str, value: usize, reference: usize| Measurement {
            name: format!("{}/{what}", self.name),
            value: number(value),
            unit: "problems".to_owned(),
            reference: Some(number(reference)),
            reference_name: Some(format!("Kueue {}", kueue.version)),
        };
        Ok(vec![
            measure("agreements", report.agreements, all),
            measure("explained", report.explained.len(), 0),
            measure("unexplained", report.differences.len(), 0),
            measure("unsteady", report.unsteady.len(), 0),
        ])
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Plays one problem and shows it, made smaller where both differ.
async fn show(pair: &Pair, seed: Seed) -> Result<()> {
    let Some(case) = pair.play(vec![generate(seed)]).await?.pop() else { return Ok(()) };
    println!("{}", case.whole()?);
    if case.difference.is_some() {
        println!("made smaller:\n{}", shrink(pair, case).await?.whole()?);
    }
    Ok(())
}

impl Benchmark for Differential {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn run<'a>(&'a self, options: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        self.compare(options).boxed()
    }
}
