//! Whether learned weights are to be used: if on arrivals that they were not trained on they get more allocated than the default
//! ones on average, and on no mix much less than the published FGD.

use std::sync::Arc;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets::UTF8_BORDERS_ONLY};
use whalezen_core::placement::Weights;

use crate::fgd::{
    experiment::{self, ARRIVALS, spread},
    policy::{Mix, Policy},
    published::Published,
};

/// How much less than FGD they may get allocated on a mix, in points.
const MARGIN: f64 = 0.1;

/// What three policies got allocated of one mix, in percent of the GPUs, on average over the seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The mix.
    pub mix: String,
    /// The published FGD.
    pub fgd: f64,
    /// The default weights.
    pub default: f64,
    /// The weights that are judged.
    pub learned: f64,
}

/// Runs all three on every mix and seed; `done` is called after each run.
pub fn judge(
    weights: &Weights,
    mixes: &[Mix],
    seeds: &[u64],
    done: impl Fn() + Sync,
) -> Result<Vec<Verdict>> {
    let policies = [
        Policy::Published(Published::Fgd),
        Policy::Ours(Arc::new(Weights::default())),
        Policy::Ours(Arc::new(weights.clone())),
    ];
    let mut jobs = Vec::new();
    for mix in mixes {
        for policy in &policies {
            jobs.extend(seeds.iter().map(|seed| (mix, policy, *seed)));
        }
    }
    let end = usize::try_from(ARRIVALS).unwrap_or_default();
    let allocated = experiment::all(
        &jobs,
        |(mix, policy, seed)| experiment::run(policy, mix, *seed).map(|outcome| outcome.at(end)),
        done,
    )?;
    let mut means = allocated.chunks(seeds.len().max(1)).map(|runs| spread(runs).0);
    let mut verdicts = Vec::new();
    for mix in mixes {
        let mut next = || means.next().unwrap_or_default();
        verdicts.push(Verdict { mix: mix.name.clone(), fgd: next(), default: next(), learned: next() });
    }
    Ok(verdicts)
}

/// Whether they are to be used; else why not.
pub fn are_better(verdicts: &[Verdict]) -> Result<(), String> {
    let mean = |of: fn(&Verdict) -> f64| spread(&verdicts.iter().map(of).collect::<Vec<_>>()).0;
    let (default, learned) = (mean(|verdict| verdict.default), mean(|verdict| verdict.learned));
    if learned <= default {
        return Err(format!(
            "on average they get {learned:.3} % allocated, and the default ones {default:.3} %"
        ));
    }
    match verdicts.iter().find(|verdict| verdict.learned < verdict.fgd - MARGIN) {
        None => Ok(()),
        Some(Verdict { mix, fgd, learned, .. }) => {
            Err(format!("on {mix} they get {learned:.3} % allocated, and FGD {fgd:.3} %"))
        }
    }
}

/// The verdicts as a table.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["mix", "FGD", "default", "learned", "against FGD"]);
    for Verdict { mix, fgd, default, learned } in verdicts {
        let figures = [fgd, default, learned].map(|figure| format!("{figure:.2}"));
        table.add_row(std::iter::once(mix.clone()).chain(figures).chain([format!("{:+.2}", learned - fgd)]));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(fgd: f64, default: f64, learned: f64) -> Verdict {
        Verdict { mix: "m".to_owned(), fgd, default, learned }
    }

    #[test]
    fn weights_are_used_only_if_they_are_better_and_lose_nowhere() {
        assert_eq!(are_better(&[verdict(95.0, 95.1, 95.2), verdict(90.0, 90.1, 90.05)]), Ok(()));
        assert!(
            are_better(&[verdict(95.0, 95.1, 96.0), verdict(90.0, 90.1, 89.8)]).unwrap_err().contains("on m")
        );
        assert!(are_better(&[verdict(95.0, 95.1, 95.1)]).unwrap_err().contains("on average"));
        assert!(are_better(&[]).is_err(), "no evidence is none");
    }
}
