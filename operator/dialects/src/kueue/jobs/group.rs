//! Pods that are queued together: one Workload for all of them, with a pod set for each role. Pods that failed are kept until
//! others have come in their place, and those beyond the number that was said are deleted.

use std::{cmp::Reverse, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use serde_json::{Value, json};
use whalezen_core::{quantity::Amounts, workload::Timestamp};
use whalezen_crds::kueue::constants::{annotation, condition as types, label};

use super::{
    super::{admission, conditions, pods::Pods},
    Ending, JobView, Of, Step,
    kinds::POD,
    note,
    pod::{self, Member},
    roles, serving,
    whole::{Set, Standing, Whole},
    writes::seen_as,
};
use crate::write::{Verb, Write};

/// What a pod says of the group that it is one of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Belongs {
    /// The group's name, and its Workload's.
    pub group: String,
    /// Of how many pods the group is, if that can be read.
    pub total: Option<u32>,
    /// Whether the group is queued as soon as there is one of them.
    pub fast: bool,
    /// Whether the group serves: it is never over, and what has ended of it frees nothing.
    pub serves: bool,
    /// Whether the group is over when this one has failed.
    pub unretriable: bool,
    /// Its role: those of one role ask for the same.
    pub role: String,
    /// What the pod requests, if that can be counted.
    pub requests: Option<Amounts>,
}

/// A group, as a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Why no Workload can be made for it yet, besides that there are too few of its pods.
    pub conflict: Option<String>,
    /// Whether there are too few of its pods.
    pub incomplete: bool,
    /// Of how many pods it is.
    pub total: Option<u32>,
    /// Whether it is queued as soon as there is one of them.
    pub fast: bool,
    /// Whether somebody else deletes all of it: nobody is waited for any more.
    pub given_up: bool,
}

impl Group {
    /// Why no Workload can be made for it yet.
    pub fn problem(&self) -> Option<String> {
        let fewer = || format!("'{}' group has fewer runnable pods than expected", self.name);
        self.conflict.clone().or_else(|| self.incomplete.then(fewer))
    }
}

/// The group that a pod belongs to, if it is one of several.
pub fn belongs(pod: &Pod) -> Option<Belongs> {
    // What Kueue wrote on a pod that serves is not the pod's own word.
    if serving::parent(pod).is_some() {
        return None;
    }
    let said = |key| pod.annotations().get(key).map(String::as_str);
    let named = said(annotation::POD_GROUP_NAME).filter(|name| !name.is_empty());
    let group = named.or_else(|| pod.labels().get(label::POD_GROUP_NAME).map(String::as_str))?;
    let total = said(annotation::POD_GROUP_TOTAL_COUNT).and_then(|text| text.parse().ok());
    Some(Belongs {
        group: group.to_owned(),
        total: total.filter(|total| *total > 0),
        fast: said(annotation::POD_GROUP_FAST_ADMISSION) == Some("true"),
        serves: said(annotation::POD_GROUP_SERVING) == Some("true"),
        unretriable: said(annotation::RETRIABLE_IN_GROUP) == Some("false"),
        role: said(annotation::ROLE_HASH)
            .map_or_else(|| pod.spec.as_ref().map(roles::role).unwrap_or_default(), ToOwned::to_owned),
        requests: pod.spec.as_ref().and_then(roles::requests),
    })
}

/// What stands for a group where a job's uid does. No object has such a one.
pub fn uid(namespace: &str, group: &str) -> String {
    format!("{namespace}/{group}")
}

/// The name of the group that is meant by a job's uid, if a group is.
pub fn of_uid(uid: &str) -> Option<&str> {
    uid.split_once('/').map(|(_, group)| group)
}

/// The group that these pods are.
pub fn view(pods: &[&JobView]) -> Option<JobView> {
    let first = *pods.first()?;
    let members: Vec<Member> = pods.iter().flat_map(|pod| &pod.members).cloned().collect();
    let belongs = said_by_all(&members)?;
    let total = belongs.total.unwrap_or_default();
    let succeeded = members.iter().filter(|member| member.succeeded == Some(true)).count();
    let all_over = members.iter().all(|member| member.succeeded.is_some());
    let roles = sizes(pods, &belongs);
    let active = members.iter().filter(|member| member.is_active()).count();
    let ends = belongs.total.is_some() && !belongs.serves && active == 0;
    let over = ends && (as_count(succeeded) == total || (all_over && belongs.unretriable));
    let ready = pods.iter().filter(|pod| pod.unready == 0).count();
    let started = pods.iter().find(|pod| pod.active > 0);
    let slots = roles.iter().filter_map(|(role, _)| Some(of_role(pods, role)?.slots.first()?.clone()));
    Some(JobView {
        uid: uid(first.target.namespace.as_deref().unwrap_or_default(), &belongs.group),
        suspended: active == 0,
        at_rest: active == 0,
        active: i32::try_from(active).unwrap_or(i32::MAX),
        unready: i32::try_from(total.saturating_sub(as_count(ready))).unwrap_or(i32::MAX),
        ending: over
            .then(|| Ending { succeeded: true, message: format!("Pods succeeded: {succeeded}/{total}.") }),
        deleting: false,
        slots: slots.collect(),
        done: if belongs.serves {
            vec![]
        } else {
            roles.iter().map(|(role, _)| as_count(done(&members, role))).collect()
        },
        pods: roles
            .iter()
            .map(|(role, count)| pods_of(pods, role, *count))
            .collect::<Result<Vec<_>, _>>()
            .map(Into::into),
        injected: started.and_then(|pod| pod.injected.clone()),
        group: Some(Group {
            conflict: conflict(pods, &members, &belongs),
            incomplete: is_incomplete(&members, &belongs),
            total: belongs.total,
            fast: belongs.fast,
            given_up: is_given_up(&members),
            name: belongs.group,
        }),
        members,
        ..first.clone()
    })
}

/// What the pods of a group say of it together. No one of them is believed alone, or it could end the group of those that run:
/// the group is of as many as any of them says, and is in no hurry unless all are.
fn said_by_all(members: &[Member]) -> Option<Belongs> {
    let all = || members.iter().filter_map(|member| member.belongs.as_ref());
    let first = all().next()?.clone();
    let replaced = |member: &&Member| member.succeeded == Some(false);
    let others =
        members.iter().filter(|member| !replaced(member)).filter_map(|member| member.belongs.as_ref());
    let others: Vec<&Belongs> = others.collect();
    Some(Belongs {
        total: others.iter().map(|of| of.total).max().unwrap_or(first.total),
        fast: others.iter().all(|of| of.fast),
        serves: all().any(|of| of.serves),
        unretriable: all().any(|of| of.unretriable),
        ..first
    })
}

/// The roles and how many pods each has, by name.
fn sizes(pods: &[&JobView], belongs: &Belongs) -> Vec<(String, u32)> {
    let alive = pods.iter().flat_map(|pod| &pod.members).filter(|member| member.may_succeed());
    let mut kept: Vec<&Member> = alive.collect();
    kept.sort_by_key(|member| member.precedence());
    kept.truncate(belongs.total.and_then(|total| usize::try_from(total).ok()).unwrap_or(usize::MAX));
    if belongs.fast {
        let first = kept.first().map(|member| member.role().to_owned());
        return first.into_iter().map(|role| (role, belongs.total.unwrap_or_default())).collect();
    }
    let mut roles: BTreeMap<String, u32> = BTreeMap::new();
    for member in kept {
        *roles.entry(member.role().to_owned()).or_default() += 1;
    }
    roles.into_iter().collect()
}

fn of_role<'a>(pods: &[&'a JobView], role: &str) -> Option<&'a JobView> {
    let is_it = |pod: &&&JobView| pod.members.first().is_some_and(|m| m.role() == role && m.may_succeed());
    pods.iter().find(is_it).copied()
}

fn pods_of(pods: &[&JobView], role: &str, count: u32) -> Result<Pods, String> {
    let pod = of_role(pods, role).ok_or_else(|| format!("no pod has role {role}"))?;
    let own = pod.pods.clone()?;
    let own = own.first().ok_or_else(|| format!("no pod has role {role}"))?;
    Ok(Pods { name: role.into(), count, ..own.clone() })
}

fn done(members: &[Member], role: &str) -> usize {
    members.iter().filter(|member| member.succeeded == Some(true) && member.role() == role).count()
}

fn as_count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

/// Why no Workload could be made for a group even if all of its pods were there.
fn conflict(pods: &[&JobView], members: &[Member], belongs: &Belongs) -> Option<String> {
    let Belongs { group, total, .. } = belongs;
    let Some(total) = total else {
        return Some(format!(
            "pod group {group}: {} must be a number of pods",
            annotation::POD_GROUP_TOTAL_COUNT
        ));
    };
    let failed = |pod: &&&JobView| pod.members.first().is_some_and(|m| m.succeeded == Some(false));
    let others: Vec<_> = pods.iter().filter(|pod| !failed(pod)).collect();
    if others.windows(2).any(|two| matches!(two, [a, b] if a.queue != b.queue)) {
        return Some(format!("pod group {group}: its pods name different queues"));
    }
    let counts = || others.iter().flat_map(|pod| &pod.members).filter_map(|member| member.belongs.as_ref());
    if counts().any(|of| of.total != Some(*total)) {
        return Some(format!("pod group {group}: its pods do not agree on how many they are"));
    }
    let role = roles::uneven(members.iter().filter(|member| member.may_succeed()))?;
    Some(format!("pod group {group}: its pods of role {role} do not request the same"))
}

/// Whether all pods of a group are being deleted, and not all because they had to stop: those wait for others.
fn is_given_up(members: &[Member]) -> bool {
    members.iter().all(|member| member.deleting) && members.iter().any(|member| !member.told)
}

/// Whether there are too few pods of a group to make a Workload for it.
fn is_incomplete(members: &[Member], belongs: &Belongs) -> bool {
    let alive = members.iter().filter(|member| member.may_succeed()).count();
    alive == 0 || (as_count(alive) < belongs.total.unwrap_or_default() && !belongs.fast)
}

/// What a group's Workload is made from.
pub fn whole(pods: &[Pod]) -> Result<Whole, String> {
    let views: Vec<JobView> = pods.iter().map(pod::view).collect();
    let group = view(&views.iter().collect::<Vec<_>>()).ok_or("the group has no pods")?;
    let named = group.group.ok_or("the pods are in no group")?;
    if let Some(problem) = named.problem() {
        return Err(problem);
    }
    let set = |of: &Pods| {
        let mut alive =
            pods.iter().zip(&views).filter(|(_, view)| view.members.iter().any(Member::may_succeed));
        let is_it = |view: &JobView| view.members.iter().any(|member| member.role() == &*of.name);
        let set = alive.find(|(_, view)| is_it(view)).map(|(pod, _)| pod::set(pod));
        let set = set.ok_or_else(|| format!("no pod has role {}", of.name))?;
        Ok(Set { name: of.name.to_string(), count: of.count.try_into().unwrap_or(i32::MAX), ..set })
    };
    let first = pods.first().map(|pod| pod.metadata.clone()).unwrap_or_default();
    Ok(Whole {
        kind: &POD,
        metadata: ObjectMeta { name: Some(named.name), ..first },
        sets: group.pods?.iter().map(set).collect::<Result<_, String>>()?,
        elastic: false,
        standing: Standing::Pods(
            pods.iter().map(|pod| owner(&pod.name_any(), &pod.uid().unwrap_or_default())).collect(),
        ),
    })
}

fn owner(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: POD.api_version(),
        kind: POD.kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

/// Whether a group's Workload counts its pods: all that run, once it has quota, and before that all roles. As long as no other
/// could be made the one that is there has to do.
pub fn matches(group: &JobView, pods: &[Pods], sets: &[Pods], of: Of<'_>) -> bool {
    if of.workload.admission().is_some() {
        let counts = roles::counted(sets);
        return group.members.iter().filter(|member| member.is_active()).all(counts);
    }
    let same = |role: &Pods| {
        sets.iter().any(|set| set.name == role.name && set.template.total() == role.template.total())
    };
    group.group.as_ref().is_some_and(|group| group.problem().is_some()) || pods.iter().all(same)
}

/// Tells why pods of a group wait although its Workload is there: it does not count them, or they do not agree.
pub fn tell_of_others(job: &JobView, of: Of<'_>) -> Option<Step> {
    let Group { name, conflict, .. } = job.group.as_ref()?;
    let counts = roles::counted(of.view.pods.as_deref().ok()?);
    let mut waiting = job.members.iter().filter(|member| member.waits());
    let other = waiting.find(|member| !counts(member)).map(|member| {
        let (pod, role) = (&member.target.name, member.role());
        format!("pod group {name}: pod {pod} is none of those that its Workload counts as role {role}")
    });
    Some(Step::Stuck(note(job, true, "ErrWorkloadCompose", other.or_else(|| conflict.clone())?)))
}

/// Has the pods own their Workload, lets those go that others have come for, and deletes those that are too many.
pub fn tidy(group: &JobView, of: Option<Of<'_>>) -> Option<Step> {
    let named = group.group.as_ref()?;
    let (alive, dead): (Vec<&Member>, Vec<&Member>) =
        group.members.iter().partition(|member| member.may_succeed());
    let Some(of) = of else {
        let total = named.total?;
        return dead.into_iter().find_map(pod::free).or_else(|| excess(group, alive, total));
    };
    let sets = of.view.pods.as_deref().ok()?;
    let counts = roles::counted(sets);
    // Nobody has to come in place of one that was not counted.
    let (mut kept, mut goes) =
        (Vec::new(), dead.iter().filter(|member| !counts(member)).find_map(|m| pod::free(m)));
    for set in sets {
        let count = usize::try_from(set.count).unwrap_or(usize::MAX);
        let is_of = |member: &&&Member| member.role() == &*set.name && counts(member);
        let mut alive: Vec<&Member> = alive.iter().filter(is_of).copied().collect();
        let mut dead: Vec<&Member> = dead.iter().filter(is_of).copied().collect();
        alive.sort_by_key(|member| member.precedence());
        dead.sort_by_key(|member| (!member.is_kept(), Reverse(member.last_active), member.created));
        let room = count.saturating_sub(alive.len());
        kept.extend(alive.iter().take(count).chain(dead.iter().take(room)).copied());
        goes = goes.or_else(|| excess(group, alive, set.count));
        goes = goes.or_else(|| dead.into_iter().skip(room).find_map(pod::free));
    }
    // First of all those own it that stay: without an owner it would be deleted.
    own(of, &kept).or(goes)
}

/// Has these pods own their Workload.
fn own(of: Of<'_>, pods: &[&Member]) -> Option<Step> {
    let others = pods.iter().filter(|member| !of.view.owners.contains(&member.uid));
    let missing: Vec<Value> = others
        .map(|member| {
            let value = owner(&member.target.name, &member.uid);
            json!({ "op": "add", "path": "/metadata/ownerReferences/-", "value": value })
        })
        .collect();
    (!missing.is_empty() && !of.view.owners.is_empty()).then(|| {
        let body = std::iter::once(seen_as(&of.view.version.to_string())).chain(missing).collect();
        let target = super::workload_target(&of.key.namespace, &of.key.name);
        Step::Write(Box::new(Write { target, status: false, verb: Verb::Json, body }), None)
    })
}

/// Says whether a group waits for pods in place of others, if its Workload does not say it yet.
pub fn tell(group: &JobView, of: Of<'_>, now: Timestamp) -> Option<Step> {
    let fast = group.group.as_ref().filter(|group| !group.given_up)?.fast;
    let sets = of.view.pods.as_deref().ok()?;
    let counts = roles::counted(sets);
    let alive = |role: &str| {
        let of_role = |member: &&Member| member.role() == role && member.may_succeed() && counts(member);
        as_count(group.members.iter().filter(of_role).count())
    };
    let absent = |set: &Pods| if fast { set.count.min(1) } else { set.count } > alive(&set.name);
    let waits = sets.iter().any(absent);
    let said = conditions::find(&of.view.conditions, types::WAITING_FOR_REPLACEMENT_PODS);
    let is_said = said.is_some_and(|said| said.status == "True");
    let evicted = conditions::find(&of.view.conditions, types::EVICTED).filter(|said| said.status == "True");
    let (reason, message) = match evicted {
        _ if !waits => ("PodsReady", "No pods need to be replaced"),
        Some(evicted) => (evicted.reason.as_str(), evicted.message.as_str()),
        None => ("PodsFailed", "Some pods failed and need to be replaced"),
    };
    let other_words = || waits && evicted.is_some() && said.is_some_and(|said| said.reason != reason);
    (waits != is_said || other_words()).then(|| {
        let write = admission::report_replacements(of.key, (waits, reason, message), of.view, now);
        Step::Write(Box::new(write), None)
    })
}

/// Deletes the last of those that are more than so many, and lets it go.
fn excess(group: &JobView, mut members: Vec<&Member>, count: u32) -> Option<Step> {
    members.sort_by_key(|member| member.precedence());
    let beyond = members.into_iter().skip(usize::try_from(count).unwrap_or(usize::MAX));
    beyond.into_iter().find_map(|member| {
        if member.deleting {
            return pod::free(member);
        }
        let told = note(group, false, "ExcessPodDeleted", "Excess pod deleted".to_owned());
        let told = crate::write::Note { about: member.target.clone(), uid: member.uid.clone(), ..told };
        Some(Step::Write(Box::new(pod::deletion(member)), Some(told)))
    })
}

/// The uid of the group that a Workload is for, if it is for one.
pub fn of_workload(metadata: &ObjectMeta) -> Option<String> {
    let annotations = metadata.annotations.as_ref()?;
    (annotations.get(annotation::IS_GROUP_WORKLOAD)? == "true").then(|| {
        uid(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    })
}
