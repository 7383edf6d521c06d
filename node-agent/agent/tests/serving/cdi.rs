//! The CDI file.

use std::fs;

use serde_json::{Value, json};
use whalezen_agent::{
    plugin::{
        cdi::{File, Spec},
        inventory,
    },
    view::SeenGpu,
};

use crate::ground::{Folder, gpu, gpu_id, inventory, mig, mig_id, node};

/// The file of these GPUs, without device files.
fn spec(gpus: Vec<SeenGpu>) -> Spec {
    whalezen_agent::plugin::cdi::spec(&inventory(&node(gpus)))
}

fn read(folder: &Folder) -> Value {
    serde_json::from_slice(&fs::read(folder.path().join("whalezen.json")).unwrap()).unwrap()
}

fn files(folder: &Folder) -> Vec<String> {
    let mut names = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn the_file_is_what_container_runtimes_read() {
    let folder = Folder::new("cdi");
    let given = inventory::inventory(&node(vec![mig(1, &[("1g.10gb", 1)]), gpu(0)]), &folder.device_files());
    File::new(folder.path().into()).write(whalezen_agent::plugin::cdi::spec(&given)).unwrap();
    let node = |name: &str| json!({ "path": folder.path().join("dev").join(name) });
    let expected = json!({
        "cdiVersion": "0.3.0",
        "kind": "scheduling.gen.io/gpu",
        "devices": [
            {
                "name": gpu_id(0).as_str(),
                "containerEdits": {
                    "env": [format!("WHALEZEN_DEVICE_0={}", gpu_id(0))],
                    "deviceNodes": [node("nvidia0")],
                },
            },
            {
                "name": mig_id(1, 1).as_str(),
                "containerEdits": {
                    "env": [format!("WHALEZEN_DEVICE_1_1={}", mig_id(1, 1))],
                    "deviceNodes": [
                        node("nvidia1"),
                        node("nvidia-caps/nvidia-cap21"),
                        node("nvidia-caps/nvidia-cap22"),
                    ],
                },
            },
        ],
        "containerEdits": { "deviceNodes": [node("nvidiactl"), node("nvidia-uvm")] },
    });
    assert_eq!(read(&folder), expected);
}

#[test]
fn a_device_without_files_still_changes_something_because_runtimes_refuse_one_that_does_not() {
    let json = serde_json::to_value(spec(vec![gpu(0)])).unwrap();
    assert_eq!(json.get("containerEdits"), None, "no empty edits");
    let edits = json["devices"][0]["containerEdits"].as_object().unwrap();
    assert_eq!(edits.keys().collect::<Vec<_>>(), ["env"]);
}

#[test]
fn the_file_is_replaced_whole_and_only_when_it_changes_and_is_there_only_with_devices() {
    let folder = Folder::new("cdi-replace");
    let mut file = File::new(folder.path().join("made"));
    let made = || fs::metadata(folder.path().join("made/whalezen.json")).unwrap();
    let id = |file: &fs::Metadata| (std::os::unix::fs::MetadataExt::ino(file), file.modified().unwrap());

    file.write(spec(vec![gpu(0)])).unwrap();
    let first = id(&made());
    file.write(spec(vec![gpu(0)])).unwrap();
    assert_eq!(id(&made()), first, "the same is not written again");
    file.write(spec(vec![gpu(0), gpu(1)])).unwrap();
    assert_ne!(id(&made()), first);

    fs::remove_file(folder.path().join("made/whalezen.json")).unwrap();
    file.write(spec(vec![gpu(0), gpu(1)])).unwrap();
    made();
    file.write(spec(vec![])).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("made")).unwrap().count(), 0, "and nothing is left beside it");
}

#[test]
fn a_write_that_fails_leaves_the_old_file_as_it_was() {
    let folder = Folder::new("cdi-fail");
    let mut file = File::new(folder.path().into());
    file.write(spec(vec![gpu(0)])).unwrap();
    let before = read(&folder);
    // A folder stands where the new file would be made: also root cannot write that.
    fs::create_dir(folder.path().join(".whalezen.json.new")).unwrap();
    let error = file.write(spec(vec![gpu(1)])).unwrap_err();
    assert!(error.to_string().contains("whalezen.json"), "{error}");
    assert_eq!(read(&folder), before);
    fs::remove_dir(folder.path().join(".whalezen.json.new")).unwrap();
    file.write(spec(vec![gpu(1)])).unwrap();
    assert_eq!(read(&folder)["devices"][0]["name"], gpu_id(1).to_string());
    assert_eq!(files(&folder), ["whalezen.json"]);
}
