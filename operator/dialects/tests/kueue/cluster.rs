//! A cluster in memory: an API server that takes our writes as the real one would, the job controller, the garbage
//! collector, and an operator that is driven step by step. Watches deliver late and each kind in its own time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use whalezen_core::{
    name::WorkloadKey,
    plan::{Policy, plan},
    workload::Timestamp,
};
use whalezen_dialects::{
    kueue::{
        jobs::{AnyJob, JobKey, Step, build},
        objects::Objects,
        settings::Settings,
    },
    write::{Verb, Write},
};

use crate::object::put;

/// Why a write was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    Conflict,
    Gone,
    Invalid(String),
}

type Id = (&'static str, String);

enum Event {
    Seen(Value),
    Gone(String),
}

pub struct Cluster {
    pub store: BTreeMap<Id, Value>,
    version: u64,
    /// What each field manager owns of a Workload's status: condition types, and other fields.
    owned: BTreeMap<(String, &'static str), BTreeSet<String>>,
    watches: BTreeMap<&'static str, VecDeque<Event>>,
    /// Pods of Job `train`: those that run, with the node selector they were made with, and those that are ending.
    pub running: Option<(i64, Value)>,
    pub ending: i64,
    pub operator: Objects,
    settings: Settings,
    retries: BTreeSet<Due>,
    /// What people submit as Job `train`.
    pub submitted: Value,
    timers: BTreeMap<Due, Timestamp>,
    /// Whether pods that run get ready.
    pub healthy: bool,
    /// Writes that the operator sent.
    pub writes: Vec<String>,
    now: i64,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Job(JobKey),
    Orphan(WorkloadKey),
}

pub const KINDS: [&str; 5] = ["ResourceFlavor", "ClusterQueue", "LocalQueue", "Workload", "Job"];

impl Cluster {
    /// A cluster in which people submit this Job, with an operator under these settings.
    pub fn new(submitted: Value, settings: Settings) -> Self {
        Self {
            store: BTreeMap::new(),
            version: 100,
            owned: BTreeMap::new(),
            watches: BTreeMap::new(),
            running: None,
            ending: 0,
            operator: operator(&settings),
            settings,
            retries: BTreeSet::new(),
            submitted,
            timers: BTreeMap::new(),
            healthy: true,
            writes: vec![],
            now: 1_767_225_600_000,
        }
    }

    pub fn get(&self, kind: &'static str, name: &str) -> Option<&Value> {
        self.store.get(&(kind, name.to_owned()))
    }

    pub fn job(&self) -> Option<&Value> {
        self.get("Job", "train")
    }

    pub fn all(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.store.iter().filter(move |((k, _), _)| *k == kind).map(|(_, object)| object)
    }

    /// A person creates an object or changes it as they like. Says whether the API server takes it.
    pub fn edit(&mut self, kind: &'static str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        let Some(old) = self.get(kind, name).cloned() else { return false };
        let mut new = old.clone();
        change(&mut new);
        if check(&old, &new).is_err() {
            return false;
        }
        self.replace((kind, name.to_owned()), &old, new);
        true
    }

    pub fn create(&mut self, kind: &'static str, mut object: Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.version += 1;
        put(&mut object, "/metadata/resourceVersion", json!(self.version.to_string()));
        if object["metadata"]["uid"].is_null() {
            put(&mut object, "/metadata/uid", json!(format!("uid-{}", self.version)));
        }
        put(&mut object, "/metadata/generation", json!(1));
        self.owned.retain(|(of, _), _| *of != name);
        self.store.insert((kind, name), object.clone());
        self.watches.entry(kind).or_default().push_back(Event::Seen(object.clone()));
        object
    }

    pub fn delete(&mut self, kind: &'static str, name: &str) {
        let id = (kind, name.to_owned());
        let Some(object) = self.store.get(&id).cloned() else { return };
        let mut marked = object.clone();
        put(&mut marked, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:09Z"));
        self.replace(id, &object, marked);
    }

    fn replace(&mut self, id: Id, old: &Value, mut new: Value) {
        if *old == new {
            return;
        }
        self.version += 1;
        put(&mut new, "/metadata/resourceVersion", json!(self.version.to_string()));
        if old["spec"] != new["spec"] {
            put(&mut new, "/metadata/generation", json!(old["metadata"]["generation"].as_i64().unwrap() + 1));
        }
        let watch = self.watches.entry(id.0).or_default();
        let kept = new["metadata"]["finalizers"].as_array().is_some_and(|names| !names.is_empty());
        if !kept && !new["metadata"]["deletionTimestamp"].is_null() {
            watch.push_back(Event::Gone(id.1.clone()));
            self.store.remove(&id);
        } else {
            watch.push_back(Event::Seen(new.clone()));
            self.store.insert(id, new);
        }
    }

    /// The API server takes a write.
    pub fn write(&mut self, write: &Write) -> Result<Value, Refused> {
        let id = (write.target.kind, write.target.name.clone());
        let old = self.store.get(&id).cloned().ok_or(Refused::Gone)?;
        let metadata = &old["metadata"];
        let wants = |field: &str| write.body.pointer(&format!("/metadata/{field}"));
        if ["uid", "resourceVersion"].iter().any(|f| wants(f).is_some_and(|wanted| *wanted != metadata[*f])) {
            return Err(Refused::Conflict);
        }
        let mut new = old.clone();
        match write.verb {
            Verb::Merge => {
                let mut patch = write.body.clone();
                if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("resourceVersion");
                }
                merge(&mut new, &patch);
                if write.status {
                    new["spec"] = old["spec"].clone();
                } else if !old["status"].is_null() {
                    new["status"] = old["status"].clone();
                }
            }
            Verb::Json => {
                for operation in write.body.as_array().unwrap() {
                    let path = operation["path"].as_str().unwrap();
                    match operation["op"].as_str().unwrap() {
                        "replace" if path == "/metadata/resourceVersion" => {
                            if old.pointer(path) != Some(&operation["value"]) {
                                return Err(Refused::Conflict);
                            }
                        }
                        "remove" => {
                            assert!(new.pointer(path).is_some(), "{path} is not there");
                            put(&mut new, path, Value::Null);
                        }
                        "replace" => *new.pointer_mut(path).unwrap() = operation["value"].clone(),
                        "add" => put(&mut new, path, operation["value"].clone()),
                        other => panic!("operation {other}"),
                    }
                }
                drop_nulls(&mut new);
            }
            Verb::Apply { manager } => {
                assert!(write.status && write.target.kind == "Workload");
                self.apply_status(&id.1, manager, &write.body["status"], &mut new);
            }
            Verb::Delete => {
                if write.body["uid"] != metadata["uid"] {
                    return Err(Refused::Conflict);
                }
                put(&mut new, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:09Z"));
            }
        }
        check(&old, &new).map_err(Refused::Invalid)?;
        self.guard(&old, &new);
        self.replace(id.clone(), &old, new.clone());
        Ok(self.store.get(&id).cloned().unwrap_or(new))
    }

    /// Server-side apply, by force, of the two fields of a Workload's status that are ours.
    fn apply_status(&mut self, name: &str, manager: &'static str, status: &Value, new: &mut Value) {
        let mut owns = BTreeSet::new();
        let mut conditions: BTreeMap<String, Value> = new["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| (c["type"].as_str().unwrap().to_owned(), c.clone()))
            .collect();
        for condition in status["conditions"].as_array().into_iter().flatten() {
            let type_ = condition["type"].as_str().unwrap().to_owned();
            conditions.insert(type_.clone(), condition.clone());
            owns.insert(type_);
        }
        for (field, value) in status.as_object().unwrap().iter().filter(|(field, _)| *field != "conditions") {
            owns.insert(field.clone());
            put(new, &format!("/status/{field}"), value.clone());
        }
        let before = self.owned.insert((name.to_owned(), manager), owns.clone()).unwrap_or_default();
        for dropped in before.difference(&owns) {
            conditions.remove(dropped);
            if let Some(status) = new["status"].as_object_mut() {
                status.remove(dropped);
            }
        }
        put(new, "/status/conditions", json!(conditions.into_values().collect::<Vec<_>>()));
    }

    /// What no write of the operator may ever do.
    fn guard(&self, old: &Value, new: &Value) {
        match new["kind"].as_str() {
            Some("Job") if old["spec"]["suspend"] == true && new["spec"]["suspend"] == false => {
                let uid = &new["metadata"]["uid"];
                // A person may have torn the Workload away a moment ago.
                assert!(
                    self.is_late("Workload")
                        || self.all("Workload").any(|w| owner(w) == *uid && holds(w) && is(w, "Admitted")),
                    "a job was started without quota"
                );
                // The flavor may have been edited a moment ago.
                let selected = new["spec"]["template"]["spec"]["nodeSelector"]["gpu"].as_str();
                assert!(
                    selected.is_some_and(|gpu| gpu.starts_with("a100")),
                    "a job was started on nodes that its quota is not for: {selected:?}"
                );
            }
            Some("Workload") if holds(old) => {
                let kept = new["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
                let gone = !kept && !new["metadata"]["deletionTimestamp"].is_null();
                if holds(new) && !gone {
                    return;
                }
                let uid = owner(old);
                let job = self.job().filter(|job| job["metadata"]["uid"] == uid);
                let others = self
                    .all("Workload")
                    .any(|w| owner(w) == uid && holds(w) && w["metadata"]["name"] != old["metadata"]["name"]);
                let over = job
                    .is_none_or(|job| ended(job) || !job["metadata"]["deletionTimestamp"].is_null())
                    || others;
                // Who un-suspends a job behind our back runs without quota until the watch tells.
                let late = self.is_late("Job") || self.is_late("Workload");
                assert!(
                    over || late || self.pods() == 0,
                    "quota was given back while {} pods ran",
                    self.pods()
                );
            }
            _ => {}
        }
    }

    /// Whether the operator has not seen all of a kind yet.
    fn is_late(&self, kind: &str) -> bool {
        self.watches.get(kind).is_some_and(|events| !events.is_empty())
    }

    pub fn pods(&self) -> i64 {
        self.running.as_ref().map_or(0, |(pods, _)| *pods) + self.ending
    }

    /// The job controller looks at the job.
    pub fn sync_job(&mut self) {
        let Some(job) = self.job().cloned() else {
            // The garbage collector takes the pods.
            self.running = None;
            self.ending = 0;
            return;
        };
        let mut new = job.clone();
        let suspended = job["spec"]["suspend"] == true;
        if !ended(&job) && job["metadata"]["deletionTimestamp"].is_null() {
            if suspended {
                if let Some((pods, _)) = self.running.take() {
                    self.ending += pods;
                }
                put(&mut new, "/status/startTime", Value::Null);
            } else if self.running.is_none() {
                let template = &job["spec"]["template"]["spec"]["nodeSelector"];
                self.running = Some((job["spec"]["parallelism"].as_i64().unwrap_or(1), template.clone()));
            } else if let Some((pods, _)) = self.running.as_mut() {
                *pods = job["spec"]["parallelism"].as_i64().unwrap_or(1);
            }
            let status = if suspended { "True" } else { "False" };
            put(&mut new, "/status/conditions", json!([{ "type": "Suspended", "status": status }]));
        }
        put(&mut new, "/status/active", json!(self.running.as_ref().map_or(0, |(pods, _)| *pods)));
        let ready = self.running.as_ref().filter(|_| self.healthy).map_or(0, |(pods, _)| *pods);
        put(&mut new, "/status/ready", json!(ready));
        put(&mut new, "/status/terminating", json!(self.ending));
        self.replace(("Job", "train".to_owned()), &job, new);
    }

    /// The pods that were ending are gone.
    pub fn pods_end(&mut self) {
        self.ending = 0;
    }

    /// The job's pods have done their work.
    pub fn job_completes(&mut self) {
        let Some(job) = self.job().cloned() else { return };
        if self.running.take().is_some() && job["spec"]["suspend"] == false {
            let mut new = job.clone();
            put(
                &mut new,
                "/status/conditions",
                json!([{ "type": "Complete", "status": "True", "message": "done" }]),
            );
            put(&mut new, "/status/active", json!(0));
            self.replace(("Job", "train".to_owned()), &job, new);
        }
    }

    /// The garbage collector deletes Workloads whose job is gone.
    pub fn collect(&mut self) {
        let uids: Vec<Value> = self.all("Job").map(|job| job["metadata"]["uid"].clone()).collect();
        let lost: Vec<String> = self
            .all("Workload")
            .filter(|w| !owner(w).is_null() && !uids.contains(&owner(w)))
            .map(|w| w["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        for name in lost {
            self.delete("Workload", &name);
        }
    }
}

/// The operator.
impl Cluster {
    /// A watch delivers its next event. Says whether there was one.
    pub fn deliver(&mut self, kind: &'static str) -> bool {
        let Some(event) = self.watches.get_mut(kind).and_then(VecDeque::pop_front) else { return false };
        match event {
            Event::Seen(object) => see(&mut self.operator, kind, object),
            Event::Gone(name) => match kind {
                "ResourceFlavor" => self.operator.delete_flavor(&name.as_str().into()),
                "ClusterQueue" => self.operator.delete_queue(&name.as_str().into()),
                "LocalQueue" => panic!("the tests keep them"),
                "Workload" => self.operator.delete_workload(&WorkloadKey::new("ns", name)),
                "Job" => self.operator.delete_job(&JobKey {
                    kind: "Job",
                    namespace: "ns".into(),
                    name: name.as_str().into(),
                }),
                other => panic!("{other}"),
            },
        }
        true
    }

    /// The operator starts anew: it knows nothing, and lists the kinds in some order.
    pub fn restart(&mut self, kinds: &[&'static str]) {
        self.operator = operator(&self.settings);
        self.timers.clear();
        self.retries.clear();
        self.watches.clear();
        for kind in kinds {
            for object in self.all(kind).cloned().collect::<Vec<_>>() {
                see(&mut self.operator, kind, object);
            }
        }
        self.operator.all_due();
    }

    /// So much time goes by.
    pub fn later(&mut self, seconds: i64) {
        self.now += seconds * 1000;
    }

    /// Time goes by until something is due, if something will be.
    pub fn sleep(&mut self) -> bool {
        let next = self.timers.values().copied().filter(|at| at.0 > self.now).min();
        self.now = next.map_or(self.now, |at| at.0);
        next.is_some()
    }

    /// A turn of the engine: a plan, and one step for each whose turn it is. Says whether anything was sent.
    pub fn turn(&mut self) -> bool {
        self.now += 1000;
        let now = Timestamp(self.now);
        let sent = self.writes.len();
        self.operator.state.settle();
        for admit in self.planned(now) {
            let Some((write, _)) = self.operator.admission(&admit) else { continue };
            self.operator.state.assume(&admit);
            match self.send(&write) {
                Ok(object) => self.operator.confirm_workload(&serde_json::from_value(object).unwrap()),
                Err(Refused::Gone) => self.operator.delete_workload(&admit.workload),
                Err(_) => {
                    self.operator.state.refuse(&admit.workload, "conflict".to_owned());
                    self.operator.state.try_again(&admit.workload);
                }
            }
        }
        let due = self.operator.take_due();
        let mut tasks: BTreeSet<Due> = std::mem::take(&mut self.retries);
        tasks.extend(due.jobs.into_iter().map(Due::Job));
        tasks.extend(due.orphans.into_iter().map(Due::Orphan));
        tasks.extend(self.timers.iter().filter(|(_, at)| **at <= now).map(|(task, _)| task.clone()));
        for task in tasks {
            let wakes = match &task {
                Due::Job(key) => self.operator.job_wakes(key, now),
                Due::Orphan(key) => self.operator.orphan_wakes(key, now),
            };
            match wakes {
                Some(at) => self.timers.insert(task.clone(), at),
                None => self.timers.remove(&task),
            };
            let step = match &task {
                Due::Job(key) => self.operator.next_step(key, now),
                Due::Orphan(key) => self.operator.next_orphan_step(key, now),
            };
            match self.carry_out(step, &task) {
                Ok(()) => {
                    if let Due::Job(key) = &task {
                        self.operator.job_due(key);
                    }
                }
                Err(None) => {}
                Err(Some(Refused::Invalid(why))) => panic!("refused for good: {why}"),
                Err(Some(_)) => {
                    self.retries.insert(task);
                }
            }
        }
        self.writes.len() > sent
    }

    fn planned(&mut self, now: Timestamp) -> Vec<whalezen_core::plan::Admit> {
        let plan = plan(&self.operator.state, now, &Policy::default());
        self.operator.state.follow(&plan, now, &Policy::default());
        plan.admit
    }

    /// `Err(None)`: there was nothing to do.
    fn carry_out(&mut self, step: Step, task: &Due) -> Result<(), Option<Refused>> {
        let answer = match step {
            // Nobody gates pods here.
            Step::Rest | Step::Stuck(_) | Step::Ungate { .. } | Step::Bind { .. } | Step::Move(..) => {
                return Err(None);
            }
            Step::Write(write, _) => self.send(&write)?,
            Step::IfGone { job, uid, write } => {
                if self.get("Job", &job.name).is_some_and(|job| job["metadata"]["uid"] == uid) {
                    return Ok(());
                }
                self.send(&write)?
            }
            Step::Create(priority) => {
                let job = self.job().cloned().ok_or(Refused::Gone)?;
                let workload = build::workload(&read(job).whole().unwrap(), priority);
                let name = workload.metadata.name.clone().unwrap();
                self.writes.push(format!("create {name}"));
                if self.get("Workload", &name).is_some() {
                    return Err(Some(Refused::Conflict));
                }
                self.create("Workload", serde_json::to_value(&workload).unwrap())
            }
            Step::Grow(priority, before) => {
                let job = self.job().cloned().ok_or(Refused::Gone)?;
                let before = self.get("Workload", &before.name).cloned().ok_or(Refused::Gone)?;
                let before = serde_json::from_value(before).unwrap();
                let next = build::successor(&read(job).whole().unwrap(), &before, priority);
                let name = next.metadata.name.clone().unwrap();
                self.writes.push(format!("create {name} after {}", before.metadata.name.unwrap()));
                if self.get("Workload", &name).is_some() {
                    return Err(Some(Refused::Conflict));
                }
                self.create("Workload", serde_json::to_value(&next).unwrap())
            }
            Step::Update(priority) => {
                let Due::Job(key) = task else { panic!("an orphan has no job") };
                let key = self.operator.workload_of(key).unwrap().clone();
                let version = self.operator.state.workload(&key).unwrap().version;
                let job = self.job().cloned().ok_or(Refused::Gone)?;
                self.send(&build::update(&read(job).whole().unwrap(), &key, version, priority))?
            }
            Step::Restore => {
                let Due::Job(key) = task else { panic!("an orphan has no job") };
                let name = self.operator.workload_of(key).unwrap().name.to_string();
                let workload = self.get("Workload", &name).cloned().ok_or(Refused::Gone)?;
                let job = self.job().cloned().ok_or(Refused::Gone)?;
                let write = read(job.clone()).restore(&serde_json::from_value(workload).unwrap(), 0);
                write.map_or(Ok(job), |write| self.send(&write))?
            }
        };
        match answer["kind"].as_str() {
            Some("Workload") => self.operator.confirm_workload(&serde_json::from_value(answer).unwrap()),
            Some("Job") => self.operator.confirm_job(&read(answer)),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn send(&mut self, write: &Write) -> Result<Value, Refused> {
        let answer = self.write(write);
        let outcome = answer.as_ref().err().map_or(String::new(), |refused| format!(" {refused:?}"));
        self.writes.push(format!("{:?} {} {}{outcome}", write.verb, write.target.kind, write.body));
        answer
    }
}

/// An operator that knows the namespace and a check that is answered, and nothing else.
fn operator(settings: &Settings) -> Objects {
    let mut operator = Objects::new(settings.clone());
    operator.apply_namespace(&crate::object::namespace("ns").read());
    operator.apply_check(&crate::object::admission_check("dws", true).read());
    operator
}

fn read(job: Value) -> AnyJob {
    AnyJob::Batch(Box::new(serde_json::from_value(job).unwrap()))
}

fn see(operator: &mut Objects, kind: &str, object: Value) {
    match kind {
        "ResourceFlavor" => operator.apply_flavor(&serde_json::from_value(object).unwrap()),
        "ClusterQueue" => operator.apply_queue(&serde_json::from_value(object).unwrap()),
        "LocalQueue" => operator.apply_local_queue(&serde_json::from_value(object).unwrap()),
        "Workload" => operator.apply_workload(&serde_json::from_value(object).unwrap()),
        "Job" => operator.apply_job(&read(object)),
        other => panic!("{other}"),
    }
}

/// The uid of a Workload's job.
pub fn owner(workload: &Value) -> Value {
    workload["metadata"]["ownerReferences"][0]["uid"].clone()
}

/// Whether a condition is `True`.
pub fn is(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == type_ && c["status"] == "True")
}

/// Whether a Workload holds quota.
pub fn holds(workload: &Value) -> bool {
    is(workload, "QuotaReserved") && !is(workload, "Finished") && !workload["status"]["admission"].is_null()
}

fn ended(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

/// The API server's rules for changes, those that matter here.
fn check(old: &Value, new: &Value) -> Result<(), String> {
    if new["kind"] == "Job" && old["spec"]["template"] != new["spec"]["template"] {
        let rests = old["spec"]["suspend"] == true && is(old, "Suspended");
        if !rests || old["status"]["active"].as_i64().unwrap_or(0) > 0 {
            return Err("the template is immutable now".to_owned());
        }
        let fixed = |job: &Value| job["spec"]["template"]["spec"]["containers"].clone();
        if fixed(old) != fixed(new) && !is(old, "Suspended") {
            return Err("containers are immutable".to_owned());
        }
    }
    if new["kind"] == "Workload" && holds(old) && holds(new) {
        if old["spec"]["queueName"] != new["spec"]["queueName"] {
            return Err("queueName is immutable while quota is held".to_owned());
        }
        let (mut before, after) = (old["spec"]["podSets"].clone(), &new["spec"]["podSets"]);
        if after[0]["count"].as_i64() < before[0]["count"].as_i64() {
            before[0]["count"] = after[0]["count"].clone();
        }
        if before != *after {
            return Err("podSets is immutable while quota is held, but for fewer pods".to_owned());
        }
        let class = |w: &Value| w["spec"]["priorityClassRef"]["kind"].clone();
        if class(old) != class(new) {
            return Err("the class is immutable while quota is held".to_owned());
        }
    }
    Ok(())
}

/// RFC 7396.
fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let object = into.as_object_mut().unwrap();
    for (key, value) in fields {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// What typed objects drop when they are read: nulls and empty maps and lists in a template.
fn drop_nulls(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}
