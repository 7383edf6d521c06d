//! Large problems in parts (POP, Narayanan et al., SOSP 2021): the demands are dealt out at random, each part has an equal
//! share of every model and cap, and the answers are put together. What is lost is little for throughput, and more for the worst-off.

use crate::plan::{Aim, PlanError, Problem, TimePlan, plan, plan_share};

/// Above so many demands a problem is split.
pub const SPLIT_ABOVE: usize = 500;

/// Plans it, in as few parts as have no more than `most` demands each ([`SPLIT_ABOVE`] is a good number). The same problem is split alike every time.
pub fn plan_in_parts(problem: &Problem, aim: Aim, most: usize) -> Result<TimePlan, PlanError> {
    problem.check()?;
    let parts = problem.demand.len().div_ceil(most.max(1));
    if parts <= 1 {
        return plan(problem, aim);
    }
    let count = u32::try_from(parts).unwrap_or(u32::MAX);
    // Dealt out in the order of a hash of the place: neighbours, who are often alike, come to different parts.
    let mut order: Vec<usize> = (0..problem.demand.len()).collect();
    order.sort_by_key(|place| (scramble(*place), *place));
    let mut whole = TimePlan {
        fractions: vec![Vec::new(); problem.demand.len()],
        duals: vec![0.0; problem.supply.len()],
        ..TimePlan::default()
    };
    for part in 0..parts {
        let places: Vec<usize> = order.iter().copied().skip(part).step_by(parts).collect();
        let demand = places.iter().filter_map(|place| problem.demand.get(*place)).cloned().collect();
        let share = Problem { demand, supply: problem.supply.clone(), caps: problem.caps.clone() };
        let planned = plan_share(&share, aim, count)?;
        whole.throughput += planned.throughput;
        for (sum, dual) in whole.duals.iter_mut().zip(&planned.duals) {
            // Each part has an equal share of the GPUs, so each of its duals counts alike.
            *sum += dual / f64::from(count);
        }
        for (place, fractions) in places.into_iter().zip(planned.fractions) {
            if let Some(whole) = whole.fractions.get_mut(place) {
                *whole = fractions;
            }
        }
    }
    whole.worst = problem.worst(&whole.fractions);
    Ok(whole)
}

/// The steps of `SplitMix64`.
fn scramble(place: usize) -> u64 {
    let mixed = u64::try_from(place).unwrap_or_default().wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Cap, Demand, Supply};

    /// As many small demands, none of which is much of the cluster.
    fn many(count: u32) -> Problem {
        let models = ["a", "b", "c"];
        let supply: Vec<Supply> =
            models.iter().map(|model| Supply { model: (*model).into(), gpus: 2 * count }).collect();
        let demand = |at: u32| {
            let speed = |model: u32| (at * 7 + model * 13).wrapping_mul(2_654_435_761) % 1900 + 100;
            let speeds = models.iter().zip(0..).map(|(model, index)| (Arc::from(*model), speed(index)));
            Demand {
                queue: if at.is_multiple_of(2) { "even".into() } else { "odd".into() },
                jobs: 1 + at % 3,
                gpus: 1 << (at % 4),
                weight: 1 + at % 2,
                speeds: speeds.collect(),
            }
        };
        let cap = Cap { queue: "even".into(), model: "a".into(), gpus: count };
        Problem { supply, demand: (0..count).map(demand).collect(), caps: vec![cap] }
    }

    #[test]
    fn parts_lose_little_and_give_nothing_twice() {
        let problem = many(96);
        for (aim, keeps) in [(Aim::Throughput, 0.95), (Aim::MaxMin, 0.9)] {
            let whole = plan(&problem, aim).unwrap();
            let split = plan_in_parts(&problem, aim, 24).unwrap();
            assert!(
                split.throughput >= keeps * whole.throughput,
                "{} of {}",
                split.throughput,
                whole.throughput
            );
            for (model, supply) in problem.supply.iter().enumerate() {
                let used = |only: Option<&str>| -> f64 {
                    let demand = problem.demand.iter().zip(&split.fractions);
                    let demand =
                        demand.filter(|(demand, _)| only.is_none_or(|queue| *demand.queue == *queue));
                    demand
                        .map(|(demand, times)| times[model] * f64::from(demand.jobs) * f64::from(demand.gpus))
                        .sum()
                };
                assert!(used(None) <= f64::from(supply.gpus) + 1e-6);
                assert!(model > 0 || used(Some("even")) <= 96.0 + 1e-6);
            }
            for (one, other) in whole.prices(&problem.supply).iter().zip(split.prices(&problem.supply)) {
                assert!(one.1.abs_diff(other.1) < 250, "{one:?} and {other:?}");
            }
            assert_eq!(split, plan_in_parts(&problem, aim, 24).unwrap(), "and is the same every time");
        }
    }

    #[test]
    fn what_is_small_is_planned_whole() {
        let problem = many(8);
        assert_eq!(plan_in_parts(&problem, Aim::Throughput, 8), plan(&problem, Aim::Throughput));
        assert_eq!(plan_in_parts(&Problem::default(), Aim::MaxMin, 0).unwrap(), TimePlan::default());
    }
}
