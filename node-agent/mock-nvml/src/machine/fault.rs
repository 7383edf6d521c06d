//! Calls that fail or hang because somebody wants to see what happens then.

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// Which calls fail or hang, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The function's name, or the beginning of it and `*`.
    pub function: String,
    /// Calls for that GPU only, by index; without it, calls for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<usize>,
    /// How many calls pass before it begins.
    #[serde(default)]
    pub after: u64,
    /// How many calls it befalls; without it, all from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// What is answered; without it, what would have been answered anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<Refusal>,
    /// How long the call hangs before, in milliseconds.
    #[serde(default)]
    pub hang_ms: u64,
    /// How many calls it has seen, in whatever process.
    #[serde(default)]
    pub seen: u64,
}

/// What befalls one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How long it hangs, in milliseconds.
    pub hang_ms: u64,
    /// What is answered in place of the truth.
    pub returns: Option<Refusal>,
}

impl Fault {
    /// Whether the calls are of `function`, for `gpu` if they are for one.
    pub fn concerns(&self, function: &str, gpu: Option<usize>) -> bool {
        let named = match self.function.strip_suffix('*') {
            Some(beginning) => function.starts_with(beginning),
            None => function == self.function,
        };
        named && (self.gpu.is_none() || self.gpu == gpu)
    }

    /// Whether calls have to be counted to know which it befalls.
    pub fn counts(&self) -> bool {
        self.after > 0 || self.times.is_some()
    }

    /// Counts one call that it concerns, and says whether it befalls that call.
    pub fn befalls(&mut self) -> bool {
        let befalls = self.now();
        self.seen = self.seen.saturating_add(1);
        befalls
    }

    /// Whether it befalls the next call.
    pub fn now(&self) -> bool {
        self.seen >= self.after && self.times.is_none_or(|times| self.seen - self.after < times)
    }

    /// What makes it say nothing, on a machine with `gpus` GPUs and these `functions`.
    pub fn impossible(
        &self,
        gpus: usize,
        mut functions: impl Iterator<Item = &'static str>,
    ) -> Option<String> {
        let function = &self.function;
        if let Some(missing) = self.gpu.filter(|gpu| *gpu >= gpus) {
            return Some(format!("there is no GPU {missing}"));
        }
        if !functions.any(|name| self.concerns(name, self.gpu)) {
            return Some(format!("no function is called {function}"));
        }
        (self.returns.is_none() && self.hang_ms == 0)
            .then(|| format!("{function} neither returns anything nor hangs (returns, hang_ms)"))
    }
}

/// What the faults among `faults` that befall one call do to it: they hang one after another, and the first one that
/// answers is heard.
pub fn outcome<'a>(faults: impl IntoIterator<Item = &'a Fault>) -> Outcome {
    faults.into_iter().fold(Outcome::default(), |outcome, fault| Outcome {
        hang_ms: outcome.hang_ms.saturating_add(fault.hang_ms),
        returns: outcome.returns.or(fault.returns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(function: &str, gpu: Option<usize>, after: u64, times: Option<u64>) -> Fault {
        Fault {
            function: function.to_owned(),
            gpu,
            after,
            times,
            returns: Some(Refusal::Unknown),
            hang_ms: 0,
            seen: 0,
        }
    }

    #[test]
    fn a_fault_concerns_the_function_it_names_or_all_that_begin_so() {
        let table = [
            ("nvmlA", None, "nvmlA", Some(0), true),
            ("nvmlA", None, "nvmlAB", Some(0), false),
            ("nvmlA*", None, "nvmlAB", Some(0), true),
            ("*", None, "nvmlAB", None, true),
            ("nvmlA", Some(1), "nvmlA", Some(1), true),
            ("nvmlA", Some(1), "nvmlA", Some(0), false),
            ("nvmlA", Some(1), "nvmlA", None, false),
        ];
        for (name, only, function, gpu, concerns) in table {
            assert_eq!(fault(name, only, 0, None).concerns(function, gpu), concerns, "{name} {function}");
        }
    }

    #[test]
    fn a_fault_befalls_as_many_calls_as_it_says_after_as_many_as_it_says() {
        let table = [
            (0, None, [true; 5]),
            (2, None, [false, false, true, true, true]),
            (1, Some(2), [false, true, true, false, false]),
            (0, Some(0), [false; 5]),
        ];
        for (after, times, befalls) in table {
            let mut fault = fault("f", None, after, times);
            assert_eq!(std::array::from_fn::<_, 5, _>(|_| fault.befalls()), befalls, "{after} {times:?}");
        }
    }

    #[test]
    fn faults_of_one_call_hang_in_turn_and_the_first_answer_counts() {
        let hang = Fault { returns: None, hang_ms: 10, ..fault("f", None, 0, None) };
        let late = Fault { returns: Some(Refusal::InUse), hang_ms: 5, ..hang.clone() };
        let last = fault("f", None, 0, None);
        let outcome = outcome([&hang, &late, &last]);
        assert_eq!(outcome, Outcome { hang_ms: 15, returns: Some(Refusal::InUse) });
    }
}
