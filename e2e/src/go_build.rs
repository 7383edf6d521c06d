//! One run of the Go compiler, after `go list` has fetched the modules and counted the
//! packages that have to be compiled.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::go_module::GoModule;
use crate::progress::Progress;

/// How much of the compiler's output a failed build shows.
const TAIL: usize = 30;

/// Builds the module's packages into the folder `out`.
pub(crate) fn run(module: &GoModule, name: &str, out: &Path) -> Result<()> {
    let mut progress = Progress::new(name);
    let mut list = go(module, "list");
    list.args(["-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"]).args(&module.packages);
    let stale = watch(&mut list, |line| {
        if line.starts_with("go: downloading") {
            progress.downloaded();
        }
    })
    .with_context(|| format!("cannot build {name}"))?;
    progress.counted(stale.lines().filter(|line| !line.is_empty()).count());

    let mut build = go(module, "build");
    build.arg("-v").arg("-o").arg(format!("{}/", out.display())).args(&module.packages);
    // With -v the compiler names each package that it compiles.
    watch(&mut build, |_| progress.compiled()).with_context(|| format!("cannot build {name}"))?;
    progress.finish();
    Ok(())
}

fn go(module: &GoModule, verb: &str) -> Command {
    let mut command = Command::new("go");
    command.current_dir(&module.dir).arg(verb).arg("-trimpath").arg("-ldflags").arg(&module.ldflags);
    if !module.tags.is_empty() {
        command.arg("-tags").arg(&module.tags);
    }
    command
}

/// Runs a command to its end, shows each line of its standard error to `see`, and gives its
/// standard output. The error of one that fails holds its last lines.
fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `go`: install Go 1.26 or newer")?;
    let stdout = child.stdout.take().context("go has no output")?;
    let stdout = thread::spawn(move || read_all(stdout));
    let stderr = child.stderr.take().context("go has no output")?;
    let mut tail = VecDeque::new();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        see(&line);
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    let stdout = stdout.join().map_err(|_| anyhow!("the reader of go's output panicked"))??;
    let status = child.wait()?;
    if !status.success() {
        bail!("go ended with {status}:\n{}", Vec::from(tail).join("\n"));
    }
    Ok(stdout)
}

fn read_all(mut stdout: ChildStdout) -> std::io::Result<String> {
    let mut text = String::new();
    stdout.read_to_string(&mut text)?;
    Ok(text)
}
