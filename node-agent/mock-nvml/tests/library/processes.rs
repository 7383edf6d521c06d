//! Several processes, one machine. The ignored tests are what the second process does: the others start it.

use std::{
    fs::{self, File},
    io::{Read, stdin},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Child, Stdio},
};

use whalezen_mock_nvml::{
    config::VARIABLE,
    control::Control,
    machine::{client::Place, load::Load},
    store::Store,
};

use crate::bench::{Bench, Raw, hears, nvml};

const ROOT: u32 = 0;

fn ends(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "the second process of other tests"]
fn waits() {
    println!("waiting");
    stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
#[ignore = "the second process of other tests"]
fn makes_an_instance_and_waits() {
    let nvml = nvml().unwrap();
    let raw = Raw::new(&nvml, 0);
    raw.create_compute(raw.create(9, Some((4, 4))).unwrap(), 2).unwrap();
    println!("made");
    stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn what_one_process_makes_another_sees_and_unmakes_when_the_first_is_dead() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let nvml = bench.nvml();
    let raw = Raw::new(&nvml, 0);
    let mut other = bench.process("processes::makes_an_instance_and_waits").spawn().unwrap();
    hears(&mut other, "made");
    let instance = raw.instances(9).unwrap()[0];
    assert_eq!(raw.create(9, Some((4, 4))).map(drop), Err(23));
    bench.control.attach(other.id(), 0, Some(Place { gi: 2, ci: 0 }), Load::default()).unwrap();
    let compute = raw.computes(instance, 2).unwrap()[0];
    assert_eq!(raw.destroy_compute(compute), Err(19));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(raw.destroy_compute(compute), Ok(()));
    assert_eq!(raw.destroy(instance), Ok(()));
}

#[test]
#[ignore = "the second process of other tests"]
fn makes_as_many_as_it_can() {
    let nvml = nvml().unwrap();
    let made = (0..4).flat_map(|gpu| {
        let raw = Raw::new(&nvml, gpu);
        (0..7).filter(move |_| raw.create(19, None).is_ok())
    });
    println!("\nmade {}", made.count());
}

#[test]
fn nothing_is_lost_or_made_twice_when_many_make_at_once() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", count = 4, mig = true }]"#);
    let many: Vec<_> =
        (0..4).map(|_| bench.process("processes::makes_as_many_as_it_can").spawn().unwrap()).collect();
    let made = many.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find_map(|line| line.strip_prefix("made ")?.parse::<usize>().ok()).unwrap()
    });
    assert_eq!(made.sum::<usize>(), 28);
    let machine = bench.control.machine().unwrap();
    assert!(machine.gpus.iter().all(|gpu| gpu.instances.len() == 7));
}

#[test]
#[ignore = "the second process of other tests"]
fn holds_the_lock() {
    let store = Store::open(std::env::var_os(VARIABLE).unwrap().as_ref()).unwrap();
    let lock = File::open(format!("{}.lock", store.path().display())).unwrap();
    lock.lock().unwrap();
    fs::write(format!("{}.new", store.path().display()), "{ half of a state").unwrap();
    println!("holds");
    stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_a_change_stops_nobody() {
    let bench = Bench::new(r#"gpus = [{ model = "A30", mig = true }]"#);
    let nvml = bench.nvml();
    let mut other = bench.process("processes::holds_the_lock").spawn().unwrap();
    hears(&mut other, "holds");
    assert_eq!(nvml.device_count().unwrap(), 1, "who only reads does not wait");
    std::thread::scope(|scope| {
        let making = scope.spawn(|| Raw::new(&nvml, 0).create(0, None).map(drop));
        other.kill().unwrap();
        assert_eq!(making.join().unwrap(), Ok(()));
    });
    other.wait().unwrap();
    assert_eq!(bench.control.machine().unwrap().gpus[0].instances.len(), 1);
}

#[test]
#[ignore = "the second process of other tests"]
fn answers_while_a_call_hangs() {
    let nvml = nvml().unwrap();
    let gpu = nvml.device_by_index(0).unwrap();
    let control = Control::open(std::env::var_os(VARIABLE).unwrap().as_ref()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| nvml.device_count());
        while control.machine().unwrap().faults[0].seen == 0 {
            std::thread::yield_now();
        }
        gpu.name().unwrap();
        println!("\nanswered");
    });
}

#[test]
fn a_call_that_hangs_holds_up_no_other() {
    let bench = Bench::new(
        r#"
        gpus = [{ model = "A30", mig = true }]
        faults = [{ function = "nvmlDeviceGetCount*", times = 1, hang_ms = 3_600_000 }]
        "#,
    );
    let nvml = bench.nvml();
    let mut other = bench.process("processes::answers_while_a_call_hangs").spawn().unwrap();
    hears(&mut other, "answered");
    assert_eq!(Raw::new(&nvml, 0).create(0, None).map(drop), Ok(()), "nor another process");
    assert_eq!(nvml.device_count().unwrap(), 1);
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
#[ignore = "the second process of other tests"]
fn may_look_and_not_touch() {
    let nvml = nvml().unwrap();
    let raw = Raw::new(&nvml, 0);
    assert_eq!(nvml.device_by_index(0).unwrap().mig_mode().unwrap().current, 1);
    assert_eq!(raw.remaining(0), Ok(1));
    assert_eq!((raw.set_mig(false), raw.create(0, None).map(drop)), (Err(4), Err(4)));
}

#[test]
fn who_is_not_root_may_look_and_not_touch() {
    let bench = Bench::new("require_root = true\ngpus = [{ model = \"A30\", mig = true }]");
    let mut process = bench.process("processes::may_look_and_not_touch");
    if rustix::process::geteuid().as_raw() == ROOT {
        fs::set_permissions(&bench.folder, fs::Permissions::from_mode(0o755)).unwrap();
        process.uid(65_534);
    }
    let child = process.stdin(Stdio::null()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_command_line_does_what_the_library_does() {
    let bench = Bench::new(r#"gpus = [{ model = "H100-80", mig = true }]"#);
    let nvml = bench.nvml();
    let raw = Raw::new(&nvml, 0);
    raw.create_compute(raw.create(9, Some((4, 4))).unwrap(), 0).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_whalezen-mock-gpu"));
        let output =
            command.arg("--config").arg(bench.folder.join("machine.toml")).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout) + &text(output.stderr))
    };
    let mut child = bench.process("processes::waits").spawn().unwrap();
    hears(&mut child, "waiting");
    let pid = child.id().to_string();
    assert_eq!(run(&["attach", &pid, "--gpu", "0", "--instance", "2"]), (true, String::new()));
    let (_, list) = run(&["list"]);
    let uuid = nvml.device_by_index(0).unwrap().mig_device_by_index(0).unwrap().uuid().unwrap();
    assert!(list.contains(&format!("MIG 1c.3g.40gb Device 0: (UUID: {uuid})")), "{list}");
    assert!(list.contains(&format!("used by process {pid}")), "{list}");
    let (_, instances) = run(&["instances"]);
    assert!(instances.contains("MIG 3g.40gb") && instances.contains("4:4"), "{instances}");
    assert_eq!(run(&["reset", "--gpu", "0"]), (false, "In use by another client\n".to_owned()));
    assert_eq!(run(&["detach", &pid, "--gpu", "1"]), (true, format!("process {pid} used nothing there\n")));
    assert_eq!(run(&["detach", &pid, "--gpu", "0"]), (true, String::new()));
    assert!(!run(&["attach", &pid, "--gpu", "0", "--instance", "2", "--utilization", "101"]).0);
    assert!(run(&["attach", &pid, "--gpu", "0", "--instance", "2", "--utilization", "100"]).0);
    ends(child);
    assert_eq!(run(&["reset", "--gpu", "0"]), (true, String::new()));
    assert_eq!(run(&["fault", "nvmlDeviceGetName", "--returns", "IN_USE"]), (true, String::new()));
    assert!(nvml.device_by_index(0).unwrap().name().is_err());
    assert_eq!(run(&["heal"]), (true, "1 faults taken back\n".to_owned()));
    assert_eq!(run(&["xid", "79", "--gpu", "0"]), (true, String::new()));
    assert!(run(&["list"]).1.contains("fell off the bus"));
    assert_eq!(run(&["reboot"]), (true, String::new()));
    assert!(!run(&["attach", "1", "--gpu", "9"]).0);
    assert!(!run(&["fault", "nvmlDeviceGetName", "--returns", "NONSENSE"]).0);
    assert!(!run(&["fault", "nvmlNone", "--returns", "IN_USE"]).0);
}
