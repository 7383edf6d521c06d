//! Writes `manifests/crds` from the types: `whalezen-crdgen <folder>`.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use whalezen_crds::manifest;

fn main() -> Result<()> {
    const USAGE: &str = "usage: whalezen-crdgen <folder>";
    let folder = env::args_os().nth(1).context(USAGE)?;
    if folder.to_string_lossy().starts_with('-') {
        bail!(USAGE);
    }
    let folder = Path::new(&folder);
    let files = manifest::files()?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, content) in &files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for path in stale(folder, |name| files.contains_key(name))? {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    println!("{} files in {}", files.len(), folder.display());
    Ok(())
}

/// Files of an earlier run whose kinds are gone.
fn stale(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<std::path::PathBuf>> {
    let mut stale = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let unwanted = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| !wanted(name));
        if unwanted && fs::read_to_string(&path).is_ok_and(|content| content.starts_with(manifest::HEAD)) {
            stale.push(path);
        }
    }
    Ok(stale)
}
