//! Where Kueue's Go module is. It is a dependency that is downloaded when a test runs; nothing of it is in this
//! repository. Tests of other crates that compare with it include this file.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The version whose API we have.
const VERSION: &str = "v0.19.2";

/// The folder of Kueue's module, at the version that the benchmarks and we agree on.
pub fn folder() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let requirer =
        own.ancestors().map(|folder| folder.join("e2e/cluster/kueue")).find(|folder| folder.is_dir());
    let requirer = requirer.unwrap_or_else(|| panic!("no e2e/cluster/kueue above {}", own.display()));
    let output = Command::new("go")
        .args(["mod", "download", "-json", "sigs.k8s.io/kueue"])
        .current_dir(&requirer)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "this test reads Kueue's Go module and needs `go` on the PATH (in {}: {error})",
                requirer.display()
            )
        });
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "`go mod download sigs.k8s.io/kueue` failed: {stdout}{}",
        String::from_utf8_lossy(&output.stderr),
    );
    let module: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        module["Version"], VERSION,
        "e2e/cluster/kueue/go.mod pins another Kueue than we are compatible with"
    );
    PathBuf::from(module["Dir"].as_str().unwrap())
}
