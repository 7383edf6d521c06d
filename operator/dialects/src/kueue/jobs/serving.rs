//! What is there to serve: sets of pods that are queued together and are never over.
//!
//! Each is a job that is made of an object, which says how many pods of which templates there are to be, and of its pods,
//! made anew whenever one of them changes. The object's own controller makes the pods; they are born behind a gate, and
//! those that stop are made anew by it.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use whalezen_core::workload::Phase;
use whalezen_crds::kueue::constants::{DEFAULT_POD_SET, annotation, condition as types, reason};

use super::{
    super::{admission, conditions, pods::Pods},
    JobKey, JobView, Of, Step, Surroundings,
    kinds::{self, By, JobKind},
    matching::matches,
    note,
    pod::Member,
    priority_now, write,
};

/// The name of the pod set of those that lead others.
pub const LEADER: &str = "leader";
/// The name of the pod set of those that are led.
pub const WORKER: &str = "worker";
/// What stands between the uid of an object and the number of one of its groups.
const OF_GROUP: char = '#';

/// What a pod serves in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The object's kind.
    pub kind: &'static JobKind,
    /// Its name.
    pub object: String,
    /// Its uid, if the pod knows it.
    pub uid: Option<String>,
    /// The number of the pod's group, if the groups are queued by themselves.
    pub group: Option<u32>,
    /// The name of the pod set that it is of.
    pub role: &'static str,
}

/// The kind of the object that gates this pod and is queued with others of it.
pub fn parent(pod: &Pod) -> Option<&'static JobKind> {
    let kind = kinds::of_framework(pod.annotations().get(annotation::POD_SUSPENDING_PARENT)?)?;
    kind.serves.filter(|serves| !matches!(serves.by, By::Pod)).map(|_| kind)
}

/// What a pod serves in, if it does and says so by now.
pub fn part(pod: &Pod) -> Option<Part> {
    let kind = parent(pod)?;
    match kind.serves?.by {
        By::Pod => None,
        By::Object => {
            let mut owners = pod.owner_references().iter();
            let owner = owners.find(|owner| owner.controller == Some(true))?;
            kinds::of_owner(owner).filter(|of| *of == kind)?;
            let (object, uid) = (owner.name.clone(), Some(owner.uid.clone()));
            Some(Part { kind, object, uid, group: None, role: DEFAULT_POD_SET })
        }
        By::Group(groups) => {
            let (object, group, leads) = (groups.place)(pod)?;
            let role = if leads { LEADER } else { WORKER };
            Some(Part { kind, object: object.to_owned(), uid: None, group: Some(group), role })
        }
    }
}

/// The key of the job that is this object or one of its groups.
pub fn key(object: &JobKey, group: Option<u32>) -> JobKey {
    let Some(group) = group else { return object.clone() };
    JobKey { name: format!("{}{OF_GROUP}{group}", object.name).into(), ..object.clone() }
}

/// The key of a job's object.
pub fn object_of(job: &JobKey) -> JobKey {
    JobKey { name: object_uid(&job.name).into(), ..job.clone() }
}

/// The keys of those that are an object, or a group of it.
pub fn jobs_of<'a, V>(
    among: &'a BTreeMap<JobKey, V>,
    object: &'a JobKey,
) -> impl Iterator<Item = &'a JobKey> {
    let like_it = |job: &JobKey| {
        (job.kind, &job.namespace) == (object.kind, &object.namespace) && job.name.starts_with(&*object.name)
    };
    let keys = among.range(object..).map(|(job, _)| job).take_while(move |job| like_it(job));
    keys.filter(|job| object_uid(&job.name) == &*object.name)
}

/// Which of the groups of its object a job is, by its key.
pub fn number_of(job: &JobKey) -> Option<u32> {
    job.name.split_once(OF_GROUP).and_then(|(_, number)| number.parse().ok())
}

/// What stands for a group of an object where a job's uid does.
pub fn uid(object: &str, group: Option<u32>) -> String {
    group.map_or_else(|| object.to_owned(), |group| format!("{object}{OF_GROUP}{group}"))
}

/// The uid of a job's object, from the job's.
pub fn object_uid(job: &str) -> &str {
    job.split_once(OF_GROUP).map_or(job, |(object, _)| object)
}

/// The owner of a Workload that serves, and the uid of the job that it is for.
pub fn of_workload(metadata: &ObjectMeta) -> Option<(&OwnerReference, String)> {
    let mut owners = metadata.owner_references.iter().flatten();
    let (owner, serves) = owners.find_map(|owner| Some((owner, kinds::of_owner(owner)?.serves?)))?;
    let annotated = |key| metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let group = match serves.by {
        By::Pod => return None,
        By::Object => None,
        By::Group(_) => Some(annotated(annotation::COMPONENT_WORKLOAD_INDEX)?.parse().ok()?),
    };
    Some((owner, uid(&owner.uid, group)))
}

/// An object or one of its groups, as a job of these pods.
pub fn view(object: &JobView, group: Option<u32>, pods: &[&JobView]) -> JobView {
    let sets: Result<&[Pods], &String> = object.pods.as_ref().map(|pods| &**pods);
    let one_set = sets.is_ok_and(|sets| sets.len() == 1);
    let of_it = |pod: &&&JobView| {
        let part = pod.members.first().and_then(|member| member.part.as_ref());
        part.and_then(|part| part.uid.as_ref()).is_none_or(|uid| *uid == object.uid)
    };
    let pods: Vec<&JobView> = pods.iter().filter(of_it).copied().collect();
    let with_role = |member: &Member| {
        let mut member = member.clone();
        if let Some(part) = member.part.as_mut().filter(|_| one_set) {
            part.role = DEFAULT_POD_SET;
        }
        member
    };
    let members: Vec<Member> = pods.iter().flat_map(|pod| &pod.members).map(with_role).collect();
    let active = count(members.iter().filter(|member| member.is_active()).count());
    let ready = count(pods.iter().filter(|pod| pod.unready == 0).count());
    let wanted = sets.unwrap_or_default().iter().map(|set| set.count).fold(0, u32::saturating_add);
    JobView {
        uid: uid(&object.uid, group),
        suspended: active == 0,
        at_rest: active == 0,
        active,
        unready: i32::try_from(wanted).unwrap_or(i32::MAX).saturating_sub(ready).max(0),
        injected: pods.iter().find(|pod| pod.active > 0).and_then(|pod| pod.injected.clone()),
        members,
        number: group,
        ..object.clone()
    }
}

fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

/// Whether a job that serves has been scaled to no pods at all.
pub fn is_scaled_to_zero(job: &JobView) -> bool {
    job.kind.serves.is_some() && job.pods.as_deref().is_ok_and(|sets| sets.iter().all(|set| set.count == 0))
}

/// Puts the Workload of what was scaled to zero on hold once its pods are gone, and lets it queue again when there are to be
/// pods. `None`, if nothing is to be done about that.
pub fn hold(job: &JobView, of: Of<'_>, around: Surroundings<'_>) -> Option<Step> {
    job.kind.serves?;
    let quota = conditions::find(&of.view.conditions, types::QUOTA_RESERVED);
    let on_hold =
        quota.is_some_and(|quota| quota.status == "False" && quota.reason == reason::quota_reserved::ON_HOLD);
    let granular = around.settings.granular_reasons;
    match (is_scaled_to_zero(job), on_hold) {
        (true, false) if job.active == 0 => {
            let message = format!("{} scaled to zero; workload on hold", job.kind.kind);
            Some(write(admission::hold(of.key, of.view, &message, granular, around.now)))
        }
        (true, _) => Some(Step::Rest),
        (false, true) if of.workload.phase == Phase::Pending && !matches(job, of) => {
            Some(Step::Update(priority_now(job, of, around)))
        }
        (false, true) => Some(write(admission::end_hold(of.key, of.view, granular, around.now))),
        (false, false) => None,
    }
}

/// Tells of pods for which there is no quota, because there were to be fewer when it was given.
pub fn tell_of_more(job: &JobView, of: Of<'_>) -> Option<Step> {
    job.kind.serves?;
    let given: Arc<[Pods]> = of.view.pods.as_ref().ok().cloned()?;
    let total = |sets: &[Pods]| sets.iter().map(|set| set.count).fold(0, u32::saturating_add);
    let (asked, has) = (total(job.pods.as_deref().ok()?), total(&given));
    (asked > has).then(|| {
        let message =
            format!("Has quota for {has} of {asked} pods until it was scaled to zero or has to wait again");
        Step::Stuck(note(job, true, "NotResized", message))
    })
}
