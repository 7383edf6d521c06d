//! The names of a log's files: the kind, and a number that is the higher the later the file.

/// What the files of a log hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [Decisions](crate::line).
    Decisions,
    /// The [journal](crate::journal).
    Journal,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Decisions => "decisions-",
            Self::Journal => "journal-",
        }
    }

    /// The name of the file of this number.
    pub fn name(self, number: u64) -> String {
        format!("{}{number:08}{SUFFIX}", self.prefix())
    }

    /// The number of the file of this name, if it is one of this kind.
    pub fn number(self, name: &str) -> Option<u64> {
        name.strip_prefix(self.prefix())?.strip_suffix(SUFFIX)?.parse().ok()
    }
}

const SUFFIX: &str = ".jsonl";
