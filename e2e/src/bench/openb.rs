//! The placement experiment over the openb trace, by `whalezen-sim fgd`: what our placement gets allocated, beside the published figure of FGD.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Deserialize;

use super::operator::target;
use super::{Benchmark, Measurement, Options};

/// The experiment.
pub struct Openb;

/// Of what the simulator writes down, what is recorded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    rows: Vec<Row>,
    timings: Vec<Timing>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    mix: String,
    policy: String,
    allocation_percent: f64,
    published_percent: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Timing {
    mean_us: f64,
}

impl Openb {
    async fn measure(&self) -> Result<Vec<Measurement>> {
        let target = target()?;
        let simulator = target.join("release/whalezen-sim");
        if !simulator.is_file() {
            bail!(
                "{} is not there: `cargo build --release --workspace --bins` makes it",
                simulator.display()
            );
        }
        let file = target.join("bench/openb.json");
        fs::create_dir_all(target.join("bench"))?;
        // What an earlier run wrote is no figure of this one.
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let mut command = Command::new(&simulator);
        command.args(["fgd", "--timing", "--json"]).arg(&file);
        let status = tokio::task::spawn_blocking(move || command.status()).await??;
        if !status.success() {
            bail!("whalezen-sim fgd failed: {status}");
        }
        // Without the trace it says so, and there is nothing to record.
        if file.is_file() { self.read(&file) } else { Ok(Vec::new()) }
    }

    fn read(&self, file: &Path) -> Result<Vec<Measurement>> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Ok(self.measurements(&serde_json::from_str(&text).context("the simulator's figures")?))
    }

    fn measurements(&self, figures: &Figures) -> Vec<Measurement> {
        let of =
            |mix: &str, policy: &str| figures.rows.iter().find(|row| row.mix == mix && row.policy == policy);
        let fgd = |mix: &str| of(mix, "FGD").and_then(|row| row.published_percent);
        let named =
            |name: &str, value: f64, unit: &str, reference: Option<f64>, reference_name: &str| Measurement {
                name: format!("{}/{name}", self.name()),
                value,
                unit: unit.to_owned(),
                reference,
                reference_name: reference.map(|_| reference_name.to_owned()),
            };
        let mut measurements = Vec::new();
        for (name, policy) in
            [("allocation_pct", "WhaleZEN openb"), ("default_allocation_pct", "WhaleZEN default")]
        {
            if let Some(row) = of("default", policy) {
                measurements.push(named(
                    name,
                    row.allocation_percent,
                    "%",
                    fgd("default"),
                    "FGD as published",
                ));
            }
        }
        // How far our own runs of the published policies are from what was published.
        let apart = |row: &Row| Some((row.allocation_percent - row.published_percent?).abs());
        if let Some(most) =
            figures.rows.iter().filter(|row| row.mix == "default").filter_map(apart).reduce(f64::max)
        {
            measurements.push(named("baselines_apart", most, "points", Some(0.0), "as published"));
        }
        // On which mix the learned weights gain least against the published FGD.
        let learned = figures.rows.iter().filter(|row| row.policy == "WhaleZEN openb");
        let gains = learned.filter_map(|row| Some(row.allocation_percent - fgd(&row.mix)?));
        if let Some(least) = gains.reduce(f64::min) {
            measurements.push(named("least_gain", least, "points", Some(0.0), "FGD as published"));
        }
        if let Some(timing) = figures.timings.last() {
            measurements.push(named("decision_us", timing.mean_us, "µs", None, ""));
        }
        measurements
    }
}

impl Benchmark for Openb {
    fn name(&self) -> &'static str {
        "fgd/openb"
    }

    fn about(&self) -> &'static str {
        "GPUs that placement policies get allocated of the openb trace's cluster, beside the published figures"
    }

    fn run<'a>(&'a self, _: &'a Options) -> BoxFuture<'a, Result<Vec<Measurement>>> {
        self.measure().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_ours_beside_what_was_published() {
        let text = r#"{"rows": [
            {"mix": "default", "policy": "FGD", "allocationPercent": 95.4, "publishedPercent": 95.3},
            {"mix": "default", "policy": "WhaleZEN openb", "allocationPercent": 96.0, "publishedPercent": null},
            {"mix": "cpu250", "policy": "FGD", "allocationPercent": 93.0, "publishedPercent": 93.5},
            {"mix": "cpu250", "policy": "WhaleZEN openb", "allocationPercent": 93.4, "publishedPercent": null}
        ], "timings": [{"meanUs": 4.0}, {"meanUs": 9.0}]}"#;
        let found: Vec<_> = Openb
            .measurements(&serde_json::from_str(text).unwrap())
            .into_iter()
            .map(|found| (found.name, (found.value * 1000.0).round() / 1000.0))
            .collect();
        let want =
            [("allocation_pct", 96.0), ("baselines_apart", 0.1), ("least_gain", -0.1), ("decision_us", 9.0)];
        assert_eq!(found, want.map(|(name, value)| (format!("fgd/openb/{name}"), value)));
    }
}
