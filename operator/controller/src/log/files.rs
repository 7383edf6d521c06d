//! The files of a log: one after another, each appended to until it is large enough, the oldest removed.
//!
//! Those that are read grow while they are read; what is no whole line yet is skipped. (The ready-made crates for
//! rotation depend on a second library for time, which this workspace refuses.)

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::Serialize;
use whalezen_decisions::{
    file::Kind,
    line::{self, Line},
};

/// How much of a log is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From how many bytes on a file is followed by the next.
    pub bytes: u64,
    /// How many files.
    pub files: usize,
}

/// The files of a log, open at their end.
pub struct Files {
    folder: PathBuf,
    kind: Kind,
    limits: Limits,
    number: u64,
    file: File,
    bytes: u64,
    /// From how many bytes on this file is to be followed by the next.
    full_at: u64,
    /// Whether the file may end with half a line.
    torn: bool,
}

impl Files {
    /// Goes on where the log ends.
    pub fn open(folder: PathBuf, kind: Kind, limits: Limits) -> io::Result<Self> {
        let number = numbers(&folder, kind)?.last().copied().unwrap_or(1);
        let (file, bytes, torn) = append_to(&path(&folder, kind, number))?;
        Ok(Self { folder, kind, limits, number, file, bytes, full_at: limits.bytes, torn })
    }

    /// Whether the next line should be in the next file.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.full_at
    }

    /// Appends a line.
    pub fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        // One write for a line, with what ends half a one before it.
        let mut text = if self.torn { b"\n".to_vec() } else { Vec::new() };
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        self.torn = true;
        self.file.write_all(&text)?;
        self.torn = false;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Appends a line from which a reader can begin. It may be as large as all lines after it until the file is full:
    /// otherwise large ones would leave no room for those. Older files make room for it.
    pub fn append_beginning(&mut self, line: &impl Serialize) -> io::Result<()> {
        let before = self.bytes;
        self.append(line)?;
        let all = self.limits.bytes.saturating_mul(self.limits.files as u64);
        self.full_at = (before + 2 * (self.bytes - before)).min(all).max(self.limits.bytes);
        let mut room = all - (self.full_at - self.limits.bytes);
        for number in numbers(&self.folder, self.kind)?.into_iter().rev().skip(1) {
            let path = path(&self.folder, self.kind, number);
            let left = room.checked_sub(fs::metadata(&path)?.len());
            if left.is_none() {
                fs::remove_file(path)?;
            }
            room = left.unwrap_or_default();
        }
        Ok(())
    }

    /// Begins the next file.
    pub fn begin_next(&mut self) -> io::Result<()> {
        let next = path(&self.folder, self.kind, self.number + 1);
        (self.file, self.bytes, self.torn) = append_to(&next)?;
        self.number += 1;
        self.full_at = self.limits.bytes;
        let numbers = numbers(&self.folder, self.kind)?;
        let too_many = numbers.len().saturating_sub(self.limits.files.max(1));
        let mut oldest = numbers.iter().take(too_many);
        oldest.try_for_each(|number| fs::remove_file(path(&self.folder, self.kind, *number)))
    }
}

fn path(folder: &Path, kind: Kind, number: u64) -> PathBuf {
    folder.join(kind.name(number))
}

/// The numbers of the files that there are, the oldest first.
fn numbers(folder: &Path, kind: Kind) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| kind.number(name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A file to append to, its size, and whether it ends with half a line.
fn append_to(path: &Path) -> io::Result<(File, u64, bool)> {
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
    let bytes = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if bytes > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, bytes, last != [b'\n']))
}

/// What somebody wants to read of a log.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of this namespace only.
    pub namespace: Option<String>,
    /// Whether the reader may see all namespaces.
    pub sees_all: bool,
    /// Not from before this moment.
    pub since: Option<Timestamp>,
    /// The last so many of these.
    pub limit: usize,
}

/// The wanted lines in the order in which they were written, as text.
pub fn wanted(folder: &Path, wanted: &Wanted) -> io::Result<String> {
    let mut lines = VecDeque::new();
    for number in numbers(folder, Kind::Decisions)?.into_iter().rev() {
        let text = match fs::read(path(folder, Kind::Decisions, number)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // It was removed since.
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => break,
            Err(problem) => return Err(problem),
        };
        for line in line::read(&text).rev() {
            if wanted.since.is_some_and(|since| line.at < since) {
                return Ok(lines.into_iter().collect());
            }
            if lines.len() == wanted.limit {
                break;
            }
            if let Some(line) = shown(line, wanted) {
                let mut text = serde_json::to_string(&line)?;
                text.push('\n');
                lines.push_front(text);
            }
        }
        if lines.len() == wanted.limit {
            break;
        }
    }
    Ok(lines.into_iter().collect())
}

fn shown(line: Line, wanted: &Wanted) -> Option<Line> {
    match &wanted.namespace {
        Some(namespace) if wanted.sees_all => line.concerns(namespace).then_some(line),
        Some(namespace) => line.seen_from(namespace),
        None => wanted.sees_all.then_some(line),
    }
}
