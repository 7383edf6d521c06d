//! A job as the description of its kind has it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::{ResourceExt, core::DynamicObject};
use serde::Deserialize;
use serde_json::Value;
use whalezen_crds::kueue::constants::DEFAULT_POD_SET;

use super::{
    super::pods::pods,
    Ending, JobView, Slot,
    kinds::{
        Active, Beside, Ended, JobKind, List, Message, Place, Ranks, Ready, Shown, Status, Wrapped, count,
    },
    serving,
    view::injected,
    whole::{At, Set},
};

/// What is kept of a job.
pub fn view(kind: &'static JobKind, object: &DynamicObject) -> JobView {
    let job = &object.data;
    let basis = JobView::new(kind, &object.metadata);
    let sets = sets(kind, &object.name_any(), job);
    let of_sets = || sets.iter().flatten();
    let suspended = job.pointer(kind.suspend) == Some(&Value::Bool(true));
    let injected = of_sets().find_map(|set| injected(&set.template));
    let status = kind.status.as_ref();
    let active = status.map_or(0, |status| active(status, job));
    // One that was never started has nothing that its controller would have to stop.
    let noticed = || injected.is_none() || status.is_some_and(|status| shows(job, &status.rests));
    let pod_class = |set: &Set| {
        let class = set.template.spec.as_ref()?.priority_class_name.clone();
        class.filter(|name| !name.is_empty())
    };
    let class = kind.priority_class.map(|at| text(job, at)).filter(|name| !name.is_empty());
    JobView {
        queue: basis.queue.filter(|_| !shows(job, &kind.unless)),
        pod_priority_class: class.map(ToOwned::to_owned).or_else(|| of_sets().find_map(pod_class)),
        suspended,
        at_rest: suspended && active == 0 && noticed(),
        active,
        unready: status.map_or(0, |status| unready(kind, status, job)),
        ending: status.and_then(|status| status.endings.iter().find_map(|ended| ending(job, ended))),
        pods: sets.clone().and_then(|sets| {
            let pods = sets.iter().map(|set| pods(&set.name, &set.template, set.count, set.min_count));
            pods.collect::<Result<Vec<_>, _>>().map(Arc::from)
        }),
        slots: of_sets().map(|set| Slot::new(&set.template, set.at.clone())).collect(),
        beside: kind.pods.iter().find_map(|place| match place {
            Place::Made { beside, .. } => Some(at_of(&beside(job))),
            _ => None,
        }),
        done: status.and_then(|status| status.done).map(|list| done(kind, &list, job)).unwrap_or_default(),
        injected,
        ..basis
    }
}

/// The pod sets of a job, or what is wrong with their description.
pub fn sets(kind: &JobKind, job_name: &str, job: &Value) -> Result<Vec<Set>, String> {
    let mut sets = Vec::new();
    let set = |name: &str, count: i64, at: At, template: &Value| {
        let mut template = template.clone();
        if let Some(complete) = kind.completes {
            complete(job, name, &mut template);
        }
        let template = PodTemplateSpec::deserialize(&template)
            .map_err(|problem| format!("the template of pod set {name} cannot be read: {problem}"))?;
        // Kueue's names of pod sets are in lower case.
        Ok::<_, String>(Set {
            name: name.to_lowercase(),
            template,
            count: size(count),
            min_count: None,
            ranks: Ranks::NONE,
            group_count: None,
            bare: kind.serves.is_some_and(|serves| serves.bare),
            at,
        })
    };
    for place in kind.pods {
        let found = place.found(job, kind.ranks);
        match *place {
            Place::One { name, .. } => {
                for pods in found {
                    let template = job.pointer(&pods.template);
                    let template = template.ok_or_else(|| format!("pod set {name} has no template"))?;
                    let (ranks, group_count) = (pods.ranks, groups(&pods));
                    let set = set(name, pods.count, At::Template(pods.template.into()), template)?;
                    sets.push(Set { ranks, group_count, ..set });
                }
            }
            Place::Each { list, name, .. } => {
                for (index, pods) in found.into_iter().enumerate() {
                    let name = text(job, &format!("{list}/{index}{name}"));
                    let template = job.pointer(&pods.template);
                    let template = template.ok_or_else(|| format!("pod set {name} has no template"))?;
                    let (ranks, group_count) = (pods.ranks, groups(&pods));
                    let set = set(name, pods.count, At::Template(pods.template.into()), template)?;
                    sets.push(Set { ranks, group_count, ..set });
                }
            }
            Place::Led { leader, workers, size } => {
                let there = job.pointer(leader).filter(|template| !template.is_null());
                if let Some(there) = there {
                    sets.push(set(serving::LEADER, 1, At::Template(leader.into()), there)?);
                }
                let led = count(job, size).saturating_sub(there.is_some().into());
                let name = if there.is_some() { serving::WORKER } else { DEFAULT_POD_SET };
                let template =
                    job.pointer(workers).ok_or_else(|| format!("pod set {name} has no template"))?;
                let set = set(name, led, At::Template(workers.into()), template)?;
                sets.push(Set { ranks: kind.ranks, ..set });
            }
            Place::Own { name, template, when, otherwise } => {
                let there = job.pointer(template).filter(|template| !template.is_null());
                match there {
                    _ if !shows(job, &when) => {}
                    Some(there) => sets.push(set(name, 1, At::Template(template.into()), there)?),
                    None => {
                        let own = otherwise(job);
                        sets.push(set(name, 1, At::New(template, Box::new(own.clone())), &own)?);
                    }
                }
            }
            Place::Made { beside, .. } => {
                let beside = beside(job);
                for (name, template) in &beside.entries {
                    sets.push(set(name, 0, at_of(&beside), template)?);
                }
            }
            Place::Wrapped { list, pods, beside } => {
                let items =
                    job.pointer(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for (item, wrapped) in items.iter().enumerate() {
                    for (index, pods) in pods(wrapped).into_iter().enumerate() {
                        let name = format!("{job_name}-{}", sets.len());
                        let template = wrapped.pointer(&pods.template);
                        let template = template.ok_or_else(|| {
                            format!("{list}/{item} has no pod template at {}", pods.template)
                        })?;
                        let added = wrapped.pointer(&format!("{beside}/{index}")).unwrap_or(&Value::Null);
                        let beside = format!("{list}/{item}{beside}");
                        let at = At::Beside { anew: (beside.clone(), Value::Array(vec![])), list: beside };
                        let set = set(&name, pods.count, at, &with(template, added))?;
                        sets.push(Set { ranks: pods.ranks, group_count: groups(&pods), ..set });
                    }
                }
            }
        }
    }
    if sets.is_empty() && kind.makes().is_none() {
        return Err("it describes no pods".to_owned());
    }
    Ok(sets)
}

/// In how many groups pods are that say in which.
fn groups(of: &Wrapped) -> Option<i32> {
    of.ranks.group.map(|_| size(of.groups))
}

fn at_of(beside: &Beside) -> At {
    At::Beside { list: beside.list.clone(), anew: beside.anew.clone() }
}

/// A template with what an admission wrote beside it.
fn with(template: &Value, added: &Value) -> Value {
    let mut template = template.clone();
    for (field, at) in [("labels", "metadata"), ("annotations", "metadata"), ("nodeSelector", "spec")] {
        let Some(more) = added.get(field).and_then(Value::as_object) else { continue };
        let Some(template) = template.as_object_mut() else { continue };
        let part = template.entry(at).or_insert_with(|| Value::Object(serde_json::Map::new()));
        let Some(part) = part.as_object_mut() else { continue };
        let entries = part.entry(field).or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(entries) = entries.as_object_mut() {
            entries.extend(more.clone());
        }
    }
    if let Some(more) = added.get("tolerations").and_then(Value::as_array)
        && let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(all) = spec.entry("tolerations").or_insert_with(|| Value::Array(vec![])).as_array_mut()
    {
        all.extend(more.iter().cloned());
    }
    template
}

/// Whether a job shows this.
fn shows(job: &Value, shown: &Shown) -> bool {
    match shown {
        Shown::Condition(type_) => condition(job, type_).is_some(),
        Shown::Field(at, values) => values.contains(&text(job, at)),
        Shown::There(at) => match job.pointer(at) {
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            _ => false,
        },
        Shown::All(all) => all.iter().all(|shown| shows(job, shown)),
        Shown::Not(not) => !shows(job, not),
        Shown::Never => false,
    }
}

/// The condition of this type, if it is `True`.
fn condition<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions
        .iter()
        .find(|condition| text(condition, "/type") == type_ && text(condition, "/status") == "True")
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

fn ending(job: &Value, ended: &Ended) -> Option<Ending> {
    let message = || match ended.message {
        Message::Condition(type_) => {
            condition(job, type_).map_or("", |condition| text(condition, "/message"))
        }
        Message::Field(at) => text(job, at),
        Message::Text(text) => text,
    };
    shows(job, &ended.when).then(|| Ending { succeeded: ended.succeeded, message: message().to_owned() })
}

/// The items of a list or a map.
fn items<'a>(job: &'a Value, list: &List) -> Vec<&'a Value> {
    match job.pointer(list.at) {
        Some(Value::Array(items)) => items.iter().collect(),
        Some(Value::Object(fields)) => fields.values().collect(),
        _ => vec![],
    }
}

/// The sum of an item's fields.
fn said(item: &Value, list: &List) -> i64 {
    let number = |at: &&str| item.pointer(at).and_then(Value::as_i64).unwrap_or_default();
    list.fields.iter().map(number).fold(0, i64::saturating_add)
}

fn sum(job: &Value, list: &List) -> i64 {
    items(job, list).into_iter().map(|item| said(item, list)).fold(0, i64::saturating_add)
}

/// How much of it may run, as far as it is counted.
fn active(status: &Status, job: &Value) -> i32 {
    match &status.active {
        Active::Sum(list) => size(sum(job, list)),
        Active::While(shown) => i32::from(shows(job, shown)),
    }
}

/// How many of its replicas are not ready, as far as they are counted.
fn unready(kind: &JobKind, status: &Status, job: &Value) -> i32 {
    match &status.ready {
        Ready::Sum(list) => {
            let wanted = replicas(kind, job).map(|(_, replicas, _)| replicas).fold(0, i64::saturating_add);
            size(wanted.saturating_sub(sum(job, list)).max(0))
        }
        Ready::When(shown) => i32::from(!shows(job, shown)),
    }
}

/// How many pods of each set have nothing to do any more.
fn done(kind: &JobKind, list: &List, job: &Value) -> Vec<u32> {
    let items = items(job, list);
    let of_set = |(name, replicas, per_replica): (String, i64, i64)| {
        let item = items.iter().find(|item| text(item, "/name") == name);
        let over = item.map(|item| said(item, list)).filter(|over| (1..=replicas).contains(over));
        over.map_or(0, |over| u32::try_from(over.saturating_mul(per_replica)).unwrap_or_default())
    };
    self::replicas(kind, job).map(of_set).collect()
}

/// The names of the pod sets that are in lists, how often each is replicated, and how many pods a replica has.
fn replicas<'a>(kind: &'a JobKind, job: &'a Value) -> impl Iterator<Item = (String, i64, i64)> + 'a {
    kind.pods.iter().flat_map(move |place| {
        let Place::Each { list, name, count: factors, .. } = *place else { return vec![] };
        let items = job.pointer(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let (all, each) = factors.split_at(factors.len().min(1));
        items.iter().map(|item| (text(item, name).to_owned(), count(item, all), count(item, each))).collect()
    })
}

fn size(of: i64) -> i32 {
    i32::try_from(of).unwrap_or(if of < 0 { i32::MIN } else { i32::MAX })
}
