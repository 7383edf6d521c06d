//! Container images from files of this machine: no registry is asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::go_module::hex;

/// The image that every real node has: busybox with all its commands. Its pods need `imagePullPolicy: Never`.
pub const BUSYBOX_IMAGE: &str = "localhost/busybox:1";
/// The image that holds a pod's namespaces.
pub(crate) const PAUSE_IMAGE: &str = "localhost/pause:1";

/// An image of one layer.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    /// What is in it, by its path without the first slash.
    content: BTreeMap<String, Content>,
    entrypoint: Vec<String>,
}

#[derive(Clone, Debug)]
enum Content {
    File(PathBuf),
    Link(String),
}

impl Image {
    /// An empty image with this name and tag, for example `localhost/trainer:1`.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), content: BTreeMap::new(), entrypoint: Vec::new() }
    }

    /// Puts a file of this machine into the image, where everybody may read and run it.
    pub fn file(mut self, place: &str, file: impl Into<PathBuf>) -> Self {
        self.content.insert(place.trim_start_matches('/').to_owned(), Content::File(file.into()));
        self
    }

    /// Puts a link into the image.
    pub fn link(mut self, place: &str, target: &str) -> Self {
        self.content.insert(place.trim_start_matches('/').to_owned(), Content::Link(target.to_owned()));
        self
    }

    /// What a container runs that names no command.
    pub fn entrypoint(mut self, command: &[&str]) -> Self {
        self.entrypoint = command.iter().map(|part| (*part).to_owned()).collect();
        self
    }

    /// The image of [`BUSYBOX_IMAGE`], to which more can be added under another name.
    pub(crate) fn busybox(name: &str, busybox: &Path, commands: &[String]) -> Self {
        let image = Self::new(name).file("/bin/busybox", busybox).entrypoint(&["/bin/sh"]);
        commands
            .iter()
            .filter(|command| *command != "busybox")
            .fold(image, |image, command| image.link(&format!("/bin/{command}"), "busybox"))
    }

    /// The one layer, the same bytes for the same files.
    fn layer(&self) -> Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        let mut folders: Vec<String> = vec!["tmp".to_owned()];
        for place in self.content.keys() {
            folders.extend(Path::new(place).ancestors().skip(1).map(|folder| folder.display().to_string()));
        }
        folders.sort();
        folders.dedup();
        for folder in folders.iter().filter(|folder| !folder.is_empty()) {
            let mode = if folder == "tmp" { 0o1777 } else { 0o755 };
            layer.append_data(&mut header(EntryType::Directory, 0, mode), format!("{folder}/"), &[][..])?;
        }
        for (place, content) in &self.content {
            match content {
                Content::File(file) => {
                    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                    let size = u64::try_from(bytes.len())?;
                    layer.append_data(&mut header(EntryType::Regular, size, 0o755), place, &bytes[..])?;
                }
                Content::Link(target) => {
                    layer.append_link(&mut header(EntryType::Symlink, 0, 0o777), place, target)?;
                }
            }
        }
        Ok(layer.into_inner()?)
    }
}

/// What holds a pod's namespaces: a process that does nothing.
pub(crate) fn pause(busybox: &Path) -> Image {
    Image::new(PAUSE_IMAGE).file("/bin/busybox", busybox).entrypoint(&["/bin/busybox", "sleep", "infinity"])
}

/// Images in the format of `docker save`.
pub(crate) fn archive(images: &[Image]) -> Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut manifest: Vec<Value> = Vec::new();
    let mut put = |name: &str, bytes: &[u8]| -> Result<()> {
        let size = u64::try_from(bytes.len())?;
        Ok(archive.append_data(&mut header(EntryType::Regular, size, 0o644), name, bytes)?)
    };
    for (number, image) in images.iter().enumerate() {
        let layer = image.layer()?;
        let digest = hex(ring::digest::digest(&ring::digest::SHA256, &layer).as_ref());
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": { "Entrypoint": image.entrypoint, "Env": ["PATH=/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
        });
        let (config_name, layer_name) = (format!("{number}.json"), format!("{number}.tar"));
        put(&layer_name, &layer)?;
        put(&config_name, config.to_string().as_bytes())?;
        manifest.push(json!({ "Config": config_name, "RepoTags": [image.name], "Layers": [layer_name] }));
    }
    put("manifest.json", serde_json::to_string(&manifest)?.as_bytes())?;
    Ok(archive.into_inner()?)
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header
}

/// This machine's architecture, as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn members(archive: &[u8]) -> BTreeMap<String, (EntryType, u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let header = entry.header();
            let about = (header.entry_type(), header.mode().unwrap(), content);
            found.insert(entry.path().unwrap().display().to_string(), about);
        }
        found
    }

    #[test]
    fn an_image_holds_its_files_its_links_and_the_digest_of_its_layer() {
        let image = Image::new("localhost/trainer:1")
            .file("/opt/trainer/cargo.toml", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .link("/bin/sh", "busybox")
            .entrypoint(&["/bin/sh"]);
        let archive = archive(&[image.clone(), pause(Path::new("/dev/null"))]).unwrap();
        let members = members(&archive);
        let manifest: Value = serde_json::from_slice(&members["manifest.json"].2).unwrap();
        assert_eq!(manifest[0]["RepoTags"][0], "localhost/trainer:1");
        assert_eq!(manifest[1]["RepoTags"][0], PAUSE_IMAGE);
        let layer = &members[manifest[0]["Layers"][0].as_str().unwrap()].2;
        let config: Value =
            serde_json::from_slice(&members[manifest[0]["Config"].as_str().unwrap()].2).unwrap();
        let digest = hex(ring::digest::digest(&ring::digest::SHA256, layer).as_ref());
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{digest}"));
        assert_eq!(config["config"]["Entrypoint"], json!(["/bin/sh"]));

        let files = self::members(layer);
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["bin/", "bin/sh", "opt/", "opt/trainer/", "opt/trainer/cargo.toml", "tmp/"]);
        assert_eq!((files["bin/sh"].0, files["tmp/"].1), (EntryType::Symlink, 0o1777));
        assert_eq!(
            files["opt/trainer/cargo.toml"].2,
            fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap()
        );
        assert_eq!(*layer, image.layer().unwrap(), "the same files make the same layer");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let image = Image::new("localhost/none:1").file("/bin/none", "/no/such/file");
        let error = format!("{:#}", archive(&[image]).unwrap_err());
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
