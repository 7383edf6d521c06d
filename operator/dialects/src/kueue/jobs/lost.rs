//! A job of which pods are lost: they are on nodes of which nothing is heard any more, so nobody will say that they are over.
//! It goes on as if they were, and its Workload says so when its quota is given back.

use super::{
    super::{admission, hosts::Lost, workload_target},
    Ending, JobView, Of, Step, Surroundings,
};
use crate::write::{Note, Target};

/// The condition of a Workload that gave its quota back although pods of it may still run on nodes of which nothing is heard.
pub const PODS_LOST: &str = "PodsLost";

impl JobView {
    /// The same without the pods that are lost. What shows itself by the number of its pods has at least the `others` on
    /// nodes: the watches of pods and of jobs do not wait for each other.
    pub fn without(self, lost: Lost) -> Self {
        if lost.pods.is_empty() {
            return self;
        }
        let count = |of: usize| i32::try_from(of).unwrap_or(i32::MAX);
        let active = self.active.saturating_sub(count(lost.pods.len())).max(count(lost.others));
        // Who rests only when the last of its pods is gone would never say so.
        let at_rest =
            self.at_rest || (self.suspended && self.active > 0 && active == 0 && self.waits_for_pods());
        let ending = self.ending.or_else(|| self.ends.clone().filter(|_| active == 0));
        Self { at_rest, active, ending, lost, ..self }
    }

    /// Whether it is its controller that says when the last of its pods is gone.
    pub fn waits_for_pods(&self) -> bool {
        self.kind.status.is_some()
    }

    /// A pod that is lost, as one that failed.
    pub fn as_lost(&self, lost: &Lost) -> Self {
        let mut pod = self.clone();
        for member in &mut pod.members {
            member.succeeded = Some(false);
        }
        let ending = Ending { succeeded: false, message: lost.message() };
        Self { suspended: true, active: 0, ending: Some(ending), lost: lost.clone(), ..pod }
    }
}

/// Pods as they are where some are lost.
pub fn as_they_are(pods: &[&JobView], lost: &Lost) -> Vec<JobView> {
    let is_lost = |pod: &JobView| {
        let Target { namespace, name, .. } = &pod.target;
        lost.pods.iter().any(|key| Some(&*key.namespace) == namespace.as_deref() && *key.name == **name)
    };
    pods.iter().map(|pod| if is_lost(pod) { pod.as_lost(lost) } else { (*pod).clone() }).collect()
}

/// Takes back what an evicted Workload holds, now that nothing runs by it that anybody could still hear of.
pub fn release(job: &JobView, of: Of<'_>, around: Surroundings<'_>) -> Step {
    let (obstacle, granular) = (around.state.obstacle(of.key), around.settings.granular_reasons);
    let lost = (!job.lost.pods.is_empty()).then(|| job.lost.message());
    let write = admission::release(of.key, of.view, obstacle, lost.as_deref(), granular, around.now);
    let note = lost.map(|message| Note {
        about: workload_target(&of.key.namespace, &of.key.name),
        uid: of.view.uid.clone(),
        warning: true,
        reason: PODS_LOST.into(),
        message,
    });
    Step::Write(Box::new(write), note)
}
