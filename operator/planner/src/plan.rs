//! On which GPU models the jobs of each queue should spend their time, and what a GPU of each is worth then.
//!
//! As in Gavel (Narayanan et al., OSDI 2020), a job divides its time between models, and a program says how: for the largest weighted throughput, or so
//! that the worst-off gets as much as possible. Jobs that are alike are one [`Demand`]: the program grows with kinds of jobs and models, not
//! with nodes. Topology and fragments are not in it: it says what is worth having, and the decision path what can be had.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::linear::{Linear, LinearError, Row};

/// GPUs of one model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Supply {
    /// The model.
    pub model: Arc<str>,
    /// How many there are.
    pub gpus: u32,
}

/// Jobs of one queue that are alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Demand {
    /// Their queue.
    pub queue: Arc<str>,
    /// How many jobs.
    pub jobs: u32,
    /// How many GPUs each has.
    pub gpus: u32,
    /// What their work is worth, or how much of it they have a right to.
    pub weight: u32,
    /// What one GPU of each model does for them, in thousandths of a compute unit. On others they do not run.
    pub speeds: BTreeMap<Arc<str>, u32>,
}

/// No more than so many GPUs of a model for a queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cap {
    /// The queue.
    pub queue: Arc<str>,
    /// The model.
    pub model: Arc<str>,
    /// How many.
    pub gpus: u32,
}

/// What is to be planned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Problem {
    /// What there is; each model once.
    pub supply: Vec<Supply>,
    /// Who wants it.
    pub demand: Vec<Demand>,
    /// What queues may have at most.
    pub caps: Vec<Cap>,
}

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Aim {
    /// The largest weighted throughput.
    Throughput,
    /// The best for the worst-off, as a part of what it would have on the average GPU, over its weight; of plans that are as good, the one with the largest
    /// weighted throughput.
    MaxMin,
}

/// Who runs where for which part of the time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TimePlan {
    /// For each demand, in its order, and each model of the supply, the part of its time that each of its jobs spends there, from 0 to 1.
    pub fractions: Vec<Vec<f64>>,
    /// What all of it does, in weighted compute units.
    pub throughput: f64,
    /// What the worst-off has of what it would have on the average GPU, over its weight. Who runs nowhere is not counted.
    pub worst: f64,
    /// What one more GPU of each model would add to the throughput.
    pub duals: Vec<f64>,
}

/// Why there is no plan.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PlanError {
    /// Two supplies of one model.
    #[error("the model {0} is there twice")]
    Twice(Arc<str>),
    /// A demand without jobs, GPUs or weight.
    #[error("a demand of queue {0} is for {1} jobs of {2} GPUs and weight {3}")]
    Demand(Arc<str>, u32, u32, u32),
    /// The solver has no answer.
    #[error(transparent)]
    Linear(#[from] LinearError),
}

/// Plans it as a whole.
pub fn plan(problem: &Problem, aim: Aim) -> Result<TimePlan, PlanError> {
    problem.check()?;
    plan_share(problem, aim, 1)
}

/// What each of so many equal parts of the cluster does with this demand.
pub(crate) fn plan_share(problem: &Problem, aim: Aim, parts: u32) -> Result<TimePlan, PlanError> {
    let program = problem.program(parts);
    let solved = match aim {
        Aim::Throughput => program.solve()?,
        Aim::MaxMin => {
            let worst = problem.with_floor(&program).solve()?.value;
            // A hair less, so that rounding does not make it impossible.
            problem.with_least(&program, worst * (1.0 - 1e-7)).solve()?
        }
    };
    let models = problem.supply.len();
    let per_job = |(times, demand): (&[f64], &Demand)| {
        times.iter().map(|time| (time / f64::from(demand.jobs)).min(1.0)).collect::<Vec<_>>()
    };
    let fractions: Vec<Vec<f64>> =
        solved.at.chunks(models.max(1)).zip(&problem.demand).map(per_job).collect();
    // The first rows are the models'.
    let duals = solved.duals.iter().take(models).copied().collect();
    Ok(TimePlan { worst: problem.worst(&fractions), throughput: solved.value, fractions, duals })
}

impl Problem {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        for (index, supply) in self.supply.iter().enumerate() {
            if self.supply.iter().take(index).any(|other| other.model == supply.model) {
                return Err(PlanError::Twice(supply.model.clone()));
            }
        }
        let wrong = |demand: &&Demand| demand.jobs == 0 || demand.gpus == 0 || demand.weight == 0;
        self.demand.iter().find(wrong).map_or(Ok(()), |demand| {
            Err(PlanError::Demand(demand.queue.clone(), demand.jobs, demand.gpus, demand.weight))
        })
    }

    /// Variables: for each demand and each model, how many of its jobs are there at a time.
    fn program(&self, parts: u32) -> Linear {
        let variable = |demand: usize, model: usize| demand * self.supply.len() + model;
        let share = |gpus: u32| f64::from(gpus) / f64::from(parts.max(1));
        let mut rows = Vec::new();
        let of = |model: usize, queue: Option<&str>| {
            let demand = self.demand.iter().enumerate();
            let demand = demand.filter(move |(_, demand)| queue.is_none_or(|queue| *demand.queue == *queue));
            demand.map(move |(index, demand)| (variable(index, model), f64::from(demand.gpus))).collect()
        };
        for (model, supply) in self.supply.iter().enumerate() {
            rows.push(Row { terms: of(model, None), bound: share(supply.gpus) });
        }
        for (index, demand) in self.demand.iter().enumerate() {
            let terms = (0..self.supply.len()).map(|model| (variable(index, model), 1.0)).collect();
            rows.push(Row { terms, bound: f64::from(demand.jobs) });
        }
        for cap in &self.caps {
            if let Some(model) = self.supply.iter().position(|supply| supply.model == cap.model) {
                rows.push(Row { terms: of(model, Some(&cap.queue)), bound: share(cap.gpus) });
            }
        }
        let gain = self.demand.iter().flat_map(|demand| {
            let speed = |supply: &Supply| f64::from(demand.weight) * demand.does(&supply.model);
            self.supply.iter().map(speed).collect::<Vec<_>>()
        });
        Linear { gain: gain.collect(), rows }
    }

    /// What a demand's jobs do together where they are, in terms of the program, and what they would do on the average GPU for as
    /// much as they have a right to. Without those that run nowhere.
    fn rights(&self) -> impl Iterator<Item = (Vec<(usize, f64)>, f64)> {
        self.demand.iter().enumerate().filter_map(|(index, demand)| {
            let average = self.average(demand);
            let does = |(model, supply): (usize, &Supply)| {
                (index * self.supply.len() + model, demand.does(&supply.model))
            };
            let does = self.supply.iter().enumerate().map(does).collect();
            let right = average * f64::from(demand.weight) * f64::from(demand.jobs);
            (average > 0.0).then_some((does, right))
        })
    }

    /// What one of these jobs would do on GPUs that are of each model as often as the cluster's are.
    fn average(&self, demand: &Demand) -> f64 {
        let all: f64 = self.supply.iter().map(|supply| f64::from(supply.gpus)).sum();
        let does = |supply: &Supply| demand.does(&supply.model) * f64::from(supply.gpus);
        if all > 0.0 { self.supply.iter().map(does).sum::<f64>() / all } else { 0.0 }
    }

    /// The same with one more variable, which nobody's part is below, and which alone is wanted.
    fn with_floor(&self, program: &Linear) -> Linear {
        let floor = program.gain.len();
        let mut rows = program.rows.clone();
        for (does, right) in self.rights() {
            let mut terms: Vec<_> = does.into_iter().map(|(variable, does)| (variable, -does)).collect();
            terms.push((floor, right));
            rows.push(Row { terms, bound: 0.0 });
        }
        // Where nobody runs at all there is no worst-off.
        rows.push(Row { terms: vec![(floor, 1.0)], bound: 1e6 });
        let mut gain = vec![0.0; floor];
        gain.push(1.0);
        Linear { gain, rows }
    }

    /// The same where nobody's part is below this.
    fn with_least(&self, program: &Linear, least: f64) -> Linear {
        let mut program = program.clone();
        for (does, right) in self.rights() {
            let terms = does.into_iter().map(|(variable, does)| (variable, -does)).collect();
            program.rows.push(Row { terms, bound: -least * right });
        }
        program
    }

    pub(crate) fn worst(&self, fractions: &[Vec<f64>]) -> f64 {
        let of = |(demand, times): (&Demand, &Vec<f64>)| {
            let does = |(supply, time): (&Supply, &f64)| demand.does(&supply.model) * time;
            let does: f64 = self.supply.iter().zip(times).map(does).sum();
            let right = self.average(demand) * f64::from(demand.weight);
            (right > 0.0).then_some(does / right)
        };
        let parts = self.demand.iter().zip(fractions).filter_map(of);
        parts
            .fold(None, |least: Option<f64>, part| Some(least.map_or(part, |least| least.min(part))))
            .unwrap_or(0.0)
    }
}

impl Demand {
    /// What one job does on a model, in compute units.
    fn does(&self, model: &str) -> f64 {
        f64::from(self.gpus) * f64::from(self.speeds.get(model).copied().unwrap_or_default()) / 1000.0
    }
}

impl TimePlan {
    /// What the score takes for the price of a GPU of each model ([`Cluster::set_price`](whalezen_core::placement::Cluster::set_price)): in thousandths of what the
    /// average GPU of the cluster adds. 0 for all where nothing is scarce.
    pub fn prices(&self, supply: &[Supply]) -> Vec<(Arc<str>, u32)> {
        let gpus: f64 = supply.iter().map(|supply| f64::from(supply.gpus)).sum();
        let worth: f64 =
            supply.iter().zip(&self.duals).map(|(supply, dual)| f64::from(supply.gpus) * dual).sum();
        let price = |dual: f64| if worth > 0.0 { thousandths(dual * gpus / worth) } else { 0 };
        supply.iter().zip(&self.duals).map(|(supply, dual)| (supply.model.clone(), price(*dual))).collect()
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the range first")]
fn thousandths(value: f64) -> u32 {
    (value * 1000.0).round().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(queue: &str, jobs: u32, gpus: u32, weight: u32, speeds: &[(&str, u32)]) -> Demand {
        let speeds = speeds.iter().map(|(model, speed)| (Arc::from(*model), *speed)).collect();
        Demand { queue: queue.into(), jobs, gpus, weight, speeds }
    }

    fn problem(supply: &[(&str, u32)], demand: Vec<Demand>) -> Problem {
        let supply =
            supply.iter().map(|(model, gpus)| Supply { model: (*model).into(), gpus: *gpus }).collect();
        Problem { supply, demand, caps: Vec::new() }
    }

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-5
    }

    /// Vision gains 2 from the fast model and 1 from the slow one, language 4 and 1; both want all there is.
    fn two_kinds() -> Problem {
        let vision = demand("vision", 8, 1, 1, &[("fast", 2000), ("slow", 1000)]);
        let language = demand("language", 8, 1, 1, &[("fast", 4000), ("slow", 1000)]);
        problem(&[("fast", 4), ("slow", 8)], vec![vision, language])
    }

    #[test]
    fn the_fast_model_goes_to_those_who_gain_the_most_and_its_price_says_so() {
        let problem = two_kinds();
        let plan = plan(&problem, Aim::Throughput).unwrap();
        assert!(near(plan.throughput, 24.0), "{plan:?}");
        assert!(near(plan.fractions[1][0], 0.5), "{plan:?}");
        // 4 GPUs at 4 and 8 at 1: the average GPU adds 2.
        assert!(near(plan.duals[0], 4.0) && near(plan.duals[1], 1.0), "{plan:?}");
        let prices = plan.prices(&problem.supply);
        assert_eq!(prices, [("fast".into(), 2000), ("slow".into(), 500)]);
    }

    #[test]
    fn what_is_not_scarce_costs_nothing() {
        let problem = problem(&[("any", 10)], vec![demand("q", 1, 4, 1, &[("any", 1000)])]);
        let plan = plan(&problem, Aim::Throughput).unwrap();
        assert!(near(plan.throughput, 4.0) && near(plan.duals[0], 0.0));
        assert_eq!(plan.prices(&problem.supply), [("any".into(), 0)]);
    }

    #[test]
    fn the_worst_off_has_as_much_as_can_be_had_for_all() {
        let problem = two_kinds();
        let fair = plan(&problem, Aim::MaxMin).unwrap();
        let greedy = plan(&problem, Aim::Throughput).unwrap();
        assert!(fair.worst >= greedy.worst - 1e-6 && fair.throughput <= greedy.throughput + 1e-6);
        // On the average GPU vision does 4/3 and language 2. With x of the fast ones swapped for slow ones, vision has (8 + x) of 32/3 and
        // language (16 - 3x) of 16, which is the same for x = 8/9.
        assert!(near(fair.worst, 5.0 / 6.0) && near(fair.throughput, 200.0 / 9.0), "{fair:?}");
        assert!(near(greedy.worst, 0.75), "{greedy:?}");
    }

    #[test]
    fn who_has_more_weight_gets_more_of_what_is_scarce() {
        let of = |weight| demand("q", 4, 1, weight, &[("any", 1000)]);
        let plan = plan(&problem(&[("any", 4)], vec![of(1), of(3)]), Aim::MaxMin).unwrap();
        assert!(near(plan.fractions[0][0], 0.25) && near(plan.fractions[1][0], 0.75), "{plan:?}");
    }

    #[test]
    fn a_queue_has_no_more_than_it_may() {
        let mut problem = two_kinds();
        problem.caps.push(Cap { queue: "language".into(), model: "fast".into(), gpus: 1 });
        problem.caps.push(Cap { queue: "language".into(), model: "unheard-of".into(), gpus: 0 });
        let plan = plan(&problem, Aim::Throughput).unwrap();
        assert!(near(plan.fractions[1][0] * 8.0, 1.0), "{plan:?}");
        assert!(near(plan.throughput, 4.0 + 6.0 + 8.0), "{plan:?}");
    }

    #[test]
    fn who_can_run_nowhere_holds_up_nobody() {
        let mut problem = two_kinds();
        problem.demand.push(demand("lost", 1, 1, 1, &[("unheard-of", 1000)]));
        let plan = plan(&problem, Aim::MaxMin).unwrap();
        assert!(plan.worst > 0.8, "{plan:?}");
    }

    #[test]
    fn nonsense_is_refused_and_nothing_is_nothing() {
        let mut twice = two_kinds();
        twice.supply.push(twice.supply[0].clone());
        assert_eq!(plan(&twice, Aim::Throughput), Err(PlanError::Twice("fast".into())));
        let none = problem(&[("any", 1)], vec![demand("q", 0, 1, 1, &[])]);
        assert!(matches!(plan(&none, Aim::MaxMin), Err(PlanError::Demand(..))));
        for aim in [Aim::Throughput, Aim::MaxMin] {
            assert!(near(plan(&Problem::default(), aim).unwrap().throughput, 0.0));
            let idle = problem(&[("any", 3)], Vec::new());
            assert!(near(plan(&idle, aim).unwrap().duals[0], 0.0));
        }
    }
}
