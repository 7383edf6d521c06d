//! A linear program with its duals.
//!
//! The solver tells no duals. So the dual program is solved too, and the two answers are held against each other: where they are
//! equal both are optimal (strong duality), and where they are not that is an error and no answer.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use thiserror::Error;

/// The sum of some variables, each times a factor, is no more than a bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Variables by number, with their factors; each once.
    pub terms: Vec<(usize, f64)>,
    /// What the sum may be at most.
    pub bound: f64,
}

/// Make the sum of all variables times their gain as large as possible; none is below zero.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Linear {
    /// What each variable gains.
    pub gain: Vec<f64>,
    /// What holds them back.
    pub rows: Vec<Row>,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Solved {
    /// What is gained.
    pub value: f64,
    /// The variables.
    pub at: Vec<f64>,
    /// For each row by how much more would be gained if its bound were larger by one. Where several answers are right, one of them.
    pub duals: Vec<f64>,
}

/// Why there is no answer.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum LinearError {
    /// The solver found none.
    #[error("there is no solution: {0}")]
    Unsolved(String),
    /// The two programs disagree: one of the answers is wrong.
    #[error("the program gains {0}, and by its dual it gains {1}")]
    Gap(f64, f64),
    /// A row speaks of a variable that is not there.
    #[error("there is no variable {0}")]
    Variable(usize),
}

/// The two answers may differ by this part.
const TOLERANCE: f64 = 1e-6;

impl Linear {
    /// Solves it and its dual.
    pub fn solve(&self) -> Result<Solved, LinearError> {
        let (value, at) = self.primal()?;
        let (dual, duals) = self.dual()?;
        if (value - dual).abs() > TOLERANCE * value.abs().max(1.0) {
            return Err(LinearError::Gap(value, dual));
        }
        Ok(Solved { value, at, duals })
    }

    fn primal(&self) -> Result<(f64, Vec<f64>), LinearError> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let variables: Vec<Variable> =
            self.gain.iter().map(|gain| problem.add_var(*gain, (0.0, f64::INFINITY))).collect();
        for row in &self.rows {
            let mut terms = Vec::new();
            for (index, factor) in &row.terms {
                terms.push((*variables.get(*index).ok_or(LinearError::Variable(*index))?, *factor));
            }
            problem.add_constraint(&terms, ComparisonOp::Le, row.bound);
        }
        solved(&problem, &variables)
    }

    fn dual(&self) -> Result<(f64, Vec<f64>), LinearError> {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let variables: Vec<Variable> =
            self.rows.iter().map(|row| problem.add_var(row.bound, (0.0, f64::INFINITY))).collect();
        let mut columns: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.gain.len()];
        for (row, dual) in self.rows.iter().zip(&variables) {
            for (index, factor) in &row.terms {
                columns.get_mut(*index).ok_or(LinearError::Variable(*index))?.push((*dual, *factor));
            }
        }
        for (column, gain) in columns.iter().zip(&self.gain) {
            problem.add_constraint(column, ComparisonOp::Ge, *gain);
        }
        solved(&problem, &variables)
    }
}

fn solved(problem: &Problem, variables: &[Variable]) -> Result<(f64, Vec<f64>), LinearError> {
    let outcome = problem.solve().map_err(|problem| LinearError::Unsolved(problem.to_string()))?;
    let solution =
        outcome.into_solution().map_err(|_| LinearError::Unsolved("it was not finished".to_owned()))?;
    let values = variables.iter().map(|variable| solution.var_value(*variable).max(0.0)).collect();
    Ok((solution.objective(), values))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(terms: &[f64], bound: f64) -> Row {
        Row { terms: terms.iter().copied().enumerate().collect(), bound }
    }

    fn near(left: &[f64], right: &[f64]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(a, b)| (a - b).abs() < 1e-6)
    }

    #[test]
    fn duals_are_what_they_are_by_hand() {
        // Two products and three machines (Hillier and Lieberman's factory): 2 and 6 are made, the first machine is idle at times.
        let rows = vec![row(&[1.0, 0.0], 4.0), row(&[0.0, 2.0], 12.0), row(&[3.0, 2.0], 18.0)];
        let solved = Linear { gain: vec![3.0, 5.0], rows }.solve().unwrap();
        assert!((solved.value - 36.0).abs() < 1e-6);
        assert!(near(&solved.at, &[2.0, 6.0]), "{solved:?}");
        assert!(near(&solved.duals, &[0.0, 1.5, 1.0]), "{solved:?}");
        // Ten of one thing, worth two each: one more is worth two.
        let solved = Linear { gain: vec![2.0], rows: vec![row(&[1.0], 10.0)] }.solve().unwrap();
        assert!(near(&[solved.value], &[20.0]) && near(&solved.duals, &[2.0]));
    }

    #[test]
    fn what_has_no_end_or_no_beginning_is_an_error() {
        assert!(matches!(
            Linear { gain: vec![1.0], rows: Vec::new() }.solve(),
            Err(LinearError::Unsolved(_))
        ));
        let never = Linear { gain: vec![1.0], rows: vec![row(&[1.0], -1.0)] };
        assert!(matches!(never.solve(), Err(LinearError::Unsolved(_))));
        let strange = Linear { gain: vec![1.0], rows: vec![row(&[1.0, 1.0], 1.0)] };
        assert_eq!(strange.solve(), Err(LinearError::Variable(1)));
    }

    proptest! {
        #[test]
        fn a_bound_that_is_larger_gains_no_more_than_its_dual_says(
            gain in prop::collection::vec(0_i32..20, 3),
            rows in prop::collection::vec((prop::collection::vec(1_i32..9, 3), 1_i32..50), 1..4),
            which in 0_usize..4,
        ) {
            let gain = gain.into_iter().map(f64::from).collect();
            let rows: Vec<Row> = rows
                .into_iter()
                .map(|(terms, bound)| row(&terms.into_iter().map(f64::from).collect::<Vec<_>>(), f64::from(bound)))
                .collect();
            let which = which % rows.len();
            let program = Linear { gain, rows };
            let solved = program.solve().unwrap();
            let mut wider = program.clone();
            wider.rows[which].bound += 1.0;
            let more = wider.solve().unwrap().value - solved.value;
            prop_assert!(more <= solved.duals[which] + 1e-6);
            // What is not used up is worth nothing (complementary slackness).
            for (row, dual) in program.rows.iter().zip(&solved.duals) {
                let used: f64 = row.terms.iter().map(|(index, factor)| factor * solved.at[*index]).sum();
                prop_assert!(dual * (row.bound - used) < 1e-5);
            }
        }
    }
}
