//! What Prometheus reads.

use std::time::{Duration, Instant};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use tokio::sync::watch;
use tower::ServiceExt as _;
use whalezen_agent::{
    claims::Claims,
    device::{Activity, Event, EventKind, InstanceLoad, Load, Pci},
    metrics::{
        Metric, Names, Shown,
        serve::{Sources, router},
        text,
    },
    sense::Sensed,
    view::View,
    xid::Xids,
};
use whalezen_crds::scheduling::v1alpha1::Holder;

use crate::ground::{gpu, gpu_id, mig, mig_id, node};

const MIB: u64 = 1 << 20;

fn shown(view: &View, sensed: &Sensed, xids: &Xids, names: Names) -> String {
    text(Shown { node: "node-1", view, sensed, xids, now: Instant::now() }, names).unwrap()
}

fn held(holders: &[&str]) -> Vec<Holder> {
    let holder =
        |pod: &&str| Holder { namespace: "team".into(), pod: (*pod).into(), container: "main".into() };
    holders.iter().map(holder).collect()
}

/// A GPU that tells everything but what its tensor cores do.
fn busy() -> Load {
    let activity = Activity {
        graphics: Some(9900),
        sm: Some(8123),
        tensor: None,
        dram: Some(5000),
        pcie_tx: Some(3),
        pcie_rx: Some(4),
        nvlink_tx: Some(450_000_000_000),
        nvlink_rx: Some(5),
    };
    Load {
        gpu_percent: Some(87),
        memory_percent: Some(41),
        memory_used: Some(1000 * MIB),
        memory_free: Some(80_559 * MIB),
        power_mw: Some(612_500),
        temperature_c: Some(66),
        activity: Some(activity),
        ..Load::default()
    }
}

/// The lines of a metric.
fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).collect()
}

#[test]
fn a_gpu_is_shown_under_the_names_and_labels_of_the_dcgm_exporter_with_who_has_it() {
    let mut view = node(vec![gpu(0)]);
    view.gpus[0].gpu.pci = Some(Pci { bus_id: "00000000:0F:00.0".into(), id: 0x2330_10DE });
    view.claims = Claims::Known([(gpu_id(0), held(&["train-0"]))].into());
    let mut sensed = Sensed::default();
    let load = busy();
    sensed.note(&gpu_id(0), load, Instant::now());
    let text = shown(&view, &sensed, &Xids::default(), Names::Dcgm);
    let labels = format!(
        "{{gpu=\"0\",UUID=\"{}\",pci_bus_id=\"00000000:0F:00.0\",device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",\
         Hostname=\"node-1\",namespace=\"team\",pod=\"train-0\",container=\"main\"}}",
        gpu_id(0)
    );
    for (name, value) in [
        ("DCGM_FI_DEV_GPU_UTIL", "87.0"),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", "41.0"),
        ("DCGM_FI_DEV_FB_USED", "1000.0"),
        ("DCGM_FI_DEV_FB_FREE", "80559.0"),
        ("DCGM_FI_DEV_POWER_USAGE", "612.5"),
        ("DCGM_FI_DEV_GPU_TEMP", "66.0"),
        ("DCGM_FI_DEV_XID_ERRORS", "0.0"),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.99"),
        ("DCGM_FI_PROF_SM_ACTIVE", "0.8123"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "0.5"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "3.0"),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", "4.0"),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", "450000000000.0"),
        ("DCGM_FI_PROF_NVLINK_RX_BYTES", "5.0"),
    ] {
        assert_eq!(lines(&text, name), [format!("{name}{labels} {value}")]);
    }
    assert_eq!(lines(&text, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), [""; 0], "what is not told is not there");
}

#[test]
fn an_instance_is_a_series_of_its_own_and_shared_devices_have_one_for_each_container() {
    let mut view = node(vec![mig(2, &[("3g.40gb", 4)])]);
    view.claims = Claims::Known([(mig_id(2, 4), held(&["a", "b"]))].into());
    let mut sensed = Sensed::default();
    let of = |uuid, used| InstanceLoad {
        uuid,
        gpu_instance: 11,
        memory_used: Some(used * MIB),
        memory_free: None,
        activity: Some(Activity { sm: Some(1), ..Activity::default() }),
    };
    let instances = vec![of(mig_id(2, 4), 7), of(mig_id(2, 0), 9)];
    sensed.note(&gpu_id(2), Load { power_mw: Some(1), instances, ..Load::default() }, Instant::now());
    let text = shown(&view, &sensed, &Xids::default(), Names::Dcgm);
    let used = lines(&text, "DCGM_FI_DEV_FB_USED");
    assert_eq!(used.len(), 2, "{used:?}");
    for pod in ["a", "b"] {
        let labels = format!("GPU_I_PROFILE=\"3g.40gb\",GPU_I_ID=\"11\",namespace=\"team\",pod=\"{pod}\"");
        assert!(used.iter().any(|line| line.contains(&labels) && line.ends_with(" 7.0")), "{used:?}");
    }
    assert!(used.iter().all(|line| line.contains(gpu_id(2).as_str())), "the UUID is that of the GPU");
    let power = lines(&text, "DCGM_FI_DEV_POWER_USAGE");
    assert!(power.len() == 1 && !power[0].contains("GPU_I_ID"), "{power:?}");
}

#[test]
fn a_gpu_that_does_not_answer_shows_its_last_error_and_no_old_numbers() {
    let view = node(vec![gpu(0)]);
    let mut sensed = Sensed::default();
    let long_ago = Instant::now().checked_sub(Duration::from_secs(20)).unwrap();
    sensed.note(&gpu_id(0), Load { gpu_percent: Some(99), ..Load::default() }, long_ago);
    let mut xids = Xids::default();
    xids.note(&Event { gpu: gpu_id(0), kind: EventKind::Xid(13) });
    xids.note(&Event { gpu: gpu_id(0), kind: EventKind::Xid(79) });
    xids.note(&Event { gpu: gpu_id(1), kind: EventKind::DoubleBitEcc });
    let text = shown(&view, &sensed, &xids, Names::Dcgm);
    assert!(lines(&text, "DCGM_FI_DEV_XID_ERRORS")[0].ends_with(" 79.0"));
    assert_eq!(lines(&text, "DCGM_FI_DEV_GPU_UTIL"), [""; 0]);
}

/// What `promtool check metrics` complains of, as far as it can be broken here: metrics without help, names that are not
/// in snake case, abbreviated units, counters without `_total`. Our own names are DCGM's, so all that it finds is the
/// label `modelName`, and not even that under `labels=snake_case`.
#[test]
fn the_text_is_what_promtool_accepts_but_for_the_label_that_dashboards_know() {
    let view = node(vec![gpu(0), mig(1, &[("1g.10gb", 0)])]);
    let mut sensed = Sensed::default();
    let activity = busy().activity.map(|activity| Activity { tensor: Some(7), ..activity });
    sensed.note(&gpu_id(0), Load { activity, ..busy() }, Instant::now());
    let dcgm = shown(&view, &sensed, &Xids::default(), Names::Dcgm);
    let snake = shown(&view, &sensed, &Xids::default(), Names::SnakeCase);
    assert!(dcgm.contains("modelName=") && !snake.contains("modelName="));
    // Series have no order.
    let sorted = |text: &str| {
        let mut lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
        lines.sort();
        lines
    };
    let renamed = dcgm.replace("modelName=", "model_name=");
    assert_eq!(sorted(&renamed), sorted(&snake), "nothing else differs");

    for metric in Metric::ALL {
        let name = metric.name();
        assert!(snake.contains(&format!("# HELP {name} {}", metric.help())), "{name}");
        assert!(snake.contains(&format!("# TYPE {name} gauge")), "{name}");
        let words = name.to_lowercase();
        let words = words.split('_').collect::<Vec<_>>();
        for unit in ["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"] {
            assert!(!words.contains(&unit), "{name} abbreviates {unit}");
        }
        for kind in ["gauge", "counter", "histogram", "summary", "total", "sum", "count", "bucket"] {
            assert!(!words.contains(&kind), "{name} says {kind}");
        }
    }
    let camel = |name: &str| {
        name.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase())
    };
    for line in snake.lines().filter(|line| !line.starts_with('#')) {
        let (labels, value) = line.split_once('{').unwrap().1.rsplit_once("} ").unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(labels.split("\",").all(|label| !camel(label.split_once('=').unwrap().0)), "{line}");
    }
}

#[tokio::test]
async fn what_is_asked_for_is_what_is_seen_at_that_moment() {
    let (view, seen) = watch::channel(node(vec![gpu(0)]));
    let (_sensed, read) = watch::channel(Sensed::default());
    let (_xids, reported) = watch::channel(Xids::default());
    let sources = Sources { node: "node-1".into(), view: seen, sensed: read, xids: reported };
    let ask = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = router(sources.clone()).oneshot(request).await.unwrap();
        let (status, kind) = (answer.status(), answer.headers().get("content-type").cloned());
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status.as_u16(), kind, String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, kind, text) = ask("/metrics").await;
    assert_eq!((status, kind.unwrap().to_str().unwrap()), (200, "text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(lines(&text, "DCGM_FI_DEV_XID_ERRORS").len(), 1);
    view.send_replace(node(vec![gpu(0), gpu(1)]));
    let (_, _, text) = ask("/metrics?labels=snake_case").await;
    assert!(lines(&text, "DCGM_FI_DEV_XID_ERRORS").len() == 2 && text.contains("model_name="), "{text}");
    assert_eq!(ask("/metrics?labels=nonsense").await.0, 400);
    assert_eq!(ask("/healthz").await.2, "ok");
    assert_eq!(ask("/").await.0, 404);
}
