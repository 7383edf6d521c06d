//! The placement experiment on a small trace of the shape of the public one, made here by dice: what the program prints and writes,
//! and that policies are as good as they should be.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy.toml allows it in tests; these are their helpers"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use serde_json::Value;
use whalezen_core::placement::Weights;
use whalezen_simulator::{
    dice::Dice,
    fgd::{
        experiment::{Outcome, run},
        policy::{Mix, Policy},
        published::Published,
        trace::{Task, TraceNode},
    },
    train::{
        judge::judge,
        worth::{self, Worth},
    },
};

/// 60 nodes: most with 8 GPUs and little CPU for them, some with 2 and much.
fn nodes() -> Vec<TraceNode> {
    let node = |index: usize| {
        let (cpu, memory, gpus, model) =
            [(96_000, 393_216, 8, "G2"), (96_000, 393_216, 8, "G2"), (104_000, 524_288, 2, "T4")][index % 3];
        TraceNode { name: format!("node-{index:04}"), cpu, memory, gpus, model: model.to_owned() }
    };
    (0..60).map(node).collect()
}

/// Tasks like those of the trace: some without GPUs, many with a part of one, many with one, a few with 8.
fn tasks(seed: u64, insisting: usize) -> Vec<Task> {
    let mut dice = Dice::new(seed);
    let mut task = || {
        let (gpus, milli) = match dice.below(20) {
            0..3 => (0, 0),
            3..10 => (1, [120, 250, 460, 500, 810][dice.below(5)]),
            10..19 => (1, 1000),
            _ => (8, 1000),
        };
        let cpu = [4000, 6000, 8000, 11_000, 12_000][dice.below(5)] * gpus.clamp(1, 8);
        let spec = if gpus == 1 && dice.below(100) < insisting { "T4" } else { "" };
        Task { cpu, memory: 8192, gpus, milli, spec: spec.to_owned() }
    };
    (0..400).map(|_| task()).collect()
}

fn mix(insisting: usize) -> Mix {
    Mix::new("generated", nodes(), tasks(7, insisting))
}

fn mean(policy: &Policy, mix: &Mix) -> f64 {
    (1..=6).map(|seed| run(policy, mix, seed).unwrap().at(130)).sum::<f64>() / 6.0
}

fn ours() -> Policy {
    Policy::Ours(Arc::new(Weights::default()))
}

#[test]
fn policies_that_count_fragments_get_more_allocated_than_chance_by_about_as_much() {
    for insisting in [0, 20] {
        let mix = mix(insisting);
        let of = |policy| mean(&Policy::Published(policy), &mix);
        let (random, fgd, ours) = (of(Published::Random), of(Published::Fgd), mean(&ours(), &mix));
        assert!(fgd > random + 1.0, "FGD {fgd}, random {random}");
        // On so few nodes one task more or less is a quarter of a point.
        assert!(ours > random + 1.0 && ours > fgd - 1.0, "ours {ours}, FGD {fgd}, random {random}");
    }
}

#[test]
fn a_run_follows_from_its_seed_and_ours_does_not_depend_on_how_nodes_are_named() {
    let mix = mix(20);
    for policy in Published::ALL.map(Policy::Published).into_iter().chain([ours()]) {
        assert_eq!(run(&policy, &mix, 3).unwrap(), run(&policy, &mix, 3).unwrap());
    }
    let mut turned = nodes();
    turned.reverse();
    for (index, node) in turned.iter_mut().enumerate() {
        node.name = format!("x{}", index * 37 % 61);
    }
    let turned = Mix::new("turned", turned, tasks(7, 20));
    let figures = |outcome: Outcome| (outcome.curve, outcome.failed);
    for seed in 1..=3 {
        assert_eq!(figures(run(&ours(), &mix, seed).unwrap()), figures(run(&ours(), &turned, seed).unwrap()));
    }
}

#[test]
fn every_policy_accounts_for_every_task_and_never_allocates_more_than_there_is() {
    let mix = mix(0);
    for policy in Published::ALL.map(Policy::Published).into_iter().chain([ours()]) {
        let outcome = run(&policy, &mix, 5).unwrap();
        assert!(outcome.curve.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "nobody leaves: {policy:?}");
        assert!(outcome.at(130) <= 100.0 && outcome.at(130) > 60.0, "{policy:?} {}", outcome.at(130));
        assert!((outcome.at(20) - 20.0).abs() < 2.0, "with room for all, all is allocated: {policy:?}");
        assert!(outcome.failed > 0);
    }
}

#[test]
fn candidates_are_worth_what_they_gain_on_the_same_arrivals() {
    let mixes = [mix(0), mix(20)];
    let worth = Worth::new(&mixes, &[1, 2]).unwrap();
    // Weights that scatter tasks, beside the default ones twice.
    let start = worth::point(&Weights::default());
    let scattering: Vec<_> = start.iter().map(|weight| weight - 1.0).collect();
    let of = |point: &[f64]| Arc::new(worth::weights(point, "x", 1).unwrap());
    let values = worth.of(&[of(&start), of(&scattering), of(&start)], 3, || ()).unwrap();
    assert_eq!(values[0].to_bits(), values[2].to_bits());
    assert!(values[0] > values[1] + 1.0, "{values:?}");
    let verdicts = judge(&of(&scattering), &mixes, &[1], || ()).unwrap();
    assert_eq!(verdicts.len(), 2);
    assert!(whalezen_simulator::train::judge::are_better(&verdicts).is_err(), "{verdicts:?}");
}

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fgd-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("fgd-openb")).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sim(arguments: &[&str], traces: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whalezen-sim"))
        .args(arguments)
        .arg("--traces")
        .arg(traces)
        .output()
        .unwrap()
}

fn write_trace(folder: &Path) {
    let nodes = nodes();
    let rows = nodes.iter().map(|n| format!("{},{},{},{},{}\n", n.name, n.cpu, n.memory, n.gpus, n.model));
    let text = "sn,cpu_milli,memory_mib,gpu,model\n".to_owned() + &rows.collect::<String>();
    fs::write(folder.join("fgd-openb/openb_node_list_gpu_node.csv"), text).unwrap();
    let tasks = tasks(7, 10);
    let rows = tasks.iter().map(|t| format!("p,{},{},{},{},{}\n", t.cpu, t.memory, t.gpus, t.milli, t.spec));
    let text =
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n".to_owned() + &rows.collect::<String>();
    fs::write(folder.join("fgd-openb/openb_pod_list_default.csv"), text).unwrap();
}

#[test]
fn the_program_prints_every_policy_and_writes_the_same_figures_every_time() {
    let folder = Folder::new("figures");
    write_trace(&folder.0);
    let file = folder.0.join("out.json");
    let path = file.to_str().unwrap();
    let run = || {
        let output = sim(&["fgd", "--mix", "default", "--seeds", "2", "--json", path], &folder.0);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), fs::read_to_string(&file).unwrap())
    };
    let (table, json) = run();
    assert_eq!(run(), (table.clone(), json.clone()));
    let figures: Value = serde_json::from_str(&json).unwrap();
    let policies: Vec<_> =
        figures["rows"].as_array().unwrap().iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(
        policies,
        [
            "Random",
            "DotProd",
            "GpuClustering",
            "GpuPacking",
            "BestFit",
            "FGD",
            "WhaleZEN default",
            "WhaleZEN openb"
        ]
    );
    for policy in policies {
        assert!(table.contains(policy), "{policy} is not in\n{table}");
    }
    assert_eq!(figures["rows"][0]["runs"].as_array().unwrap().len(), 2);
    assert_eq!(figures["rows"][0]["publishedPercent"], Value::Null, "nothing was published of this trace");
}

#[test]
fn what_is_missing_or_damaged_is_said_clearly() {
    let folder = Folder::new("missing");
    for command in [&["fgd"][..], &["train", "--out", "unused.json"]] {
        let output = sim(command, &folder.0);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains("skipped") && text.contains("WHALEZEN_TRACES"),
            "{text}"
        );
    }
    write_trace(&folder.0);
    let fails = |arguments: &[&str]| {
        let output = sim(arguments, &folder.0);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(fails(&["fgd", "--mix", "cpu050"]).contains("openb_pod_list_cpu050.csv"));
    assert!(fails(&["fgd", "--mix", "nonsense"]).contains("there is no mix nonsense"));
    assert!(fails(&["fgd", "--mix", "default", "--seeds", "0"]).contains("seeds"));
    let tasks = folder.0.join("fgd-openb/openb_pod_list_default.csv");
    fs::write(&tasks, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,3,500\n").unwrap();
    assert!(fails(&["fgd", "--mix", "default"]).contains("line 2"));
    fs::write(folder.0.join("weights.json"), r#"{"format": 99, "name": "x", "version": 1, "weights": {}}"#)
        .unwrap();
    let weights = folder.0.join("weights.json");
    assert!(
        fails(&["fgd", "--mix", "default", "--weights", weights.to_str().unwrap()]).contains("format 99")
    );
}
