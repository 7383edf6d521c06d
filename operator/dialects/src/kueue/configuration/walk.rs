//! Every field of a file is looked up by its path: what is unknown or refused is a problem, what is ignored a warning.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Problem, Version, Warnings,
    fields::{Treatment, fields},
};

struct Walk<'a> {
    known: BTreeMap<&'static str, Treatment>,
    problems: Vec<Problem>,
    warnings: &'a mut Warnings,
}

/// Looks up all fields, and gives those that are unknown or refused.
pub(super) fn walk(file: &Value, version: Version, warnings: &mut Warnings) -> Vec<Problem> {
    let known = fields(version).copied().collect();
    let mut walk = Walk { known, problems: Vec::new(), warnings };
    walk.object(file, "", "");
    walk.problems
}

impl Walk<'_> {
    /// `path` is the one of the list of fields, `place` the one in this file.
    fn object(&mut self, value: &Value, path: &str, place: &str) {
        let Value::Object(members) = value else {
            self.problems.push(Problem::new(place, "must have fields of its own"));
            return;
        };
        for (name, member) in members {
            let under =
                |before: &str| if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
            self.member(member, &under(path), under(place));
        }
    }

    fn member(&mut self, value: &Value, path: &str, place: String) {
        match self.known.get(path).copied() {
            Some(Treatment::Honoured) => {}
            Some(_) if is_unset(value) => {}
            Some(Treatment::Ignored(why)) => self.warnings.add(why, place),
            Some(Treatment::Refused(what)) => {
                self.problems.push(Problem::new(place, format!("cannot be honoured: {what}")));
            }
            None if self.is_before(path, '.') => {
                if !value.is_null() {
                    self.object(value, path, &place);
                }
            }
            None if self.is_before(path, '[') => match value {
                Value::Null => {}
                Value::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        self.object(item, &format!("{path}[]"), &format!("{place}[{index}]"));
                    }
                }
                _ => self.problems.push(Problem::new(place, "must be a list")),
            },
            None => self.problems.push(Problem::new(place, "unknown field")),
        }
    }

    /// Whether there are fields below this path, after this mark.
    fn is_before(&self, path: &str, mark: char) -> bool {
        self.known.keys().any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with(mark)))
    }
}

/// Whether a value is what the field has when it is left out.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
