//! How many problems both managers solve alike, and what is known of the others.

use std::fmt;

use anyhow::Result;

use super::explained::explanation;
use super::generate::generate;
use super::pair::{Case, Pair};
use super::problem::{Problem, Seed};

/// What became of many problems.
#[derive(Debug, Default)]
pub struct Report {
    /// How many are solved alike.
    pub agreements: usize,
    /// Those that are not, for a reason that is known.
    pub explained: Vec<(Seed, String)>,
    /// Those that were not when they were played first, and were when they were played again: which of two that came
    /// at the same moment was seen first, for one, is nobody's rule.
    pub unsteady: Vec<(Seed, String)>,
    /// Those that are not, whole.
    pub differences: Vec<(Seed, String)>,
}

impl Report {
    /// Gives the problems to both, and those that they solve differently for no known reason once more.
    pub async fn of(pair: &Pair, problems: Vec<Problem>) -> Result<Self> {
        let mut report = Self::default();
        report.add(&pair.play(problems).await?)?;
        let first = std::mem::take(&mut report.differences);
        let again = first.iter().map(|(seed, _)| generate(*seed)).collect();
        report.add(&pair.play(again).await?)?;
        let still: Vec<Seed> = report.differences.iter().map(|(seed, _)| *seed).collect();
        report.unsteady = first.into_iter().filter(|(seed, _)| !still.contains(seed)).collect();
        Ok(report)
    }

    fn add(&mut self, cases: &[Case]) -> Result<()> {
        for case in cases {
            let seed = case.problem.seed;
            if case.difference.is_none() {
                self.agreements += 1;
            } else if let Some(reason) = explanation(case)? {
                self.explained.push((seed, reason));
            } else {
                self.differences.push((seed, case.whole()?));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seed, whole) in &self.differences {
            writeln!(f, "=== {seed} differs\n{whole}")?;
        }
        for (seed, whole) in &self.unsteady {
            writeln!(f, "=== {seed} differed once, and not when it was played again\n{whole}")?;
        }
        for (seed, reason) in &self.explained {
            writeln!(f, "{seed} differs, explained: {reason}")?;
        }
        let all = self.agreements + self.explained.len() + self.differences.len();
        write!(
            f,
            "{} of {all} problems solved alike, {} differ for a known reason, {} differ; {} differed once and not again",
            self.agreements,
            self.explained.len(),
            self.differences.len(),
            self.unsteady.len()
        )
    }
}
