//! Where built binaries and kept clusters live, outside the source tree.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The cache folder: `$WHALEZEN_CACHE`, else `whalezen` in the user's cache folder
/// (`$XDG_CACHE_HOME`, else `~/.cache`).
pub fn cache_dir() -> Result<PathBuf> {
    let from_env = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = from_env("WHALEZEN_CACHE") {
        return std::path::absolute(&dir).with_context(|| format!("WHALEZEN_CACHE={}", dir.display()));
    }
    if let Some(dir) = from_env("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("whalezen"));
    }
    let home = from_env("HOME").context("set WHALEZEN_CACHE: there is no HOME to put a cache folder in")?;
    Ok(home.join(".cache/whalezen"))
}
