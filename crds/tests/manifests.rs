//! `manifests/crds` is generated, and what is committed is what the types say.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may panic, and so may what only tests call"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[test]
fn the_committed_manifests_are_those_that_the_types_generate() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/crds");
    let committed: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", folder.display()))
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .collect();
    let generated = whalezen_crds::manifest::files().unwrap();

    let differing: Vec<&String> = committed
        .keys()
        .chain(generated.keys())
        .filter(|name| committed.get(*name) != generated.get(*name))
        .collect();

    assert!(differing.is_empty(), "out of date, run `make crds`: {differing:?}");
}

/// `kubectl apply` keeps the object in an annotation, and annotations end at 256 KiB.
#[test]
fn every_definition_fits_a_client_side_apply() {
    for crd in whalezen_crds::all() {
        let size = crd.to_string().len();
        assert!(size < 200_000, "{} has {size} bytes", crd["metadata"]["name"]);
    }
}
