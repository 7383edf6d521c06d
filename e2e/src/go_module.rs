//! A Go module whose binaries are built once per version and kept in the cache.
//!
//! The version is a hash of everything the build depends on: the module files, the
//! module's own sources, the packages and the linker flags. Several processes may ask
//! at the same time; one builds, the others wait for its lock.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::cache_dir;
use crate::go_build;

/// A Go module in this repository and what to build of it.
#[derive(Clone, Debug)]
pub struct GoModule {
    pub(crate) dir: PathBuf,
    pub(crate) packages: Vec<String>,
    pub(crate) ldflags: String,
    pub(crate) tags: String,
    links: Vec<(String, String)>,
}

impl GoModule {
    /// The module in `dir`, from which the module's own main package is built unless
    /// others are named.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            packages: Vec::new(),
            ldflags: "-s -w".to_owned(),
            tags: String::new(),
            links: Vec::new(),
        }
    }

    /// Builds this package too, for example `sigs.k8s.io/kueue/cmd/kueue` or, of the module itself, `./kubelet`. The binary has the
    /// name of the package's last path element.
    pub fn package(mut self, package: &str) -> Self {
        self.packages.push(package.to_owned());
        self
    }

    /// Appends to the linker's flags (`-s -w` is there already).
    pub fn ldflags(mut self, flags: &str) -> Self {
        self.ldflags.push(' ');
        self.ldflags.push_str(flags);
        self
    }

    /// Build tags, separated by commas.
    pub fn tags(mut self, tags: &str) -> Self {
        tags.clone_into(&mut self.tags);
        self
    }

    /// Adds a link `name` to the binary `target`, for multi-call binaries.
    pub fn link(mut self, name: &str, target: &str) -> Self {
        self.links.push((name.to_owned(), target.to_owned()));
        self
    }

    /// The folder with the binaries, built first where this version is not in the cache.
    ///
    /// Blocks for the minutes a first build takes, and shows its progress.
    pub fn build(&self) -> Result<PathBuf> {
        self.build_in(&cache_dir()?.join("bin"))
    }

    fn build_in(&self, store: &Path) -> Result<PathBuf> {
        let name = self.name()?;
        let built = store.join(format!("{name}-{}", self.version()?));
        if built.is_dir() {
            return Ok(built);
        }
        fs::create_dir_all(store).with_context(|| format!("cannot create {}", store.display()))?;
        let lock = File::create(store.join(format!("{name}.lock")))?;
        lock.lock().with_context(|| format!("cannot lock {}", store.display()))?;
        // Another process may have built it while this one waited for the lock.
        if built.is_dir() {
            return Ok(built);
        }
        let unfinished = store.join(format!("{name}.unfinished"));
        remove_if_there(&unfinished)?;
        fs::create_dir(&unfinished)?;
        go_build::run(self, &name, &unfinished)?;
        for (link, target) in &self.links {
            symlink(target, unfinished.join(link))?;
        }
        fs::rename(&unfinished, &built)?;
        Ok(built)
    }

    fn name(&self) -> Result<String> {
        let name = self.dir.file_name().and_then(|name| name.to_str());
        Ok(name.with_context(|| format!("{} has no usable name", self.dir.display()))?.to_owned())
    }

    fn version(&self) -> Result<String> {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for file in self.inputs()? {
            let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            hash.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            hash.update(&content.len().to_le_bytes());
            hash.update(&content);
        }
        for part in self.packages.iter().chain([&self.ldflags, &self.tags]) {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        for part in self.links.iter().flat_map(|(link, target)| [link, target]) {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        Ok(hex(hash.finish().as_ref()).chars().take(16).collect())
    }

    /// The module files, the Go sources beside them and those of the packages that are the module's own (`./kubelet`),
    /// in a fixed order.
    fn inputs(&self) -> Result<Vec<PathBuf>> {
        if !self.dir.join("go.mod").is_file() {
            bail!("{} is not a Go module: it has no go.mod", self.dir.display());
        }
        let own = self.packages.iter().filter_map(|package| package.strip_prefix("./"));
        let mut inputs = Vec::new();
        for dir in [self.dir.clone()].into_iter().chain(own.map(|package| self.dir.join(package))) {
            for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
                let path = entry?.path();
                let is_source = path.extension().is_some_and(|extension| extension == "go");
                if is_source || path.ends_with("go.mod") || path.ends_with("go.sum") {
                    inputs.push(path);
                }
            }
        }
        inputs.sort();
        Ok(inputs)
    }
}

/// Builds `packages` of the module in `dir` with the default flags and gives the folder
/// that holds the binaries. See [`GoModule`] for flags, tags and links.
pub fn build_go_module(dir: &Path, packages: &[&str]) -> Result<PathBuf> {
    packages.iter().fold(GoModule::new(dir), |module, package| module.package(package)).build()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Removes a folder and everything in it; one that is not there is no error.
pub(crate) fn remove_if_there(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;

    /// A folder of this test's own, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("whalezen-go-{name}-{}", std::process::id()));
            fs::create_dir_all(dir.join("hello")).unwrap();
            fs::write(dir.join("hello/go.mod"), "module example.org/hello\n\ngo 1.26\n").unwrap();
            Self(dir)
        }

        fn says(&self, text: &str) -> GoModule {
            let source = format!("package main\n\nfunc main() {{ print({text}) }}\n");
            fs::write(self.0.join("hello/main.go"), source).unwrap();
            GoModule::new(self.0.join("hello")).link("greet", "hello")
        }

        fn build(&self, module: &GoModule) -> Result<PathBuf> {
            module.build_in(&self.0.join("bin"))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn run(binary: &Path) -> String {
        String::from_utf8(Command::new(binary).output().unwrap().stderr).unwrap()
    }

    #[test]
    fn a_module_is_built_again_only_when_it_changes() {
        let scratch = Scratch::new("again");
        let first = scratch.build(&scratch.says("\"one\"")).unwrap();
        assert_eq!(run(&first.join("greet")), "one");
        let built = fs::metadata(first.join("hello")).unwrap().modified().unwrap();
        assert_eq!(scratch.build(&scratch.says("\"one\"")).unwrap(), first);
        assert_eq!(fs::metadata(first.join("hello")).unwrap().modified().unwrap(), built);
        let second = scratch.build(&scratch.says("\"two\"")).unwrap();
        assert_eq!((run(&first.join("hello")), run(&second.join("hello"))), ("one".into(), "two".into()));
    }

    #[test]
    fn a_package_of_the_modules_own_counts_where_it_is_built() {
        let scratch = Scratch::new("own");
        let own = scratch.0.join("hello/greet");
        fs::create_dir(&own).unwrap();
        let versions = ["package main", "package main // changed"].map(|source| {
            fs::write(own.join("main.go"), source).unwrap();
            let module = scratch.says("\"one\"");
            [module.version().unwrap(), module.package("./greet").version().unwrap()]
        });
        assert_eq!(versions[0][0], versions[1][0], "it is not built of that");
        assert_ne!(versions[0][1], versions[1][1]);
    }

    #[test]
    fn those_who_build_at_the_same_time_get_the_same_binary() {
        let scratch = Scratch::new("race");
        let module = scratch.says("\"once\"");
        let built: Vec<PathBuf> = thread::scope(|scope| {
            let builders: Vec<_> = (0..4).map(|_| scope.spawn(|| scratch.build(&module).unwrap())).collect();
            builders.into_iter().map(|builder| builder.join().unwrap()).collect()
        });
        assert!(built.iter().all(|dir| *dir == built[0]), "{built:?}");
        assert_eq!(run(&built[0].join("hello")), "once");
    }

    #[test]
    fn a_failed_build_shows_what_the_compiler_said_and_leaves_no_version_behind() {
        let scratch = Scratch::new("broken");
        let error = format!("{:#}", scratch.build(&scratch.says("undefinedName")).unwrap_err());
        assert!(error.contains("undefined: undefinedName"), "{error}");
        assert_eq!(run(&scratch.build(&scratch.says("\"mended\"")).unwrap().join("hello")), "mended");
    }
}
