//! Setting a condition: one way for every object.

use jiff::Timestamp as Moment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use whalezen_core::workload::Timestamp;

/// The longest message that the API server accepts in a condition (32 KiB).
const LONGEST_MESSAGE: usize = 32 * 1024;

/// What a condition is to say.
#[derive(Clone, Copy, Debug)]
pub struct Saying<'a> {
    /// The condition's type.
    pub type_: &'a str,
    /// `True` or `False`.
    pub status: bool,
    /// One word, for programs.
    pub reason: &'a str,
    /// A sentence, for people.
    pub message: &'a str,
    /// The generation of the object that was looked at.
    pub generation: Option<i64>,
}

/// Makes `conditions` say it. The transition time changes only with the status. Says whether anything changed.
pub fn set(conditions: &mut Vec<Condition>, saying: Saying<'_>, now: Timestamp) -> bool {
    let status = if saying.status { "True" } else { "False" };
    let mut message = saying.message.to_owned();
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    let before = conditions.iter_mut().find(|condition| condition.type_ == saying.type_);
    let mut condition = Condition {
        type_: saying.type_.to_owned(),
        status: status.to_owned(),
        reason: saying.reason.to_owned(),
        message,
        observed_generation: saying.generation,
        last_transition_time: time(now),
    };
    match before {
        None => {
            conditions.push(condition);
            true
        }
        Some(before) => {
            if before.status == condition.status {
                condition.last_transition_time = before.last_transition_time.clone();
            }
            let changed = *before != condition;
            *before = condition;
            changed
        }
    }
}

/// Whether a condition of this type is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// A moment as the API writes it, in whole seconds.
pub fn time(at: Timestamp) -> Time {
    Time(Moment::from_second(at.0.div_euclid(1000)).unwrap_or_default())
}

/// A moment as the core counts it.
pub fn timestamp(at: &Time) -> Timestamp {
    Timestamp(at.0.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saying(status: bool, reason: &str) -> Saying<'_> {
        Saying { type_: "Active", status, reason, message: "m", generation: Some(1) }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = vec![];
        assert!(set(&mut conditions, saying(true, "Ready"), Timestamp(1_000)));
        assert!(!set(&mut conditions, saying(true, "Ready"), Timestamp(2_000)));
        assert!(set(&mut conditions, saying(true, "Fine"), Timestamp(3_000)));
        assert_eq!(timestamp(&conditions[0].last_transition_time), Timestamp(1_000));
        assert!(set(&mut conditions, saying(false, "Gone"), Timestamp(4_000)));
        assert_eq!(timestamp(&conditions[0].last_transition_time), Timestamp(4_000));
    }

    #[test]
    fn a_message_too_long_is_cut_at_a_character() {
        let message = "é".repeat(LONGEST_MESSAGE);
        let mut conditions = vec![];
        set(&mut conditions, Saying { message: &message, ..saying(true, "Ready") }, Timestamp(0));
        assert!(conditions[0].message.len() <= LONGEST_MESSAGE);
        assert!(conditions[0].message.ends_with("é..."));
    }
}
