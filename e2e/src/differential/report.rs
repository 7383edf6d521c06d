//! How many problems both managers solve alike, and what is known of the others.

use std::fmt;

use anyhow::Result;

use super::explained::explanation;
use super::pair::{Case, Pair};
use super::problem::{Problem, Seed};

/// What became of many problems.
#[derive(Debug, Default)]
pub struct Report {
    /// How many are solved alike.
    pub agreements: usize,
    /// Those that are not, for a reason that is known.
    pub explained: Vec<(Seed, String)>,
    /// Those that are not, whole.
    pub differences: Vec<(Seed, String)>,
}

impl Report {
    /// Gives the problems to both.
    pub async fn of(pair: &Pair, problems: Vec<Problem>) -> Result<Self> {
        let mut report = Self::default();
        for case in pair.play(problems).await? {
            report.add(&case)?;
        }
        Ok(report)
    }

    fn add(&mut self, case: &Case) -> Result<()> {
        let seed = case.problem.seed;
        if case.difference.is_none() {
            self.agreements += 1;
        } else if let Some(reason) = explanation(case)? {
            self.explained.push((seed, reason));
        } else {
            self.differences.push((seed, case.whole()?));
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seed, whole) in &self.differences {
            writeln!(f, "=== {seed} differs\n{whole}")?;
        }
        for (seed, reason) in &self.explained {
            writeln!(f, "{seed} differs, explained: {reason}")?;
        }
        let all = self.agreements + self.explained.len() + self.differences.len();
        write!(
            f,
            "{} of {all} problems solved alike, {} differ for a known reason, {} differ",
            self.agreements,
            self.explained.len(),
            self.differences.len()
        )
    }
}
