//! Where public traces lie. They are never part of the project.

use std::{
    env,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// There are no traces.
#[derive(Debug, Error)]
#[error(
    "there are no traces at {}: say where with --traces or WHALEZEN_TRACES; without them this is not measured",
    .0.display()
)]
pub struct NoTraces(pub PathBuf);

/// The folder of traces: as given, or `$WHALEZEN_TRACES`, or `../shared/traces`.
pub fn folder(given: Option<&Path>) -> Result<PathBuf, NoTraces> {
    let folder = given.map(Path::to_owned).or_else(|| env::var_os("WHALEZEN_TRACES").map(PathBuf::from));
    let folder = folder.unwrap_or_else(|| PathBuf::from("../shared/traces"));
    if folder.is_dir() { Ok(folder) } else { Err(NoTraces(folder)) }
}
