//! Whether a Workload is still about the pods of its job.

use super::{super::pods::Pods, JobView, Of, group};

/// Whether the Workload is still about these pods. What admission itself changes in the template is not compared
/// while it is there.
pub fn matches(job: &JobView, of: Of<'_>) -> bool {
    let (Ok(pods), Ok(sets)) = (&job.pods, &of.view.pods) else {
        return job.pods.is_err() && of.view.pods.is_err();
    };
    if job.group.is_some() {
        return group::matches(job, pods, sets, of);
    }
    let demands_count = job.suspended && job.injected.is_none();
    let size = |pods: &Pods, set: &Pods| {
        let given = given_size(pods, of);
        // Until it is started, and again after it was stopped, a job that makes do with fewer pods asks for all.
        Some(pods.count) == given
            || (pods.count == set.count && (given.is_none() || !runs_by(job, of)))
            // An elastic job may have any number, and its Workloads follow. What serves goes on with what it has.
            || ((job.elastic.is_some() || job.kind.serves.is_some()) && of.workload.admission().is_some())
    };
    let same = |(pods, set): (&Pods, &Pods)| {
        size(pods, set)
            && pods.min_count == set.min_count
            && pods.template.asks_as(&set.template)
            && (!demands_count || pods.template.demand == set.template.demand)
    };
    pods.len() == sets.len() && pods.iter().zip(sets.iter()).all(same)
}

/// With how many pods a job is to run that may run with fewer than it asks for.
fn given_size(pods: &Pods, of: Of<'_>) -> Option<u32> {
    pods.min_count?;
    let given = of.workload.admission()?.pod_sets.iter().find(|set| set.name == pods.name)?;
    Some(given.count)
}

/// Whether a job runs, and was started by this Workload.
fn runs_by(job: &JobView, of: Of<'_>) -> bool {
    !job.suspended && job.injected.as_deref() == Some(of.view.mark(of.key))
}

/// The number of pods that a job has to be given because it has another.
pub fn resized(job: &JobView, of: Of<'_>) -> Option<u32> {
    let pods = job.pods.as_ref().ok()?.first()?;
    given_size(pods, of).filter(|given| *given != pods.count)
}
