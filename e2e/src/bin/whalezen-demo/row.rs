//! One job as somebody who waits for it sees it: a pure function of what the API server says.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use whalezen_crds::kueue::v1beta2::Workload;

/// A job's line in the display.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub namespace: String,
    pub name: String,
    /// GPUs of all of its pods together.
    pub gpus: i64,
    pub state: State,
    /// GPUs of the quota that its Workload holds: pods that have done their work hold none.
    pub held: i64,
    /// Whether its Workload has been evicted.
    pub evicted: bool,
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has no Workload yet.
    Submitted,
    /// It has no quota, for this reason.
    Waiting(String),
    /// It is admitted, and not all of its pods have a node yet.
    Starting,
    /// All of its pods have run on, or run on, these nodes.
    Running(BTreeSet<String>),
    Finished,
    Failed(String),
}

impl Row {
    /// Reads a job, its Workload and its pods.
    pub fn of(job: &Job, workload: Option<&Workload>, pods: &[&Pod]) -> Self {
        let conditions =
            workload.and_then(|workload| workload.status.as_ref()).map(|status| &*status.conditions);
        let conditions = conditions.unwrap_or_default();
        let finished = is_true(conditions, "Finished");
        Self {
            namespace: job.metadata.namespace.clone().unwrap_or_default(),
            name: job.metadata.name.clone().unwrap_or_default(),
            gpus: gpus(job),
            state: state(job, workload, conditions, pods),
            held: if is_true(conditions, "QuotaReserved") && !finished { held(job, workload) } else { 0 },
            evicted: is_true(conditions, "Evicted"),
        }
    }
}

/// GPUs of the pods that have not done their work.
fn held(job: &Job, workload: Option<&Workload>) -> i64 {
    let status = workload.and_then(|workload| workload.status.as_ref());
    let done = status.into_iter().flat_map(|status| &status.reclaimable_pods).map(|set| i64::from(set.count));
    let pods = parallelism(job).max(1);
    gpus(job) / pods * (pods - done.sum::<i64>()).max(0)
}

fn state(job: &Job, workload: Option<&Workload>, conditions: &[Condition], pods: &[&Pod]) -> State {
    if workload.is_none() {
        return State::Submitted;
    }
    if is_true(conditions, "Finished") {
        return failure(job).map_or(State::Finished, State::Failed);
    }
    if is_true(conditions, "Admitted") {
        let nodes = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        let nodes: Vec<String> = nodes.collect();
        let pods = usize::try_from(parallelism(job)).unwrap_or_default();
        if nodes.len() < pods {
            return State::Starting;
        }
        return State::Running(nodes.into_iter().collect());
    }
    let reserved = find(conditions, "QuotaReserved");
    State::Waiting(reserved.map_or_else(|| "queued".to_owned(), |condition| condition.message.clone()))
}

fn failure(job: &Job) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let failed =
        conditions.iter().find(|condition| condition.type_ == "Failed" && condition.status == "True")?;
    Some(failed.message.clone().unwrap_or_default())
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

fn parallelism(job: &Job) -> i64 {
    i64::from(job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or(1))
}

fn gpus(job: &Job) -> i64 {
    let containers =
        job.spec.iter().filter_map(|spec| spec.template.spec.as_ref()).flat_map(|pod| &pod.containers);
    let limits = containers.filter_map(|container| container.resources.as_ref()?.limits.as_ref());
    let each = limits.filter_map(|limits| limits.get("nvidia.com/gpu")?.0.parse::<i64>().ok());
    each.sum::<i64>() * parallelism(job)
}

/// Where a job runs, short enough for a line: `a100-3`, or `a100-0 to a100-7 (8 nodes)`.
pub fn place(nodes: &BTreeSet<String>) -> String {
    match (nodes.first(), nodes.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last} ({} nodes)", nodes.len()),
        (Some(only), _) => only.clone(),
        _ => "no node".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Job {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "team"},
            "spec": {"parallelism": 2, "template": {"spec": {"containers": [
                {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}},
        }))
        .unwrap()
    }

    fn workload(conditions: &[(&str, &str, &str)]) -> Workload {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(kind, status, message)| {
                json!({"type": kind, "status": status, "message": message, "reason": "R",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "job-a"}, "spec": {"podSets": []}, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn pod(node: Option<&str>) -> Pod {
        serde_json::from_value(json!({"spec": {"containers": [], "nodeName": node}})).unwrap()
    }

    #[test]
    fn a_job_counts_the_gpus_of_all_its_pods() {
        assert_eq!(Row::of(&job(), None, &[]).gpus, 16);
    }

    #[test]
    fn a_job_without_a_workload_is_submitted_and_one_without_quota_says_why() {
        assert_eq!(Row::of(&job(), None, &[]).state, State::Submitted);
        let waits = workload(&[("QuotaReserved", "False", "8 more needed")]);
        assert_eq!(Row::of(&job(), Some(&waits), &[]).state, State::Waiting("8 more needed".to_owned()));
    }

    #[test]
    fn an_admitted_job_runs_once_every_pod_has_a_node() {
        let admitted = workload(&[("QuotaReserved", "True", ""), ("Admitted", "True", "")]);
        let (first, second, none) = (pod(Some("n-0")), pod(Some("n-1")), pod(None));
        let starting = Row::of(&job(), Some(&admitted), &[&first, &none]);
        assert_eq!(starting.state, State::Starting);
        assert_eq!(starting.held, 16);
        let running = Row::of(&job(), Some(&admitted), &[&first, &second]);
        assert_eq!(running.state, State::Running(["n-0".to_owned(), "n-1".to_owned()].into()));
    }

    #[test]
    fn a_finished_job_holds_no_quota_and_a_failed_one_says_why() {
        let over = workload(&[("QuotaReserved", "True", ""), ("Finished", "True", "")]);
        let row = Row::of(&job(), Some(&over), &[]);
        assert_eq!((row.state, row.held), (State::Finished, 0));
        let mut failed = job();
        failed.status = serde_json::from_value(json!({"conditions": [
            {"type": "Failed", "status": "True", "message": "too many restarts"}]}))
        .unwrap();
        let state = Row::of(&failed, Some(&over), &[]).state;
        assert_eq!(state, State::Failed("too many restarts".to_owned()));
    }

    #[test]
    fn places_are_short() {
        let nodes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(place(&nodes(&["n-3"])), "n-3");
        assert_eq!(place(&nodes(&["n-0", "n-1", "n-2"])), "n-0 to n-2 (3 nodes)");
    }
}
