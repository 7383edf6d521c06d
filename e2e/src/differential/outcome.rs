//! What a manager made of a problem, and where two managers differ.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use jiff::Timestamp;

/// What was seen after each act.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order of the acts.
    pub steps: Vec<Step>,
}

/// What was seen after one act, once nothing moved any more.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The act.
    pub act: String,
    /// Who held quota, of which flavors, and whether it was evicted meanwhile.
    pub holders: BTreeMap<String, String>,
    /// Since when each of them holds it, in whole seconds as the API has it.
    pub since: BTreeMap<String, Timestamp>,
    /// Of those who were told to stop: for whom.
    pub preemptors: BTreeMap<String, String>,
    /// Who got or lost something on the way.
    pub moves: Vec<Move>,
}

/// Somebody got or lost something.
#[derive(Clone, Debug)]
pub struct Move {
    /// How long after the act.
    pub after: Duration,
    /// Who.
    pub workload: String,
    /// What it has now; empty for nothing.
    pub to: String,
}

/// The first step at which two managers differ. What comes after it follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number, from zero.
    pub step: usize,
}

/// Where two traces differ first, if they do.
pub fn difference(one: &Trace, other: &Trace) -> Option<Difference> {
    let same = |(a, b): (&Step, &Step)| a.act == b.act && a.holders == b.holders;
    let agreed = one.steps.iter().zip(&other.steps).take_while(|&pair| same(pair)).count();
    (agreed < one.steps.len().max(other.steps.len())).then_some(Difference { step: agreed })
}

/// Both traces up to and with the step at which they differ.
pub fn beside(ours: &Trace, theirs: &Trace, difference: Difference) -> String {
    let mut text = String::new();
    for step in ours.steps.iter().take(difference.step) {
        let _ = writeln!(text, "{step}");
    }
    for (label, trace) in [("WhaleZEN", ours), ("Kueue", theirs)] {
        let _ = match trace.steps.get(difference.step) {
            Some(step) => writeln!(text, "{label}: {step}"),
            None => writeln!(text, "{label}: has no such step"),
        };
    }
    text
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.act)?;
        for Move { after, workload, to } in &self.moves {
            let to = if to.is_empty() { "nothing" } else { to };
            writeln!(f, "    {:>5} ms  {workload} -> {to}", after.as_millis())?;
        }
        let holders: Vec<_> = self.holders.iter().map(|(name, what)| format!("{name} ({what})")).collect();
        write!(f, "    hold: {}", holders.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(steps: &[(&str, &[&str])]) -> Trace {
        let step = |(act, holders): &(&str, &[&str])| Step {
            act: (*act).to_owned(),
            holders: holders.iter().map(|name| ((*name).to_owned(), "cpu".to_owned())).collect(),
            ..Step::default()
        };
        Trace { steps: steps.iter().map(step).collect() }
    }

    #[test]
    fn equal_traces_do_not_differ() {
        let one = trace(&[("submit w01", &["w01"]), ("submit w02", &["w01", "w02"])]);
        assert_eq!(difference(&one, &one.clone()), None);
    }

    #[test]
    fn the_first_difference_counts() {
        let one = trace(&[("submit w01", &["w01"]), ("submit w02", &["w01"]), ("submit w03", &[])]);
        let other = trace(&[("submit w01", &["w01"]), ("submit w02", &["w02"]), ("submit w03", &["w03"])]);
        assert_eq!(difference(&one, &other), Some(Difference { step: 1 }));
    }

    #[test]
    fn a_trace_that_goes_on_differs() {
        let one = trace(&[("submit w01", &["w01"])]);
        let other = trace(&[("submit w01", &["w01"]), ("w01 is let go", &[])]);
        assert_eq!(difference(&one, &other), Some(Difference { step: 1 }));
    }
}
