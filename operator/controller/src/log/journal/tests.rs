//! A journal in a folder, as it is written, rotated, interrupted and played again.

use std::{
    fs,
    path::Path,
    sync::mpsc::{Receiver, sync_channel},
};

use whalezen_core::{
    plan::Policy,
    state::State,
    testing::{ObligingApplier, World, flavor, local_queue, queue, workload},
    workload::Timestamp,
};
use whalezen_decisions::{file::Kind, journal::Replay};

use super::{
    super::tests::{folder, limits},
    *,
};

const GPU: &str = "nvidia.com/gpu";

fn world() -> World {
    let cq = queue("cq").group([GPU]).flavor("f", [(GPU, 4)]);
    let mut world = World::new().with(flavor("f")).with(cq).with(local_queue("n/lq", "cq"));
    world.state.settle();
    world
}

fn snapshot(state: &State) -> Snapshot {
    Snapshot::of(state, Timestamp(0), &Policy::default())
}

/// What an engine does in a turn: somebody comes, a plan is made, and somebody ends.
fn turn(world: &mut World, number: usize, journal: &mut Journal) {
    world.state.settle();
    if journal.needs_snapshot() {
        journal.write(world.state.take_steps());
        journal.begin(snapshot(&world.state));
        world.state.start_recording();
    }
    world.tell(workload(&format!("n/w{number:04}")).queue("lq").pods("main", 1, [(GPU, 2)]));
    world.step(&mut ObligingApplier);
    if let Some(before) = number.checked_sub(3) {
        world.delete(&format!("n/w{before:04}"));
    }
    journal.write(world.state.take_steps());
}

/// Writes what was handed in.
fn take(items: &Receiver<Item>, writer: &mut Writer) {
    for item in items.try_iter() {
        let Item::Journal(page) = item else { panic!("nothing else is handed in") };
        writer.write(page);
    }
}

/// The journal's files, the oldest first.
fn files(folder: &Path) -> Vec<Vec<u8>> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut numbered: Vec<_> = all
        .filter_map(|entry| Some((Kind::Journal.number(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    numbered.sort();
    numbered.iter().map(|(_, path)| fs::read(path).unwrap()).collect()
}

fn entries(file: &[u8]) -> impl Iterator<Item = Entry> {
    file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| Entry::read(line).unwrap())
}

/// Plays everything again.
fn replay(folder: &Path) -> Replay {
    let mut replay = Replay::default();
    for file in files(folder) {
        entries(&file).for_each(|entry| replay.next(entry).unwrap());
    }
    replay
}

#[test]
fn a_journal_is_played_again_from_the_oldest_file_that_is_left_and_takes_no_more_room_than_it_may() {
    let folder = folder("journal");
    fs::create_dir_all(&folder).unwrap();
    let (bytes, kept) = (20_000, 3);
    let (to, items) = sync_channel(64);
    let files_of = Files::open(folder.clone(), Kind::Journal, limits(bytes, kept)).unwrap();
    let (mut journal, mut writer) = journal(to, files_of, &Counter::default());
    let mut world = world();
    for number in 0..200 {
        turn(&mut world, number, &mut journal);
        take(&items, &mut writer);
    }
    let files = files(&folder);
    assert_eq!(files.len(), kept);
    assert!(files.iter().all(|file| entries(file).next().unwrap().is_snapshot()), "each can be read alone");
    let total: usize = files.iter().map(Vec::len).sum();
    assert!(total < (kept + 1) * usize::try_from(bytes).unwrap(), "{total}");
    let replay = replay(&folder);
    assert!(replay.plans > 20, "{replay:?}");
    assert_eq!((replay.checked, replay.missing, replay.skipped), (2, 0, 0));
    let served = super::super::Wanted { namespace: None, sees_all: true, since: None, limit: 1000 };
    assert_eq!(super::super::wanted(&folder, &served).unwrap(), "", "it is not served");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_snapshot_larger_than_a_file_leaves_as_much_room_after_it_and_older_files_make_room_for_it() {
    let folder = folder("large");
    fs::create_dir_all(&folder).unwrap();
    let (to, _items) = sync_channel(1);
    let files_of = Files::open(folder.clone(), Kind::Journal, limits(2_000, 4)).unwrap();
    let (_, mut writer) = journal(to, files_of, &Counter::default());
    let mut world = world();
    for number in 0..4 {
        world.tell(workload(&format!("n/w{number:04}")).queue("lq").pods("main", 1, [(GPU, 2)]));
        world.state.settle();
        let snapshot = Box::new(snapshot(&world.state));
        writer.write(Page::Snapshot { snapshot, continues: number > 0, missing: 0 });
        world.state.start_recording();
        world.tell(workload(&format!("n/x{number:04}")).queue("lq").pods("main", 1, [(GPU, 2)]));
        world.state.take_steps().into_iter().for_each(|step| writer.write(Page::Step(step)));
    }
    let files = files(&folder);
    let sizes: Vec<_> = files.iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|size| *size > 2_000), "{sizes:?}");
    assert!(files.len() < 4 && sizes.iter().sum::<usize>() < 5 * 2_000, "{sizes:?}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn after_lines_were_dropped_the_journal_says_how_many_and_begins_anew() {
    let folder = folder("dropped");
    fs::create_dir_all(&folder).unwrap();
    let dropped = Counter::default();
    let (to, items) = sync_channel(16);
    let files = Files::open(folder.clone(), Kind::Journal, limits(1 << 20, 4)).unwrap();
    let (mut journal, mut writer) = journal(to, files, &dropped);
    let mut world = world();
    for number in 0..6 {
        turn(&mut world, number, &mut journal);
    }
    assert!(dropped.get() > 6, "a snapshot and fifteen lines found room");
    assert!(!journal.needs_snapshot(), "not at once");
    take(&items, &mut writer);
    journal.pause = None;
    for number in 6..9 {
        turn(&mut world, number, &mut journal);
        take(&items, &mut writer);
    }
    let replay = replay(&folder);
    assert_eq!((replay.snapshots, replay.checked, replay.skipped), (2, 0, 0));
    assert_eq!(replay.missing, dropped.get());
    assert!(replay.plans >= 4);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_line_that_cannot_be_written_costs_those_after_it_until_there_is_another_snapshot() {
    let folder = folder("broken");
    fs::create_dir_all(&folder).unwrap();
    // /dev/full says that it is full for every write.
    std::os::unix::fs::symlink("/dev/full", folder.join(Kind::Journal.name(1))).unwrap();
    let dropped = Counter::default();
    let (to, _items) = sync_channel(1);
    let full = Files::open(folder.clone(), Kind::Journal, limits(1 << 20, 4)).unwrap();
    let (mut journal, mut writer) = journal(to, full, &dropped);
    let world = world();
    let page =
        |continues| Page::Snapshot { snapshot: Box::new(snapshot(&world.state)), continues, missing: 0 };
    writer.write(page(false));
    writer.write(Page::Step(Step::Told(whalezen_core::state::Event::Settled)));
    assert_eq!(dropped.get(), 2);
    journal.whole = true;
    assert!(journal.needs_snapshot());
    // The disk has room again.
    let room = folder.join("room");
    fs::create_dir_all(&room).unwrap();
    writer.files = Files::open(room.clone(), Kind::Journal, limits(1 << 20, 4)).unwrap();
    writer.write(page(true));
    let written: Vec<Entry> = files(&room).iter().flat_map(|file| entries(file)).collect();
    assert!(matches!(written[..], [Entry::Missing(2), Entry::Began(_)]), "nothing leads to it: {written:?}");
    fs::remove_dir_all(folder).unwrap();
}
