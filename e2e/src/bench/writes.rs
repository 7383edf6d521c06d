//! How many writes a manager sent to the API server during a run.
//!
//! The API server counts requests by resource, subresource and verb, not by client, and Kueue
//! 0.19 does not export client-go's own counter. So a manager's share is what the server counted
//! less what the harness's runner is known to send: it creates the queues and the Workloads, and
//! applies one status when a Workload ends and one when it was evicted; its refused applies stand
//! in its log. Events are counted apart.

use std::collections::BTreeMap;
use std::fmt;

use super::metrics::{Sample, Samples};

/// A kind of write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// Plural resource name, `workloads`.
    pub resource: String,
    /// `status`, or empty.
    pub subresource: String,
    /// As the API server has it: `POST`, `PUT`, `PATCH`, `APPLY`, `DELETE`.
    pub verb: String,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.verb, self.resource, self.subresource)
    }
}

/// Writes of all clients together, answered by whatever code.
#[derive(Debug, Clone, Default)]
pub struct Writes(BTreeMap<Write, u64>);

/// What the runner sent of it that cannot be told from a manager's by its kind.
#[derive(Debug, Clone, Copy)]
pub struct RunnerShare {
    /// Workloads that it marked as finished.
    pub finished: u64,
    /// Evicted Workloads whose reservation it cleared.
    pub cleared: u64,
    /// Applies that the API server refused, mostly because the Workload had changed meanwhile.
    pub refused: u64,
}

impl Writes {
    /// Reads the API server's counters.
    pub fn of(samples: &Samples) -> Self {
        let mut writes = BTreeMap::new();
        for sample in samples.of("apiserver_request_total") {
            if let Some(write) = write_of(sample) {
                *writes.entry(write).or_default() += whole(sample.value);
            }
        }
        Self(writes)
    }

    /// What was written between `before` and this.
    pub fn since(&self, before: &Self) -> Self {
        let difference = self.0.iter().map(|(write, count)| {
            (write.clone(), count.saturating_sub(before.0.get(write).copied().unwrap_or_default()))
        });
        Self(difference.filter(|(_, count)| *count > 0).collect())
    }

    /// Writes of Events. The runner sends none.
    pub fn events(&self) -> u64 {
        self.0.iter().filter(|(write, _)| write.resource == "events").map(|(_, count)| count).sum()
    }

    /// The manager's share, Events apart.
    pub fn by_manager(&self, runner: RunnerShare) -> u64 {
        let candidates: u64 =
            self.0.iter().filter(|(write, _)| could_be_managers(write)).map(|(_, count)| count).sum();
        candidates.saturating_sub(runner.finished + runner.cleared + runner.refused)
    }

    /// Every kind with its count, as text.
    pub fn listed(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(write, count)| (write.to_string(), *count)).collect()
    }
}

/// The runner alone creates and deletes objects; leases are the API server's own (the managers
/// run without election), access reviews come from whoever read a metrics page.
fn could_be_managers(write: &Write) -> bool {
    let foreign = ["events", "leases", "namespaces", "nodes", "tokenreviews", "subjectaccessreviews"];
    !foreign.contains(&write.resource.as_str()) && !["POST", "DELETE"].contains(&write.verb.as_str())
}

fn write_of(sample: &Sample) -> Option<Write> {
    let verb = sample.label("verb");
    ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"].contains(&verb).then(|| Write {
        resource: sample.label("resource").to_owned(),
        subresource: sample.label("subresource").to_owned(),
        verb: verb.trim_end_matches("COLLECTION").to_owned(),
    })
}

/// A counter is a whole number, written as a float.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counters are not negative")]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(lines: &[(&str, &str, &str, &str, u64)]) -> Writes {
        let sample = |(verb, resource, subresource, code, count): &(&str, &str, &str, &str, u64)| {
            format!(
                "apiserver_request_total{{code=\"{code}\",resource=\"{resource}\",\
                 subresource=\"{subresource}\",verb=\"{verb}\"}} {count}"
            )
        };
        let page: Vec<String> = lines.iter().map(sample).collect();
        Writes::of(&Samples::parse(&page.join("\n")))
    }

    #[test]
    fn a_manager_is_charged_for_what_the_runner_did_not_send() {
        let before = writes(&[("PUT", "leases", "", "200", 3), ("POST", "namespaces", "", "201", 4)]);
        let after = writes(&[
            ("PUT", "leases", "", "200", 9),
            ("POST", "namespaces", "", "201", 34),
            ("POST", "workloads", "", "201", 100),
            ("APPLY", "workloads", "status", "200", 220),
            ("APPLY", "workloads", "status", "409", 5),
            ("PUT", "clusterqueues", "status", "200", 40),
            ("POST", "events", "", "201", 70),
            ("PATCH", "events", "", "200", 2),
            ("GET", "workloads", "", "200", 1000),
            ("DELETE", "clusterqueues", "", "200", 1),
        ]);
        let during = after.since(&before);
        assert_eq!(during.events(), 72);
        let runner = RunnerShare { finished: 100, cleared: 3, refused: 2 };
        assert_eq!(during.by_manager(runner), 220 + 5 + 40 - 105);
    }

    #[test]
    fn refused_and_accepted_writes_of_a_kind_are_one_line() {
        let listed =
            writes(&[("APPLY", "workloads", "status", "200", 2), ("APPLY", "workloads", "status", "409", 1)])
                .listed();
        assert_eq!(listed, BTreeMap::from([("APPLY workloads/status".to_owned(), 3)]));
    }

    #[test]
    fn a_runner_that_sent_more_than_was_seen_leaves_nothing() {
        let seen = writes(&[("APPLY", "workloads", "status", "200", 2)]);
        assert_eq!(seen.by_manager(RunnerShare { finished: 3, cleared: 0, refused: 0 }), 0);
    }
}
