//! Gavel's traces: seven fields with tabs between them, and no first line. A job's time is its number of steps by the
//! steps a second that Gavel measured for it on V100s, from the `simulation_throughputs.json` beside the trace.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Job, TraceError, each_line, fields, from_seconds, gpus, seconds};

/// The table of throughputs: of a kind of GPU, of a job and its width, alone (`null`) or beside another.
#[derive(Deserialize)]
struct Throughputs {
    v100: BTreeMap<String, BTreeMap<String, Value>>,
}

pub fn read(
    text: &str,
    throughputs: &dyn Fn() -> Result<String, TraceError>,
) -> Result<Vec<Job>, TraceError> {
    let table = throughputs().map_err(|problem| {
        TraceError::Needs(format!("a trace of Gavel needs Gavel's table of throughputs beside it: {problem}"))
    })?;
    let Throughputs { v100 } = serde_json::from_str(&table)
        .map_err(|problem| TraceError::Needs(format!("Gavel's table of throughputs: {problem}")))?;
    let steps_a_second = |kind: &str, width: i64| {
        let alone = v100.get(&format!("('{kind}', {width})"))?.get("null")?.as_f64()?;
        (alone > 0.0).then_some(alone)
    };
    each_line(text.lines().enumerate(), |line, content| {
        let [kind, _, _, _, steps, arrival, width] = fields(content, '\t')?;
        let width = gpus("the scale factor", width)?;
        let steps: f64 = steps.parse().map_err(|_| format!("the steps are {steps:?}, which is no number"))?;
        let speed = steps_a_second(kind, width)
            .ok_or_else(|| format!("the table has no throughput of {kind} on {width} GPUs"))?;
        Ok(Some(Job {
            name: format!("{kind}-{line}"),
            user: String::new(),
            queue: String::new(),
            submit: seconds("the arrival", arrival)?,
            run: from_seconds(steps / speed).ok_or("the steps take too long")?.max(1),
            gpus: width,
            least: width,
        }))
    })
}
