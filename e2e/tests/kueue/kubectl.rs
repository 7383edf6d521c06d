//! What kubectl shows of Kueue's objects.

use std::path::Path;

use serde_json::Value;

use crate::ground::Ground;
use crate::objects::job;

/// The words of the first line, with single spaces between them.
fn header(table: &str) -> String {
    table.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn kubectl_explains_every_field_in_words() {
    let ground = Ground::empty("explain").await;
    let preemption = ground.kubectl(&["explain", "clusterqueue.spec.preemption"]).await;
    for word in
        ["DESCRIPTION", "withinClusterQueue", "reclaimWithinCohort", "borrowWithinCohort", "LowerPriority"]
    {
        assert!(preemption.contains(word), "{word} is not in:\n{preemption}");
    }
    for field in
        ["clusterqueue.spec", "localqueue.spec", "workload.spec", "workload.status", "resourceflavor.spec"]
    {
        let explained = ground.kubectl(&["explain", field]).await;
        assert!(!explained.contains("<no description>"), "{field}:\n{explained}");
    }
}

#[tokio::test]
async fn kubectl_get_shows_kueues_columns_under_kueues_short_names() {
    let ground = Ground::new("columns", 1).await;
    ground.create(job("done", 1, 1, Some("100ms"))).await;
    ground.finished("done", "Succeeded").await;
    ground.create(job("runs", 1, 1, None)).await;
    ground.admitted("runs").await;
    ground.create(job("waits", 1, 1, None)).await;
    ground.counts("columns", 1, 1, 1).await;
    for (names, columns, row) in [
        ("cq", "NAME COHORT PENDING WORKLOADS", "columns 1"),
        ("lq", "NAME CLUSTERQUEUE PENDING WORKLOADS ADMITTED WORKLOADS", "main columns 1 1"),
        ("queues", "NAME CLUSTERQUEUE PENDING WORKLOADS ADMITTED WORKLOADS", "main columns 1 1"),
        ("rf", "NAME AGE", "columns"),
    ] {
        let name = if row.starts_with("main") { "main" } else { "columns" };
        let table = ground.kubectl(&["get", names, name]).await;
        assert_eq!(header(&table), columns);
        let shown = header(table.lines().nth(1).unwrap());
        assert!(shown.starts_with(row), "{shown}");
    }
    let table = ground.kubectl(&["get", "workloads"]).await;
    assert_eq!(header(&table), "NAME QUEUE RESERVED IN ADMITTED FINISHED AGE");
    let row =
        |job: &str| header(table.lines().find(|line| line.starts_with(&format!("job-{job}-"))).unwrap());
    assert!(row("done").contains("main columns True True"), "{table}");
    assert!(row("runs").contains("main columns True"), "{table}");
    assert!(row("waits").contains("main") && !row("waits").contains("columns"), "{table}");
    // `kubectl get cq,lq,workloads` in one.
    let all = ground.kubectl(&["get", "cq,lq,workloads"]).await;
    assert!(all.contains("clusterqueue.kueue.x-k8s.io/columns"), "{all}");
    // Workloads can be selected by the ClusterQueue that they are in.
    let selector = "--field-selector=status.admission.clusterQueue=columns";
    let selected = ground.kubectl(&["get", "workloads", selector, "--output=name"]).await;
    assert_eq!(selected.lines().count(), 2, "{selected}");
}

#[tokio::test]
async fn kubectl_wait_sees_a_workload_finish() {
    let ground = Ground::new("wait", 1).await;
    ground.create(job("job", 1, 1, Some("1s"))).await;
    let workload = format!("workload/{}", ground.workload_of("job").await);
    ground.kubectl(&["wait", "--for=condition=Finished", "--timeout=40s", &workload]).await;
    let job = ground.get("Job", "job").await.unwrap();
    assert_eq!(job["status"]["succeeded"], 1, "{job:#}");
}

#[tokio::test]
async fn every_kind_applies_with_every_field_and_nothing_is_pruned() {
    let ground = Ground::empty("examples").await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds/tests/examples");
    let mut objects = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let yaml = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut object: Value = serde_saphyr::from_str(&yaml).unwrap();
        // Nobody else's namespace, and no name that other tests use.
        object["metadata"]["name"] = "every-field".into();
        if object["metadata"].get("namespace").is_some() {
            object["metadata"]["namespace"] = "examples".into();
        }
        // What the API server answers is what it stored; a moment later the operator may have written.
        let strict = ["apply", "--server-side", "--validate=strict", "--filename=-", "--output=json"];
        let applied = ground.site.cluster.kubectl_with_input(&strict, &object.to_string()).await;
        let applied = applied.unwrap_or_else(|error| panic!("{yaml}\n{error}"));
        let kind = object["kind"].as_str().unwrap().to_owned();
        let stored: Value = serde_json::from_str(&applied).unwrap();
        contains(&kind, &stored["spec"], &object["spec"]);
        objects += 1;
    }
    assert_eq!(objects, 14);
}

/// Whether everything that was given is there, numbers and quantities in whatever form.
fn contains(path: &str, stored: &Value, given: &Value) {
    match (stored, given) {
        (Value::Object(stored), Value::Object(given)) => {
            for (key, value) in given {
                contains(&format!("{path}.{key}"), stored.get(key).unwrap_or(&Value::Null), value);
            }
        }
        (Value::Array(stored), Value::Array(given)) => {
            assert_eq!(stored.len(), given.len(), "{path}");
            for (index, (stored, given)) in stored.iter().zip(given).enumerate() {
                contains(&format!("{path}[{index}]"), stored, given);
            }
        }
        (stored, given) => assert_eq!(stored, given, "{path}"),
    }
}
