//! What the mock asks of the real machine: the time, who it runs for, and which processes are alive.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};

use crate::machine::client::Client;

/// Milliseconds since the host started. All of its processes see the same, and nobody can set it.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000).saturating_add(part(time.tv_nsec) / 1_000_000)
}

/// Microseconds since 1970, as NVML stamps what it measures.
pub fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The command that a process runs.
pub fn command(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|byte| *byte == 0).next().filter(|first| !first.is_empty())?;
    Some(String::from_utf8_lossy(first).into_owned())
}

/// When a process started, in the kernel's ticks since the host did; none if it is not there or dead already.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, and ends at the last parenthesis. What follows is field 3 and on.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether the process of a client is still there, and not another one with its number.
pub fn is_alive(client: &Client) -> bool {
    started(client.pid) == Some(client.started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_alive_until_it_ends_even_if_nobody_has_waited_for_it() {
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let begun = started(child.id()).unwrap();
        assert!(begun >= started(std::process::id()).unwrap());
        drop(child.stdin.take());
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
    }
}
