//! A log in a folder, as it is written, torn, rotated and read.

use std::{env, path::PathBuf, process};

use whalezen_core::name::WorkloadKey;

use super::*;

/// An empty folder of this test's own.
pub(super) fn folder(test: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("whalezen-log-{test}-{}", process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn held(namespace: &str, name: &str) -> Decision {
    let workload = WorkloadKey::new(namespace, name);
    Decision::Held { workload, cluster_queue: "queue".into(), kept: [].into() }
}

pub(super) fn limits(bytes: u64, files: usize) -> Limits {
    Limits { bytes, files }
}

/// Writes a line for each of these names, one second after another, and ends the process's part in it.
fn log(folder: &Path, limits: Limits, names: impl IntoIterator<Item = (&'static str, i64)>) -> u64 {
    let dropped = Counter::default();
    let (mut log, writer) = DecisionLog::start(folder, limits, Mode::Decide, dropped.clone()).unwrap();
    for (name, second) in names {
        log.write(Timestamp(second * 1000), held("team-a", &format!("{name}{second}")));
    }
    drop(log);
    writer.finish();
    dropped.get()
}

fn everything() -> Wanted {
    Wanted { namespace: None, sees_all: true, since: None, limit: 1000 }
}

/// The names in the lines that are read.
fn names(folder: &Path, what: &Wanted) -> Vec<String> {
    let text = wanted(folder, what).unwrap();
    let name = |line: Line| match line.decision {
        Decision::Held { workload, .. } => workload.name.to_string(),
        other => format!("{other:?}"),
    };
    whalezen_decisions::line::read(&text).map(name).collect()
}

#[test]
fn lines_are_read_in_the_order_in_which_they_were_written_and_the_last_are_kept() {
    let folder = folder("order");
    assert_eq!(log(&folder, limits(1 << 20, 4), (0..5).map(|n| ("w", n))), 0);
    assert_eq!(log(&folder, limits(1 << 20, 4), (5..8).map(|n| ("w", n))), 0);
    assert_eq!(names(&folder, &everything()), ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"]);
    assert_eq!(names(&folder, &Wanted { limit: 2, ..everything() }), ["w6", "w7"]);
    let since = jiff::Timestamp::from_second(6).ok();
    assert_eq!(names(&folder, &Wanted { since, ..everything() }), ["w6", "w7"]);
    assert!(names(&folder, &Wanted { namespace: Some("team-b".into()), ..everything() }).is_empty());
    assert!(names(&folder, &Wanted { sees_all: false, ..everything() }).is_empty());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn half_a_line_of_a_process_that_was_killed_is_skipped_and_the_log_goes_on() {
    let folder = folder("torn");
    log(&folder, limits(1 << 20, 4), [("w", 0), ("w", 1)]);
    let file = folder.join("decisions-00000001.jsonl");
    let whole = fs::read(&file).unwrap();
    for cut in 1..40 {
        fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        log(&folder, limits(1 << 20, 4), [("after", cut as i64)]);
        let names = names(&folder, &everything());
        // Only the end of the line was lost, and the line that follows supplies it.
        let expected = if cut == 1 { vec!["w0", "w1"] } else { vec!["w0"] };
        assert_eq!(names[..names.len() - 1], expected, "{cut}");
        assert_eq!(names[names.len() - 1], format!("after{cut}"));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_log_takes_no_more_room_than_it_may_and_forgets_the_oldest() {
    let folder = folder("rotation");
    log(&folder, limits(500, 3), (0..100).map(|n| ("w", n)));
    let sizes: Vec<u64> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 3 + 1, "those and the journal, which is empty");
    assert!(sizes.iter().all(|size| *size < 500 + 200), "{sizes:?}");
    let left = names(&folder, &everything());
    assert_eq!(left.last().unwrap(), "w99");
    let first: usize = left[0][1..].parse().unwrap();
    assert!(
        left.iter().enumerate().all(|(at, name)| *name == format!("w{}", first + at)),
        "no gap: {left:?}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_full_disk_does_not_take_is_counted() {
    // /dev/full says that it is full for every write.
    let folder = folder("full");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("decisions-00000001.jsonl")).unwrap();
    assert_eq!(log(&folder, limits(1 << 20, 4), (0..3).map(|n| ("w", n))), 3);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn where_the_writer_falls_behind_lines_are_dropped_and_the_log_says_how_many() {
    let dropped = Counter::default();
    let (to, lines) = sync_channel(2);
    let folder = folder("slow");
    fs::create_dir_all(&folder).unwrap();
    let files = Files::open(folder.clone(), Kind::Journal, limits(1 << 20, 4)).unwrap();
    let (journal, _) = journal::journal(to.clone(), files, &dropped);
    let mut log = DecisionLog { journal, to, mode: Mode::Decide, dropped: dropped.clone(), missing: 0 };
    for _ in 0..5 {
        log.write(Timestamp(0), held("team-a", "w"));
    }
    assert_eq!(dropped.get(), 3);
    let _ = (lines.recv(), lines.recv());
    log.write(Timestamp(0), held("team-a", "w"));
    for expected in [Decision::Dropped { lines: 3 }, held("team-a", "w")] {
        let Item::Decision(line) = lines.recv().unwrap() else { panic!("nothing else was handed in") };
        assert_eq!(line.decision, expected);
    }
    fs::remove_dir_all(folder).unwrap();
}
