//! Alibaba's openb pod lists of the FGD paper. Pods without a GPU are left out, and a part of a GPU counts as one: the
//! temporal half of the simulator knows whole GPUs only (`whalezen-sim fgd` knows the parts).

use super::{Job, TraceError, each_line, fields, gpus, seconds};

/// The first line of such a file.
pub const HEADER: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time";

pub fn read(text: &str) -> Result<Vec<Job>, TraceError> {
    each_line(text.lines().enumerate().skip(1), |_, content| {
        let [name, _, _, width, _, _, qos, _, created, deleted, scheduled] = fields(content, ',')?;
        if width == "0" {
            return Ok(None);
        }
        let submit = seconds("creation_time", created)?;
        let end = seconds("deletion_time", deleted)?;
        // What waited for a node did not run yet; a pod that was never scheduled has no such time.
        let start = if scheduled.is_empty() { submit } else { seconds("scheduled_time", scheduled)? };
        let width = gpus("num_gpu", width)?;
        Ok(Some(Job {
            name: name.to_owned(),
            user: String::new(),
            queue: qos.to_owned(),
            submit,
            run: (end - start.max(submit)).max(1),
            gpus: width,
            least: width,
        }))
    })
}
