//! What one run of the harness measured of one contender, its table beside the other's, and the
//! peer's last figures kept for quick runs of ours alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use super::results::Measurement;

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// Who was measured, with its version.
    pub contender: String,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// From the runner's start to its report.
    pub wall_s: f64,
    /// Workloads that were created and finished.
    pub workloads: u64,
    /// Average time to admission by class of Workload.
    pub admission_s: BTreeMap<String, f64>,
    /// Evictions that the runner saw.
    pub evictions: u64,
    /// Workload events that the runner had no room to record.
    pub unrecorded: u64,
    /// Share of the nominal quota in use on average.
    pub usage: Option<f64>,
    /// CPU seconds of the manager's process.
    pub cpu_s: f64,
    /// Its peak resident memory, in units of 10^6 bytes.
    pub rss_mb: f64,
    /// Its writes, Events apart.
    pub writes: u64,
    /// The same by its own `rest_client_requests_total`, where it has one.
    pub writes_by_own_count: Option<u64>,
    /// Its Events.
    pub events: u64,
    /// Every kind of write that the API server saw, the runner's among them.
    pub writes_seen: BTreeMap<String, u64>,
    /// CPU seconds of the API server.
    pub server_cpu_s: f64,
    /// Cores that were busy with none of this benchmark's processes, on average.
    pub others_cores: f64,
}

/// One figure as the table and the results show it.
struct Line {
    name: String,
    title: String,
    unit: &'static str,
    digits: usize,
    value: f64,
}

impl Figures {
    /// The figures in the order of the table. Names are stable: results of months are compared.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut add = |name: &str, title: &str, unit, digits, value| {
            lines.push(Line { name: name.to_owned(), title: title.to_owned(), unit, digits, value });
        };
        add("wall_s", "wall", "s", 1, self.wall_s);
        for (class, seconds) in &self.admission_s {
            add(&format!("admission_{class}_s"), &format!("admission, {class}"), "s", 1, *seconds);
        }
        add("evictions", "evictions", "evictions", 0, count(self.evictions));
        add("cpu_s", "CPU of the manager", "s", 1, self.cpu_s);
        add("rss_mb", "peak memory", "MB", 0, self.rss_mb);
        let per_workload = |n: u64| count(n) / count(self.workloads.max(1));
        add("writes_per_workload", "writes", "writes/workload", 2, per_workload(self.writes));
        // Who is evicted is put back into the queue and admitted once more.
        let changes = self.workloads.max(1) + 3 * self.evictions;
        add("writes_per_change", "the same", "writes/change", 2, count(self.writes) / count(changes));
        add("events_per_workload", "events", "events/workload", 2, per_workload(self.events));
        add("server_cpu_s", "CPU of the API server", "s", 1, self.server_cpu_s);
        if let Some(usage) = self.usage {
            add("usage_percent", "quota in use", "%", 1, usage * 100.0);
        }
        lines
    }

    /// The lines of `results.json` for benchmark `name`, this being ours.
    pub fn measurements(&self, name: &str, reference: Option<&Self>) -> Vec<Measurement> {
        let theirs = reference.map(Self::lines).unwrap_or_default();
        let measurement = |line: Line| Measurement {
            reference: theirs.iter().find(|other| other.name == line.name).map(|other| other.value),
            reference_name: reference.map(|figures| figures.contender.clone()),
            name: format!("{name}/{}", line.name),
            value: line.value,
            unit: line.unit.to_owned(),
        };
        self.lines().into_iter().map(measurement).collect()
    }

    /// What a reader must know to trust the figures.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![format!(
            "{}: {} workloads on {}; {:.2} cores were busy with other things",
            self.contender, self.workloads, self.started, self.others_cores
        )];
        if self.unrecorded > 0 {
            remarks.push(format!(
                "{}: the runner dropped {} workload events, its averages are of a sample",
                self.contender, self.unrecorded
            ));
        }
        if let Some(own) = self.writes_by_own_count {
            remarks.push(format!(
                "{}: {} writes and {} events by the API server's count, {own} of both by its own",
                self.contender, self.writes, self.events
            ));
        }
        remarks
    }

    /// Reads figures kept by [`Figures::keep`]; `None` when there are none.
    pub fn kept(path: &Path) -> Result<Option<Self>> {
        match fs::read_to_string(path) {
            Ok(text) => {
                let figures = serde_json::from_str(&text)
                    .with_context(|| format!("{} is not of this version; remove it", path.display()))?;
                Ok(Some(figures))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Keeps the figures for later runs of the other contender alone.
    pub fn keep(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }
}

/// The table: ours, theirs, and ours as a share of theirs. Either may be missing, not both.
pub fn table(ours: Option<&Figures>, theirs: Option<&Figures>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let name = |figures: Option<&Figures>| figures.map_or("not run", |f| f.contender.as_str()).to_owned();
    table.set_header(vec![String::new(), name(ours), name(theirs), "ratio".to_owned(), String::new()]);
    let ours = ours.map(Figures::lines).unwrap_or_default();
    let theirs = theirs.map(Figures::lines).unwrap_or_default();
    let only_theirs = theirs.iter().filter(|line| !ours.iter().any(|other| other.name == line.name));
    for line in ours.iter().chain(only_theirs) {
        let our = ours.iter().find(|other| other.name == line.name).map(|other| other.value);
        let their = theirs.iter().find(|other| other.name == line.name).map(|other| other.value);
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.*}", line.digits));
        table.add_row(vec![
            line.title.clone(),
            shown(our),
            shown(their),
            ratio(our, their).map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            line.unit.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn ratio(our: Option<f64>, their: Option<f64>) -> Option<f64> {
    let (our, their) = (our?, their?);
    (their > 0.0).then_some(our / their)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
fn count(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(contender: &str, wall_s: f64, writes: u64) -> Figures {
        Figures {
            contender: contender.to_owned(),
            started: "2026-01-02T03:04:05Z".to_owned(),
            wall_s,
            workloads: 100,
            admission_s: BTreeMap::from([("large".to_owned(), 2.5)]),
            evictions: 0,
            unrecorded: 0,
            usage: Some(0.5),
            cpu_s: 1.0,
            rss_mb: 80.0,
            writes,
            writes_by_own_count: None,
            events: 10,
            writes_seen: BTreeMap::new(),
            server_cpu_s: 9.0,
            others_cores: 0.1,
        }
    }

    #[test]
    fn results_carry_stable_names_and_the_peers_figures() {
        let kueue = figures("Kueue v0.19.2", 295.0, 345);
        let list = figures("WhaleZEN", 100.0, 200).measurements("harness/baseline", Some(&kueue));
        let names: Vec<_> = list.iter().map(|m| m.name.as_str()).collect();
        for name in ["wall_s", "admission_large_s", "evictions", "cpu_s", "rss_mb", "writes_per_workload"] {
            assert!(names.contains(&format!("harness/baseline/{name}").as_str()), "{name} not in {names:?}");
        }
        assert_eq!(list[0].reference, Some(295.0));
        assert_eq!(list[0].reference_name.as_deref(), Some("Kueue v0.19.2"));
    }

    #[test]
    fn without_a_peer_there_is_no_reference() {
        let list = figures("WhaleZEN", 100.0, 200).measurements("harness/baseline", None);
        assert!(list.iter().all(|m| m.reference.is_none() && m.reference_name.is_none()));
    }

    #[test]
    fn the_table_shows_the_ratio_and_no_division_by_zero() {
        let (ours, theirs) = (figures("WhaleZEN", 100.0, 200), figures("Kueue", 200.0, 400));
        let text = table(Some(&ours), Some(&theirs));
        let line = |title: &str| text.lines().find(|line| line.contains(title)).unwrap().to_owned();
        assert!(line("wall").contains("0.50"), "{text}");
        assert!(line("writes").contains("2.00") && line("writes").contains("4.00"), "{text}");
        assert!(line("evictions").contains('-'), "{text}");
    }

    #[test]
    fn figures_are_kept_and_found_again() {
        let folder = std::env::temp_dir().join(format!("whalezen-figures-{}", std::process::id()));
        let path = folder.join("kept.json");
        assert!(Figures::kept(&path).unwrap().is_none());
        figures("Kueue", 200.0, 400).keep(&path).unwrap();
        assert_eq!(Figures::kept(&path).unwrap().unwrap().writes, 400);
        fs::remove_dir_all(&folder).unwrap();
    }
}
