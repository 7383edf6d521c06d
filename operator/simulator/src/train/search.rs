//! A search for the best point of a function that can only be tried: the separable covariance matrix adaptation evolution
//! strategy (Ros and Hansen, PPSN 2008), with the constants given there.

use crate::dice::Dice;

/// The state of a search.
#[derive(Clone, Debug)]
pub struct Search {
    mean: Vec<f64>,
    /// The variance along each axis, relative to the step.
    variances: Vec<f64>,
    step: f64,
    path: Vec<f64>,
    step_path: Vec<f64>,
    generation: i32,
    dice: Dice,
    constants: Constants,
}

#[derive(Clone, Debug)]
struct Constants {
    population: usize,
    /// What the best, the second best, and so on add to the mean.
    shares: Vec<f64>,
    /// How many they are worth.
    effective: f64,
    path: f64,
    step: f64,
    damping: f64,
    one: f64,
    many: f64,
    /// The length of a random direction.
    length: f64,
}

impl Constants {
    fn new(dimensions: usize, population: usize) -> Self {
        let n = number(dimensions);
        let parents = (population / 2).max(1);
        let middle = f64::midpoint(number(population), 1.0).ln();
        let raw: Vec<_> = (1..=parents).map(|rank| (middle - number(rank).ln()).max(1e-9)).collect();
        let sum: f64 = raw.iter().sum();
        let shares: Vec<_> = raw.iter().map(|share| share / sum).collect();
        let effective = 1.0 / shares.iter().map(|share| share * share).sum::<f64>();
        let step = (effective + 2.0) / (n + effective + 5.0);
        let one = 2.0 / ((n + 1.3).powi(2) + effective);
        let many = (2.0 * (effective - 2.0 + 1.0 / effective) / ((n + 2.0).powi(2) + effective)).max(0.0);
        // Only a diagonal is learned, which takes less evidence.
        let faster = (n + 2.0) / 3.0;
        let one = (one * faster).min(1.0);
        Self {
            population,
            shares,
            effective,
            path: (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n),
            step,
            damping: 1.0 + 2.0 * ((effective - 1.0) / (n + 1.0)).sqrt().max(1.0) - 2.0 + step,
            one,
            many: (many * faster).min(1.0 - one),
            length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

impl Search {
    /// A search from `start` on, whose first steps are about as long as `step`; at least four points a generation.
    pub fn new(start: Vec<f64>, step: f64, population: usize, seed: u64) -> Self {
        let dimensions = start.len();
        Self {
            variances: vec![1.0; dimensions],
            path: vec![0.0; dimensions],
            step_path: vec![0.0; dimensions],
            constants: Constants::new(dimensions.max(1), population.max(4)),
            mean: start,
            step,
            generation: 0,
            dice: Dice::new(seed),
        }
    }

    /// The points to try next.
    pub fn ask(&mut self) -> Vec<Vec<f64>> {
        let Self { mean, variances, step, dice, constants, .. } = self;
        let point = |_| {
            mean.iter()
                .zip(&*variances)
                .map(|(mean, variance)| mean + *step * variance.sqrt() * dice.normal())
                .collect()
        };
        (0..constants.population).map(point).collect()
    }

    /// What each of them was worth; more is better.
    pub fn tell(&mut self, points: &[Vec<f64>], worth: &[f64]) {
        let mut order: Vec<usize> = (0..points.len().min(worth.len())).collect();
        let of = |index: &usize| worth.get(*index).copied().unwrap_or(f64::MIN);
        order.sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.cmp(b)));
        let best: Vec<&Vec<f64>> = order.iter().filter_map(|index| points.get(*index)).collect();
        self.generation += 1;
        let Constants { shares, effective, path, step, damping, one, many, length, .. } = &self.constants;
        // How far the mean moves along each axis, in steps.
        let mut moved = Vec::with_capacity(self.mean.len());
        let mut spreads = Vec::with_capacity(self.mean.len());
        for (axis, mean) in self.mean.iter().enumerate() {
            let steps = || {
                best.iter()
                    .zip(shares)
                    .filter_map(|(point, share)| Some(((point.get(axis)? - mean) / self.step, share)))
            };
            moved.push(steps().map(|(distance, share)| share * distance).sum::<f64>());
            spreads.push(steps().map(|(distance, share)| share * distance * distance).sum::<f64>());
        }
        let mut square = 0.0;
        for ((own, moved), variance) in self.step_path.iter_mut().zip(&moved).zip(&self.variances) {
            *own = (1.0 - step) * *own + (step * (2.0 - step) * effective).sqrt() * moved / variance.sqrt();
            square += *own * *own;
        }
        let norm = square.sqrt();
        let grown = 1.0 - (1.0 - step).powi(2 * self.generation);
        // While the step itself is still far too short the path would only grow.
        let steady = norm / grown.sqrt() < (1.4 + 2.0 / (number(self.mean.len()) + 1.0)) * length;
        for ((((own, variance), moved), spread), mean) in
            self.path.iter_mut().zip(&mut self.variances).zip(&moved).zip(&spreads).zip(&mut self.mean)
        {
            let push = if steady { (path * (2.0 - path) * effective).sqrt() * moved } else { 0.0 };
            *own = (1.0 - path) * *own + push;
            *variance =
                ((1.0 - one - many) * *variance + one * *own * *own + many * spread).clamp(1e-12, 1e12);
            *mean += self.step * moved;
        }
        self.step *= (step / damping * (norm / length - 1.0)).min(1.0).exp();
    }

    /// Where it is.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// How long its steps are.
    pub fn step(&self) -> f64 {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The square of the distance from a point, stretched along the axes.
    fn bowl(point: &[f64]) -> f64 {
        (0..).zip(point).map(|(axis, at)| 10_f64.powi(axis % 4) * (at - 0.5).powi(2)).sum()
    }

    fn search(seed: u64) -> Vec<f64> {
        let mut search = Search::new(vec![0.0; 8], 0.3, 16, seed);
        for _ in 0..200 {
            let points = search.ask();
            let worth: Vec<_> = points.iter().map(|point| -bowl(point)).collect();
            search.tell(&points, &worth);
        }
        search.mean().to_vec()
    }

    #[test]
    fn the_bottom_of_a_stretched_bowl_is_found() {
        for seed in 1..6 {
            let found = search(seed);
            assert!(bowl(&found) < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn the_same_seed_finds_the_same_point() {
        assert_eq!(search(3), search(3));
        assert_ne!(search(3), search(4));
    }
}
