//! The Philly trace as `ElasticFlow` and Sia publish it: `timestamp,duration,num_gpus,gpu_time,cluster`.

use jiff::civil::DateTime;

use super::{Job, TraceError, each_line, fields, gpus, seconds};
use crate::engine::Millis;

/// The first line of such a file.
pub const HEADER: &str = "timestamp,duration,num_gpus,gpu_time,cluster";

pub fn read(text: &str) -> Result<Vec<Job>, TraceError> {
    each_line(text.lines().enumerate().skip(1), |line, content| {
        let [timestamp, duration, width, _, cluster] = fields(content, ',')?;
        let width = gpus("num_gpus", width)?;
        Ok(Some(Job {
            name: format!("{cluster}-{line}"),
            user: String::new(),
            queue: cluster.to_owned(),
            submit: moment(timestamp)?,
            // A job is an event at least: the trace has some of no time at all.
            run: seconds("duration", duration)?.max(1),
            gpus: width,
            least: width,
        }))
    })
}

fn moment(text: &str) -> Result<Millis, String> {
    let at: DateTime =
        text.parse().map_err(|_| format!("timestamp is {text:?}, which is no date and time"))?;
    let since = at.duration_since(DateTime::constant(2000, 1, 1, 0, 0, 0, 0));
    Millis::try_from(since.as_millis()).map_err(|_| format!("timestamp is {text:?}, out of range"))
}
