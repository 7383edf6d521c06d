//! The manifests of `scenarios/kueue` do what they promise: queues and what else an administrator makes are applied as they
//! stand, and then job by job what the test is about.

mod checks;
mod jobs;
mod kinds;
mod old_words;
mod places;
mod preemption;
mod queues;
mod serving;
mod shares;
mod workloads;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::ground::{Ground, Site, condition, is, shared, text};
use crate::objects::GPU;

const APPLY: [&str; 4] = ["apply", "--server-side", "--validate=strict", "--filename=-"];

/// A file of manifests, and where it is tried.
struct Scenario {
    objects: Vec<Value>,
    /// One for each namespace, the first of which has the scenario's name.
    grounds: BTreeMap<String, Ground>,
    name: String,
}

impl Scenario {
    /// A scenario in the site that all tests share, with all of its queues.
    async fn set_up(name: &str) -> Self {
        let scenario = Self::on(&shared().await, name).await;
        scenario.queues().await.unwrap();
        scenario
    }

    /// A scenario of which nothing is applied yet.
    async fn on(site: &Arc<Site>, name: &str) -> Self {
        let file = format!("{}/scenarios/kueue/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let yaml = std::fs::read_to_string(Path::new(&file)).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
        let mut grounds = BTreeMap::new();
        for namespace in objects.iter().filter(|object| object["kind"] == "Namespace") {
            let name = text(namespace, "/metadata/name");
            grounds.insert(name.to_owned(), Ground::bare(site, name).await);
        }
        let name = objects.iter().find(|object| object["kind"] == "Namespace");
        let name = name.map(|namespace| text(namespace, "/metadata/name").to_owned()).unwrap();
        Self { objects, grounds, name }
    }

    /// Applies all that is not submitted to a queue.
    async fn queues(&self) -> anyhow::Result<String> {
        let set_up = self.objects.iter().filter(|object| !is_submitted(object));
        let documents: Vec<String> = set_up.map(Value::to_string).collect();
        self.site().cluster.kubectl_with_input(&APPLY, &documents.join("\n---\n")).await
    }

    fn site(&self) -> &Site {
        &self.ground().site
    }

    /// The first of its namespaces.
    fn ground(&self) -> &Ground {
        &self.grounds[&self.name]
    }

    /// What is submitted by this name, and where.
    fn submitted(&self, name: &str) -> (&Value, &Ground) {
        let mut all = self.objects.iter().filter(|object| is_submitted(object));
        let object = all.find(|object| object["metadata"]["name"] == name);
        let object = object.unwrap_or_else(|| panic!("the scenario has no {name}"));
        (object, &self.grounds[text(object, "/metadata/namespace")])
    }

    /// Submits a job, a pod or a Workload.
    async fn submit(&self, name: &str) {
        self.submit_all(&[name]).await;
    }

    /// Submits several at once.
    async fn submit_all(&self, names: &[&str]) {
        let taken = async || {
            let mut missing = Vec::new();
            for name in names {
                let (object, ground) = self.submitted(name);
                // What was taken the time before may have been started since, and is not to be applied again.
                let there = ground.api(text(object, "/kind")).get_opt(name).await;
                if !matches!(there, Ok(Some(_))) {
                    missing.push(object.to_string());
                }
            }
            if missing.is_empty() {
                return true;
            }
            match self.site().cluster.kubectl_with_input(&APPLY, &missing.join("\n---\n")).await {
                Ok(_) => true,
                // A kind that was defined just now is not known everywhere at once.
                Err(problem) if format!("{problem:#}").contains("ServiceUnavailable") => false,
                Err(problem) => panic!("{names:?}: {problem:#}"),
            }
        };
        self.ground().until(&format!("{names:?} to be taken"), taken).await;
    }

    /// Deletes a job, a pod or a Workload.
    async fn delete(&self, name: &str) {
        let (object, ground) = self.submitted(name);
        ground.delete(text(object, "/kind"), name).await;
    }

    /// The Workload of what was submitted, once this holds of it.
    async fn sees(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let (object, ground) = self.submitted(name);
        let workload = match text(object, "/kind") {
            "Workload" => name.to_owned(),
            kind => ground.workload_of_kind(kind, name).await,
        };
        ground.sees("Workload", &workload, &format!("{name} {what}"), holds).await
    }

    /// Its Workload once it is admitted.
    async fn admitted(&self, name: &str) -> Value {
        self.sees(name, "is admitted", |workload| is(workload, "Admitted")).await
    }

    /// Submits it and sees it admitted.
    async fn gets_in(&self, name: &str) -> Value {
        self.submit(name).await;
        self.admitted(name).await
    }

    /// Submits it and sees it wait by this reason. Gives the words.
    async fn has_to_wait(&self, name: &str, reason: &str) -> String {
        self.submit(name).await;
        self.waits(name, reason).await
    }

    /// Why it waits, once it waits by this reason.
    async fn waits(&self, name: &str, reason: &str) -> String {
        let by_reason = |workload: &Value| {
            condition(workload, "QuotaReserved")
                .is_some_and(|c| c["status"] == "False" && c["reason"] == reason)
        };
        let workload = self.sees(name, &format!("waits by reason of {reason}"), by_reason).await;
        text(condition(&workload, "QuotaReserved").unwrap(), "/message").to_owned()
    }

    /// Sees it stopped by preemption on this ground.
    async fn is_preempted(&self, name: &str, ground: &str) {
        let stopped = |workload: &Value| {
            condition(workload, "Preempted").is_some_and(|c| c["status"] == "True" && c["reason"] == ground)
        };
        self.sees(name, &format!("is preempted by reason of {ground}"), stopped).await;
    }

    /// Whether nobody stopped it since it was admitted.
    async fn is_undisturbed(&self, name: &str) -> bool {
        let workload = self.sees(name, "is there", |_| true).await;
        is(&workload, "Admitted") && condition(&workload, "Evicted").is_none()
    }
}

/// Whether an object is for a queue: what else is in a namespace are queues.
fn is_submitted(object: &Value) -> bool {
    object["metadata"].get("namespace").is_some() && object["kind"] != "LocalQueue"
}

/// The flavor that the first pod set of a Workload got for its GPUs.
fn flavor(workload: &Value) -> &str {
    workload["status"]["admission"]["podSetAssignments"][0]["flavors"][GPU].as_str().unwrap()
}

/// The pod sets of an admitted Workload: their names and how many pods they were given.
fn counts(workload: &Value) -> Vec<(&str, u64)> {
    let sets = workload["status"]["admission"]["podSetAssignments"].as_array().unwrap().iter();
    sets.map(|set| (text(set, "/name"), set["count"].as_u64().unwrap())).collect()
}

/// What a controller of checks says of a check or for a Workload, at this time.
fn said(what: Value) -> Value {
    let mut said = json!({
        "message": "said the test",
        "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let Value::Object(what) = what else { panic!("{what} has no fields") };
    said.as_object_mut().unwrap().extend(what);
    said
}

/// Has the controller of a check say that it works.
async fn checks_work(ground: &Ground, checks: &[&str]) {
    for check in checks {
        let active = said(json!({ "type": "Active", "status": "True", "reason": "Up" }));
        ground.patch_status("AdmissionCheck", check, json!({ "conditions": [active] })).await;
    }
}
