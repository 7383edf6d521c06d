//! `batch/v1` Job: where things stand in it, and the patches that run it and put it back.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::PodTemplateSpec,
};
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use whalezen_crds::kueue::{
    constants::{DEFAULT_POD_SET, annotation, label},
    v1beta2::Workload,
};

use super::{
    super::pods::pods,
    Completions, Ending, JobView, Slot, build,
    kinds::JOB,
    slices,
    view::injected,
    whole::{At, Set, Standing, Whole},
    writes::{MANAGED_LABELS, put},
};

/// Where the pod template is.
const TEMPLATE: At = At::Template(Cow::Borrowed("/spec/template"));

/// The view of a Job.
pub fn view(job: &Job) -> JobView {
    let spec = job.spec.as_ref();
    let status = job.status.as_ref();
    let has = |type_: &str| {
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True").cloned()
    };
    let none = PodTemplateSpec::default();
    let template = spec.map_or(&none, |spec| &spec.template);
    let pod = template.spec.as_ref();
    let suspended = spec.and_then(|spec| spec.suspend).unwrap_or_default();
    let so_many = |count: fn(&JobStatus) -> Option<i32>| status.and_then(count).unwrap_or_default().max(0);
    let ending = |type_: &str, succeeded| {
        has(type_).map(|condition| Ending { succeeded, message: condition.message.unwrap_or_default() })
    };
    JobView {
        pod_priority_class: pod
            .and_then(|pod| pod.priority_class_name.clone())
            .filter(|name| !name.is_empty()),
        suspended,
        // Since Kubernetes 1.36 the condition is what the API server goes by, whether the job ever started or not.
        at_rest: suspended && has("Suspended").is_some(),
        active: so_many(|status| status.active).saturating_add(so_many(|status| status.terminating)),
        unready: unready(job),
        ending: ending("Complete", true).or_else(|| ending("Failed", false)),
        ends: ending("SuccessCriteriaMet", true).or_else(|| ending("FailureTarget", false)),
        pods: pods(DEFAULT_POD_SET, template, pods_count(job), min_pods_count(job))
            .map(|pods| Arc::from([pods])),
        injected: injected(template),
        slots: vec![Slot::new(template, TEMPLATE)],
        done: vec![done(job)],
        completions: completions(job),
        elastic: is_elastic(job).then(|| slices::Elastic {
            ready: so_many(|status| status.ready),
            next: build::slice_name(&JOB, &job.metadata),
        }),
        ..JobView::new(&JOB, &job.metadata)
    }
}

/// What a Job's Workload is made from.
pub fn whole(job: &Job) -> Whole {
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let set = Set {
        name: DEFAULT_POD_SET.to_owned(),
        template,
        count: pods_count(job),
        min_count: min_pods_count(job),
        ranks: JOB.ranks,
        group_count: None,
        bare: false,
        at: TEMPLATE,
    };
    Whole {
        kind: &JOB,
        metadata: job.metadata.clone(),
        sets: vec![set],
        elastic: is_elastic(job),
        standing: Standing::Job,
    }
}

/// How many of the pods that run at a time are neither ready nor have succeeded.
fn unready(job: &Job) -> i32 {
    let Some(status) = &job.status else { return pods_count(job).max(0) };
    let uncounted = status.uncounted_terminated_pods.as_ref().and_then(|pods| pods.succeeded.as_ref());
    let uncounted = uncounted.map_or(0, |pods| i32::try_from(pods.len()).unwrap_or(i32::MAX));
    let ready = status.ready.unwrap_or_default().saturating_add(status.succeeded.unwrap_or_default());
    pods_count(job).saturating_sub(ready.saturating_add(uncounted)).max(0)
}

/// How many pods run at a time: the parallelism, but no more than there are completions.
pub fn pods_count(job: &Job) -> i32 {
    let spec = job.spec.as_ref();
    let parallelism = spec.and_then(|spec| spec.parallelism).unwrap_or(1);
    spec.and_then(|spec| spec.completions).map_or(parallelism, |completions| completions.min(parallelism))
}

/// How many pods are enough, if the Job says so.
pub fn min_pods_count(job: &Job) -> Option<i32> {
    job.annotations().get(annotation::JOB_MIN_PARALLELISM)?.parse().ok()
}

/// How many completions the Job has when it gets another number of pods.
fn completions(job: &Job) -> Completions {
    let text = job.annotations().get(annotation::JOB_COMPLETIONS_EQUAL_PARALLELISM);
    // What Go takes for true.
    if text.is_some_and(|text| ["1", "t", "T", "true", "TRUE", "True"].contains(&text.as_str())) {
        Completions::AsManyAsPods
    } else {
        Completions::AsAsked
    }
}

/// Whether the Job may grow and shrink while it runs.
pub fn is_elastic(job: &Job) -> bool {
    job.annotations().get(annotation::ELASTIC_JOB).is_some_and(|text| text == "true")
}

/// The fields by which a Job runs with so many pods.
pub fn size(pods: u32, completions: Completions) -> Map<String, Value> {
    let mut fields = Map::from_iter([("parallelism".to_owned(), json!(pods))]);
    if completions == Completions::AsManyAsPods {
        fields.insert("completions".to_owned(), json!(pods));
    }
    fields
}

/// How many of the pods that could run at a time have nothing to do any more: there is less work left than that. Of an
/// indexed Job the indexes are counted that will never run again, those that failed for good among them.
fn done(job: &Job) -> u32 {
    let (Some(spec), Some(status)) = (&job.spec, &job.status) else { return 0 };
    let parallelism = spec.parallelism.unwrap_or(1);
    let completions = spec.completions.unwrap_or(parallelism);
    let ended = if spec.completion_mode.as_deref() == Some("Indexed") {
        let lists = [status.completed_indexes.as_deref(), status.failed_indexes.as_deref()];
        indexes(lists.into_iter().flatten(), completions)
    } else {
        status.succeeded.unwrap_or_default()
    };
    // A Job of one pod has nothing to give back before it is over.
    if parallelism <= 1 || ended <= 0 {
        return 0;
    }
    let left = completions.saturating_sub(ended).max(0);
    u32::try_from(parallelism.saturating_sub(left)).unwrap_or_default()
}

/// How many indexes below `end` are in any of these lists, which are of the form `1,3-5`.
fn indexes<'a>(lists: impl Iterator<Item = &'a str>, end: i32) -> i32 {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
        (0 <= first && first <= last).then_some((first, last.min(end.saturating_sub(1))))
    };
    let mut ranges: Vec<(i32, i32)> = lists.flat_map(|list| list.split(',')).filter_map(range).collect();
    ranges.sort_unstable();
    let (mut count, mut next) = (0, 0);
    for (first, last) in ranges {
        let first = first.max(next);
        if first <= last {
            count += last - first + 1;
            next = last + 1;
        }
    }
    count
}

/// The operations that give a Job the size that it asked for by its Workload, if it may run with fewer pods.
pub fn size_as_asked(job: &Job, workload: &Workload) -> Vec<Value> {
    let asked = workload.spec.pod_sets.first().map(|set| set.count).filter(|_| min_pods_count(job).is_some());
    let asked = asked.filter(|asked| *asked != pods_count(job)).and_then(|pods| u32::try_from(pods).ok());
    let fields = asked.map(|pods| size(pods, completions(job))).unwrap_or_default();
    fields.into_iter().map(|(field, value)| put(&format!("/spec/{field}"), value)).collect()
}

/// The template as a Workload keeps it: without what the job controller adds for this one job, and without the
/// marks of an admission, which a template has that was copied from a running job.
pub fn clean(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let Some(metadata) = template.metadata.as_mut() else { return template };
    if let Some(labels) = metadata.labels.as_mut() {
        labels.retain(|key, _| {
            key == "batch.kubernetes.io/job-name"
                || !(MANAGED_LABELS.contains(&key.as_str()) || key == label::POD_SET)
        });
    }
    if let Some(annotations) = metadata.annotations.as_mut() {
        annotations.remove(annotation::WORKLOAD);
        annotations.remove(annotation::WORKLOAD_SLICE_NAME);
    }
    template
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn done_of(spec: &Value, status: &Value) -> u32 {
        done(&serde_json::from_value(json!({ "spec": spec, "status": status })).unwrap())
    }

    #[test]
    fn pods_have_nothing_to_do_when_there_is_less_work_than_pods() {
        for (parallelism, completions, succeeded, want) in [
            (5, Some(5), 0, 0),
            (5, Some(5), 2, 2),
            (5, Some(5), 5, 5),
            (3, Some(9), 6, 0),
            (3, Some(9), 7, 1),
            (3, Some(9), 99, 3),
            (3, None, 1, 1),
            (1, Some(2), 1, 0),
            (0, Some(2), 1, 0),
            (3, Some(3), -1, 0),
        ] {
            let spec = json!({ "parallelism": parallelism, "completions": completions, "selector": {}, "template": {} });
            assert_eq!(done_of(&spec, &json!({ "succeeded": succeeded })), want, "{spec} {succeeded}");
        }
        assert_eq!(done_of(&json!({ "template": {} }), &json!({})), 0);
    }

    #[test]
    fn of_an_indexed_job_the_indexes_count_that_never_run_again() {
        for (completed, failed, want) in [
            ("", "", 0),
            ("0", "", 1),
            ("0-2", "4", 4),
            ("1,3-4", "0", 4),
            // What is in both, or past the end, is not counted twice or at all.
            ("0-3", "2-3", 4),
            ("0,7-9", "", 1),
            ("3-1,x,-2,1-", "", 0),
        ] {
            let spec =
                json!({ "parallelism": 5, "completions": 5, "completionMode": "Indexed", "template": {} });
            let status = json!({ "succeeded": 5, "completedIndexes": completed, "failedIndexes": failed });
            assert_eq!(done_of(&spec, &status), want, "{completed} and {failed}");
        }
    }
}
