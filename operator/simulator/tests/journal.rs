//! Journals, kept and played again by the program.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests; these are their helpers")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use whalezen_core::{
    queue::WithinQueue,
    state::{Snapshot, Step},
    testing::{ObligingApplier, World, flavor, local_queue, queue, workload},
};
use whalezen_decisions::{file::Kind, journal::Entry};

const GPU: &str = "nvidia.com/gpu";

/// A folder of this test's own, with these files of lines.
fn folder(test: &str, files: &[Vec<String>]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for (number, lines) in (1..).zip(files) {
        fs::write(folder.join(Kind::Journal.name(number)), lines.concat()).unwrap();
    }
    folder
}

fn line(entry: &Entry) -> String {
    serde_json::to_string(entry).unwrap() + "\n"
}

/// Two files: workloads come and preempt those before them, with a checkpoint between the files.
fn files() -> [Vec<String>; 2] {
    let cq = queue("cq").group([GPU]).flavor("f", [(GPU, 8)]).preempts(WithinQueue::LowerPriority);
    let mut world = World::new().with(flavor("f")).with(cq).with(local_queue("n/lq", "cq"));
    let file = |world: &mut World, snapshot: fn(Box<Snapshot>) -> Entry, priorities: std::ops::Range<i32>| {
        world.state.settle();
        let begin = snapshot(Box::new(Snapshot::of(&world.state, world.now, &world.policy)));
        world.state.start_recording();
        for priority in priorities {
            world.now.0 += 1000;
            let comes = workload(&format!("n/w{priority}")).queue("lq").priority(priority);
            world.tell(comes.pods("main", 2, [(GPU, 2)]));
            world.step(&mut ObligingApplier);
            world.stop();
        }
        // The next snapshot is of a settled state.
        world.state.settle();
        let steps: Vec<Step> = world.state.take_steps();
        let told = steps.into_iter().map(|step| line(&Entry::of(step).unwrap()));
        [line(&begin)].into_iter().chain(told).collect::<Vec<_>>()
    };
    [file(&mut world, Entry::Began, 0..4), file(&mut world, Entry::Checkpoint, 4..8)]
}

/// What the program says of a journal, and whether it is content.
fn replay(folder: &Path) -> (bool, String) {
    let program = Command::new(env!("CARGO_BIN_EXE_whalezen-sim"))
        .args(["replay", "--journal", folder.to_str().unwrap()])
        .output()
        .unwrap();
    let said = [program.stdout, program.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (program.status.success(), said)
}

#[test]
fn every_plan_of_a_journal_is_made_again() {
    let (content, said) = replay(&folder("whole", &files()));
    assert!(content, "{said}");
    assert!(said.starts_with("8 plans agree"), "{said}");
    assert!(
        said.contains("2 snapshots, 1 of which follow from the one before; 0 lines are missing"),
        "{said}"
    );
}

#[test]
fn half_a_line_of_a_process_that_was_killed_is_no_damage() {
    let [mut first, second] = files();
    let last = first.pop().unwrap();
    for cut in 1..last.len() - 1 {
        let torn = [&first[..], &[last[..cut].to_owned() + "\n"]].concat();
        let (content, said) = replay(&folder("torn", &[torn, second.clone()]));
        assert!(content && said.contains("1 torn"), "{cut}: {said}");
        if cut > 8 {
            break;
        }
    }
    let [first, mut second] = files();
    let last = second.pop().unwrap();
    second.push(last[..last.len() / 2].to_owned());
    let (content, said) = replay(&folder("torn-at-the-end", &[first, second]));
    assert!(content && said.contains("1 torn"), "{said}");
}

#[test]
fn a_damaged_line_is_named_and_what_follows_is_played_again_from_the_next_snapshot() {
    let [mut first, second] = files();
    for (damage, said_of_it) in
        [("{\"told\": nonsense}\n", "expected"), ("{\"told\":\n", "it ends too early")]
    {
        first[3] = damage.to_owned();
        let folder = folder("damaged", &[first.clone(), second.clone()]);
        let (content, said) = replay(&folder);
        assert!(!content, "{said}");
        let place = format!("{}:4: ", folder.join(Kind::Journal.name(1)).display());
        assert!(said.contains(&place) && said.contains(said_of_it), "{said}");
        assert!(said.contains("plans agree") && !said.contains(" 0 passed over"), "{said}");
        assert!(said.contains("2 snapshots, 0 of which"), "{said}");
    }
}

#[test]
fn the_first_plan_that_comes_out_differently_is_shown() {
    let [mut first, second] = files();
    let changed = first.iter().position(|line| line.contains("\"n/w2\"")).unwrap();
    first[changed] = first[changed].replace("\"priority\":2", "\"priority\":-2");
    let planned =
        changed + first[changed..].iter().position(|line| line.starts_with("{\"planned\"")).unwrap();
    let folder = folder("differs", &[first, second]);
    let (content, said) = replay(&folder);
    assert!(!content, "{said}");
    let place = format!("{}:{}: ", folder.join(Kind::Journal.name(1)).display(), planned + 1);
    assert!(said.contains(&place) && said.contains("digest") && said.contains("\"park\": ["), "{said}");
}

#[test]
fn a_checkpoint_that_does_not_follow_is_shown() {
    let [first, mut second] = files();
    second[0] = second[0].replace("\"strategy\":\"BestEffortFifo\"", "\"strategy\":\"StrictFifo\"");
    let (content, said) = replay(&folder("checkpoint", &[first, second]));
    assert!(!content && said.contains("another state") && said.contains("StrictFifo"), "{said}");
}

#[test]
fn after_missing_lines_nothing_is_played_again_before_the_next_snapshot() {
    let [mut first, second] = files();
    first[2] = line(&Entry::Missing(7));
    let (content, said) = replay(&folder("missing", &[first, second]));
    assert!(content && said.contains("7 lines are missing"), "{said}");
}

#[test]
fn a_snapshot_of_another_version_is_refused_by_name() {
    let [mut first, second] = files();
    first[0] = first[0].replace(&format!("\"version\":{}", Snapshot::VERSION), "\"version\":99");
    let (content, said) = replay(&folder("version", &[first, second]));
    assert!(!content && said.contains("version 99"), "{said}");
    let (content, said) = replay(&folder("empty", &[]));
    assert!(!content && said.contains("no journal"), "{said}");
}
