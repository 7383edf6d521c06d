//! Our own format, as CSV or as JSON lines.
//!
//! ```text
//! name,user,queue,submit_s,run_s,gpus,least_gpus
//! resnet-7,ana,vision,120,3600.5,8,8
//! ```
//!
//! ```text
//! {"name":"resnet-7","user":"ana","queue":"vision","submit_s":120,"run_s":3600.5,"gpus":8,"least_gpus":8}
//! ```
//!
//! Times are seconds, to the millisecond. `run_s` is the time on all `gpus`; a job whose `least_gpus` is less runs on
//! fewer as well, more slowly in proportion. In JSON `user`, `queue` and `least_gpus` may be left out. Fields have no
//! commas and no quotes in CSV; empty lines and those that begin with `#` are passed over.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Job, Trace, TraceError, each_line, fields, from_seconds, gpus};
use crate::figures::in_seconds;

const HEADER: &str = "name,user,queue,submit_s,run_s,gpus,least_gpus";
/// What the first line of the CSV begins with.
pub(super) const HEADER_START: &str = "name,user,queue,";

/// A job as a line says it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    queue: String,
    submit_s: f64,
    run_s: f64,
    gpus: i64,
    least_gpus: Option<i64>,
}

impl Line {
    fn job(self) -> Result<Job, String> {
        let time = |what: &str, value: f64| {
            from_seconds(value).ok_or_else(|| format!("{what} is {value}, which is out of range"))
        };
        let width = gpus("gpus", &self.gpus.to_string())?;
        let least = gpus("least_gpus", &self.least_gpus.unwrap_or(width).to_string())?;
        if least > width {
            return Err(format!("least_gpus is {least}, which is more than the {width} that it asks for"));
        }
        let submit = time("submit_s", self.submit_s)?;
        let run = time("run_s", self.run_s)?.max(1);
        Ok(Job { name: self.name, user: self.user, queue: self.queue, submit, run, gpus: width, least })
    }
}

pub(super) fn read_csv(text: &str) -> Result<Vec<Job>, TraceError> {
    let mut header = false;
    each_line(text.lines().enumerate(), |_, content| {
        if !std::mem::replace(&mut header, true) {
            let is_ours = content.trim_end() == HEADER;
            return if is_ours { Ok(None) } else { Err(format!("the columns are to be {HEADER}")) };
        }
        let [name, user, queue, submit, run, width, least] = fields(content, ',')?;
        let number = |what: &str, text: &str| -> Result<f64, String> {
            text.parse().map_err(|_| format!("{what} is {text:?}, which is no number"))
        };
        let line = Line {
            name: name.to_owned(),
            user: user.to_owned(),
            queue: queue.to_owned(),
            submit_s: number("submit_s", submit)?,
            run_s: number("run_s", run)?,
            gpus: gpus("gpus", width)?,
            least_gpus: Some(gpus("least_gpus", least)?),
        };
        line.job().map(Some)
    })
}

pub(super) fn read_json_lines(text: &str) -> Result<Vec<Job>, TraceError> {
    each_line(text.lines().enumerate(), |_, content| {
        serde_json::from_str::<Line>(content).map_err(|problem| problem.to_string())?.job().map(Some)
    })
}

/// A trace as our CSV.
pub fn write_csv(trace: &Trace) -> String {
    let mut text = format!("{HEADER}\n");
    for Job { name, user, queue, submit, run, gpus, least } in trace.jobs() {
        let (submit, run) = (in_seconds(*submit), in_seconds(*run));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name},{user},{queue},{submit},{run},{gpus},{least}");
    }
    text
}

/// A trace as JSON lines.
pub fn write_json_lines(trace: &Trace) -> serde_json::Result<String> {
    let mut text = String::new();
    for Job { name, user, queue, submit, run, gpus, least } in trace.jobs() {
        let line = Line {
            name: name.clone(),
            user: user.clone(),
            queue: queue.clone(),
            submit_s: in_seconds(*submit),
            run_s: in_seconds(*run),
            gpus: *gpus,
            least_gpus: Some(*least),
        };
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    Ok(text)
}
