//! A leader that dies, and a restart of both replicas, in the middle of the work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ground::{Ground, Site, is, policies_in_force, text};
use crate::journal::replay_all;
use crate::objects::{cluster_queue, flavor, in_queue, job, local_queue};

/// Within this time another replica leads.
const TAKEOVER: Duration = Duration::from_secs(20);
/// The quota of each of the two queues.
const QUOTA: u32 = 8;
/// The jobs of each queue.
const JOBS: u32 = 16;

/// What was ever seen of the Workloads and pods of a namespace, event by event in the API server's order.
#[derive(Default)]
struct Seen {
    workloads: BTreeMap<String, Value>,
    /// How often each Workload got its quota.
    reserved: BTreeMap<String, u32>,
    pods: BTreeMap<String, Value>,
    /// Every pod that ever was, by job.
    pods_of: BTreeMap<String, BTreeSet<String>>,
    /// What happened to quota and pods, for a report of what went wrong.
    course: Vec<String>,
    problems: Vec<String>,
}

impl Seen {
    fn workload(&mut self, workload: &Value) {
        let name = text(workload, "/metadata/name").to_owned();
        let before = self.workloads.get(&name).is_some_and(|before| is(before, "QuotaReserved"));
        if is(workload, "QuotaReserved") && !before {
            *self.reserved.entry(name.clone()).or_default() += 1;
        }
        self.note(workload, held(workload));
        self.workloads.insert(name, workload.clone());
        let held: u32 = self.workloads.values().map(held).sum();
        if held > 2 * QUOTA {
            let at = text(workload, "/metadata/resourceVersion");
            self.problems.push(format!("{held} GPUs are given of {} at {at}", 2 * QUOTA));
        }
    }

    fn note(&mut self, object: &Value, gpus: u32) {
        let (name, at) = (text(object, "/metadata/name"), text(object, "/metadata/resourceVersion"));
        self.course.push(format!("{at}: {name} has {gpus} GPUs {}", text(object, "/status/phase")));
    }

    fn pod(&mut self, pod: &Value) {
        let uid = text(pod, "/metadata/uid").to_owned();
        let job = text(pod, "/metadata/labels/batch.kubernetes.io~1job-name").to_owned();
        self.pods_of.entry(job).or_default().insert(uid.clone());
        self.note(pod, used(pod));
        self.pods.insert(uid, pod.clone());
        let used: u32 = self.pods.values().map(used).sum();
        if used > 2 * QUOTA {
            let at = text(pod, "/metadata/resourceVersion");
            self.problems.push(format!("{used} GPUs are used of {} at {at}", 2 * QUOTA));
        }
    }

    fn workload_gone(&mut self, workload: &Value) {
        self.note(workload, 0);
        self.workloads.remove(text(workload, "/metadata/name"));
    }

    fn pod_gone(&mut self, pod: &Value) {
        self.note(pod, 0);
        self.pods.remove(text(pod, "/metadata/uid"));
    }

    /// Fails unless quota was kept at every moment, and each Workload got it once.
    fn check(&self, site: &Site) {
        let twice: Vec<_> = self.reserved.iter().filter(|(_, times)| **times != 1).collect();
        let pods: Vec<_> = self.pods_of.iter().map(|(job, pods)| format!("{job}: {}", pods.len())).collect();
        assert!(
            self.problems.is_empty() && twice.is_empty(),
            "problems: {:#?}\nnot admitted once: {twice:?}\npods: {pods:?}\n{}\nThe operator says:\n{}",
            self.problems,
            self.course.join("\n"),
            site.log()
        );
    }

    fn finished(&self) -> usize {
        self.workloads.values().filter(|workload| is(workload, "Finished")).count()
    }

    fn admitted(&self) -> usize {
        self.workloads.values().filter(|workload| is(workload, "Admitted")).count()
    }
}

/// The GPUs that a Workload holds.
fn held(workload: &Value) -> u32 {
    if !is(workload, "QuotaReserved") || is(workload, "Finished") {
        return 0;
    }
    let given = "/status/admission/podSetAssignments/0";
    let gpus: u32 = text(workload, &format!("{given}/resourceUsage/nvidia.com~1gpu")).parse().unwrap();
    let number = |at: &str| workload.pointer(at).and_then(Value::as_u64).unwrap_or_default();
    let pods = u32::try_from(number(&format!("{given}/count"))).unwrap();
    // Pods that have done their work hold nothing any more.
    let done = u32::try_from(number("/status/reclaimablePods/0/count")).unwrap();
    gpus / pods * (pods - done)
}

/// The GPUs that a pod uses.
fn used(pod: &Value) -> u32 {
    match text(pod, "/status/phase") {
        "Succeeded" | "Failed" => 0,
        _ => text(pod, "/spec/containers/0/resources/limits/nvidia.com~1gpu").parse().unwrap(),
    }
}

/// Watches a namespace from now on.
fn observe(ground: &Ground) -> (Arc<Mutex<Seen>>, JoinSet<()>) {
    type Take = fn(&mut Seen, &Value);
    let kinds: [(&str, Take, Take); 2] =
        [("Workload", Seen::workload, Seen::workload_gone), ("Pod", Seen::pod, Seen::pod_gone)];
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut watches = JoinSet::new();
    for (kind, is_so, is_gone) in kinds {
        let mut events = watcher(ground.api(kind), watcher::Config::default()).boxed();
        let seen = Arc::clone(&seen);
        watches.spawn(async move {
            while let Some(event) = events.next().await {
                let (take, object) = match event.unwrap() {
                    watcher::Event::Apply(object) | watcher::Event::InitApply(object) => (is_so, object),
                    watcher::Event::Delete(object) => (is_gone, object),
                    watcher::Event::Init | watcher::Event::InitDone => continue,
                };
                take(&mut seen.lock().unwrap(), &serde_json::to_value(object).unwrap());
            }
        });
    }
    (seen, watches)
}

/// A site whose replicas may be killed, with two queues in a cohort.
async fn start(name: &str) -> (Arc<Site>, Ground) {
    let site = Site::start(4, true).await;
    policies_in_force(&site).await;
    let ground = Ground::bare(&site, name).await;
    ground.apply(&flavor(name)).await;
    for queue in ["a", "b"] {
        let mut object = cluster_queue(queue, name, QUOTA);
        object["spec"]["cohortName"] = json!("both");
        ground.apply(&object).await;
        ground.apply(&local_queue(name, queue, queue)).await;
        ground.is_active(queue).await;
    }
    (site, ground)
}

#[tokio::test]
async fn when_the_leader_is_killed_amid_admissions_the_other_goes_on_and_nothing_happens_twice() {
    let (site, ground) = start("takeover").await;
    let (seen, _watches) = observe(&ground);
    let total = usize::try_from(2 * JOBS).unwrap();
    let submit = async {
        for index in 0..JOBS {
            for queue in ["a", "b"] {
                let (pods, gpus) = (1 + index % 2, 1 + index % 3);
                let job = job(&format!("{queue}-{index}"), pods, gpus, Some("1s"));
                ground.create(in_queue(job, queue)).await;
            }
        }
    };
    let fail = async {
        // Some run, some are being admitted, and some are still being submitted.
        ground.until("the first admissions", async || seen.lock().unwrap().admitted() >= 3).await;
        let mut replicas = site.replicas.lock().await;
        let killed = replicas.kill_leader().await.unwrap();
        let at = Instant::now();
        let successor = timeout(TAKEOVER, replicas.elected()).await;
        let successor =
            successor.unwrap_or_else(|_| panic!("nobody leads{}", replicas.last_words())).unwrap();
        println!("{successor} took over from {killed} after {:?}", at.elapsed());
        assert_ne!(successor, killed);
    };
    tokio::join!(submit, fail);
    site.note_logs().await;
    ground.until("the end of all jobs", async || seen.lock().unwrap().finished() == total).await;
    for queue in ["a", "b"] {
        ground.counts(queue, 0, 0, 0).await;
    }

    replay_all(&site).await;
    let seen = seen.lock().unwrap();
    seen.check(&site);
    assert_eq!(seen.reserved.len(), total);
    for index in 0..JOBS {
        for queue in ["a", "b"] {
            let name = format!("{queue}-{index}");
            let pods = seen.pods_of.get(&name).map_or(0, BTreeSet::len);
            assert_eq!(pods, usize::try_from(1 + index % 2).unwrap(), "pods of {name}");
        }
    }
}

#[tokio::test]
async fn when_both_replicas_are_killed_and_started_again_what_is_used_is_what_was_used() {
    let (site, ground) = start("restart").await;
    let (seen, _watches) = observe(&ground);
    for (name, gpus, queue) in [("one", 5, "a"), ("two", 6, "a"), ("three", 3, "b")] {
        ground.create(in_queue(job(name, 1, gpus, None), queue)).await;
        ground.runs(name).await;
    }
    for (name, gpus, queue) in [("four", 4, "a"), ("five", 3, "b")] {
        ground.create(in_queue(job(name, 1, gpus, None), queue)).await;
        ground.waits(name, "WaitingForQuota").await;
    }
    let a = ground.counts("a", 1, 2, 11).await;
    let b = ground.counts("b", 1, 1, 3).await;
    let queued = ground.get("Workload", &ground.workload_of("four").await).await.unwrap();
    {
        let mut replicas = site.replicas.lock().await;
        replicas.kill_all().unwrap();
        // Nobody is there: jobs are submitted and end all the same.
        ground.create(in_queue(job("late", 1, 2, Some("100ms")), "b")).await;
        ground.delete("Job", "three").await;
        replicas.start_another(&site.cluster).unwrap();
        replicas.start_another(&site.cluster).unwrap();
        timeout(TAKEOVER, replicas.elected()).await.unwrap().unwrap();
    }
    site.note_logs().await;
    // What the dead could not see is put right, and what was is as it was. There is room for both that are let in
    // now, in whatever order they are met.
    ground.finished("late", "Succeeded").await;
    ground.runs("five").await;
    let after = ground.counts("a", 1, 2, 11).await;
    assert_eq!(after["status"], a["status"]);
    let after = ground.counts("b", 0, 1, 3).await;
    assert_eq!(after["status"]["conditions"], b["status"]["conditions"]);
    let still = ground.get("Workload", text(&queued, "/metadata/name")).await.unwrap();
    assert_eq!(still["metadata"]["uid"], queued["metadata"]["uid"]);
    replay_all(&site).await;
    let seen = seen.lock().unwrap();
    seen.check(&site);
    for (job, pods) in &seen.pods_of {
        assert_eq!(pods.len(), 1, "pods of {job}");
    }
}
