//! A snapshot of a state gives the plan that was made from it, byte for byte.

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use whalezen_core::{plan::Plan, state::Snapshot};

/// Of a snapshot, what has to be read before the rest can be.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Reads a snapshot. One of another version is refused: its plan was made by other rules.
pub fn read(text: &str) -> Result<Snapshot> {
    let Versioned { version } =
        serde_json::from_str(text).context("this is no snapshot: it has no version")?;
    if version != Snapshot::VERSION {
        bail!("{}", other_version(version));
    }
    serde_json::from_str(text).context("the snapshot cannot be read")
}

/// What to say of a snapshot of another version.
pub fn other_version(version: u32) -> String {
    format!(
        "the snapshot has version {version} and this program reads version {}: \
         use the program that came with the operator that wrote it",
        Snapshot::VERSION
    )
}

/// A snapshot in its canonical form.
pub fn write(snapshot: &Snapshot) -> Result<String> {
    Ok(serde_json::to_string(snapshot)? + "\n")
}

/// The plan that was made from a snapshot.
pub fn replay(snapshot: &Snapshot) -> Result<String> {
    print(&snapshot.plan())
}

/// A plan in its canonical form: the order of everything in it is that of the decisions or of names, so equal plans are
/// equal bytes.
pub fn print(plan: &Plan) -> Result<String> {
    Ok(serde_json::to_string_pretty(plan)? + "\n")
}

/// Fails with the first line in which a plan differs from the one that was expected.
pub fn check(plan: &str, expected: &str) -> Result<()> {
    compare("plan", plan, expected)
}

/// Fails with the first line in which a state differs from the one that was expected.
pub fn check_state(state: &Snapshot, expected: &Snapshot) -> Result<()> {
    compare("state", &serde_json::to_string_pretty(state)?, &serde_json::to_string_pretty(expected)?)
}

fn compare(what: &str, text: &str, expected: &str) -> Result<()> {
    let differs = |(_, (line, expected)): &(usize, (&str, &str))| line != expected;
    match text.lines().zip(expected.lines()).enumerate().find(differs) {
        Some((index, (line, expected))) => {
            bail!("line {} of the {what} is\n{line}\nand not\n{expected}", index + 1)
        }
        None if text == expected => Ok(()),
        None => bail!(
            "the {what} has {} lines and not {}, the first of which are equal",
            text.lines().count(),
            expected.lines().count()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_by_name() {
        let problem = read(r#"{"version": 99, "anything": true}"#).unwrap_err().to_string();
        assert!(problem.contains("version 99"), "{problem}");
        assert!(read("{}").unwrap_err().to_string().contains("no version"));
        assert!(read("not JSON").is_err());
    }

    #[test]
    fn a_plan_that_is_another_one_is_shown_where_it_differs() {
        assert!(check("a\nb\n", "a\nb\n").is_ok());
        let problem = check("a\nb\n", "a\nc\n").unwrap_err().to_string();
        assert!(problem.contains("line 2") && problem.contains("\nb\n"), "{problem}");
        assert!(check("a\n", "a\nb\n").unwrap_err().to_string().contains("1 lines and not 2"));
        assert!(check("a\n", "a").is_err(), "bytes count");
    }
}
