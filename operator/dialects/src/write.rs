//! An API write as data: what the applier sends, and what golden tests compare.

use std::borrow::Cow;

use serde_json::Value;

/// The object that a write is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The kind's plural, as it stands in URLs.
    pub plural: &'static str,
    /// The namespace, if the kind has one.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Target {
    /// The object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// How it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// A server-side apply that takes over what it names.
    Apply {
        /// The field manager.
        manager: &'static str,
    },
    /// A JSON merge patch (RFC 7396).
    Merge,
    /// A JSON patch (RFC 6902).
    Json,
    /// A deletion in the background. The body is the preconditions.
    Delete,
}

/// One write.
#[derive(Clone, PartialEq, Debug)]
pub struct Write {
    /// What is written to.
    pub target: Target,
    /// Whether it goes to the object's status.
    pub status: bool,
    /// How.
    pub verb: Verb,
    /// The object, the patch, or the preconditions.
    pub body: Value,
}

/// An Event: a note for people, written with the best effort and never waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The object it is about.
    pub about: Target,
    /// That object's uid.
    pub uid: String,
    /// Whether something is wrong.
    pub warning: bool,
    /// One word, for programs.
    pub reason: Cow<'static, str>,
    /// A sentence, for people.
    pub message: String,
}
