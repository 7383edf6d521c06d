//! The life of a real node: its boots, its power cuts, its kubelet's crashes, and the images that it is given.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};

use super::files::{self, CONTAINERD_SOCKET};
use super::node::{Processes, RealNode};
use super::{BUSYBOX_IMAGE, Image, archive, pause};
use crate::process::{Place, Process};
use crate::start::until;

impl RealNode {
    /// Gives the node's runtime an image.
    pub async fn load(&self, image: &Image) -> Result<()> {
        let init = self.on()?.init;
        self.load_with(&init, std::slice::from_ref(image)).await
    }

    /// Ends the kubelet as a crash would, and waits for its end. Pods go on.
    pub async fn kill_kubelet(&self) -> Result<()> {
        let kubelet = self.kubelet()?;
        kubelet.kill()?;
        kubelet.wait().await?;
        if let Some(runs) = self.lock().as_mut() {
            runs.kubelet = None;
        }
        Ok(())
    }

    /// Starts the kubelet; one that runs is an error.
    pub fn start_kubelet(&self) -> Result<Process> {
        let mut runs = self.lock();
        let on = runs.as_mut().with_context(|| format!("{} is switched off", self.name))?;
        if on.kubelet.as_ref().is_some_and(Process::is_running) {
            bail!("the kubelet of {} runs already", self.name);
        }
        let mut command = Command::new(&self.machine.binaries.kubelet);
        command
            .arg(format!("--config={}", files::kubelet_config(&self.dir).display()))
            .arg(format!("--kubeconfig={}", files::kubeconfig(&self.dir).display()))
            .arg(format!("--hostname-override={}", self.name))
            .arg(format!("--node-ip={}", self.address()));
        let kubelet = self.spawn_with(&on.init, "kubelet", &command)?;
        on.kubelet = Some(kubelet.clone());
        Ok(kubelet)
    }

    /// Ends the kubelet as a crash would and starts another.
    pub async fn restart_kubelet(&self) -> Result<()> {
        self.kill_kubelet().await?;
        self.start_kubelet().map(|_| ())
    }

    /// Takes the node's power away: nothing on it runs on, nothing says goodbye.
    pub async fn power_off(&self) -> Result<()> {
        let on = self.on()?;
        *self.lock() = None;
        on.init.kill()?;
        for process in [Some(on.init), Some(on.containerd), on.kubelet].into_iter().flatten() {
            process.wait().await?;
        }
        Ok(())
    }

    /// Switches a node on that is off, its kubelet included. Its disk is as it was; `/run` is empty, its boot id new.
    pub async fn power_on(&self) -> Result<()> {
        self.boot().await?;
        self.start_kubelet().map(|_| ())
    }

    /// Takes the power away and gives it back.
    pub async fn reboot(&self) -> Result<()> {
        self.power_off().await?;
        self.power_on().await
    }

    /// Brings the node up as far as it needs no API server: everything but its kubelet.
    pub(crate) async fn boot(&self) -> Result<()> {
        if self.lock().is_some() {
            bail!("{} is on", self.name);
        }
        let mut first = Command::new(&self.machine.init);
        first.arg("node").arg(&self.dir).args([&self.name, &self.cgroup()]);
        let place = Place::Apart(&["net", "uts", "pid", "mnt"]);
        let (name, log) = (self.process_name("init"), self.log("init"));
        let init = Process::spawn_in(place, &self.machine.supervisor, &name, log, &first)?;
        match self.boot_from(&init).await {
            Ok(containerd) => *self.lock() = Some(Processes { init, containerd, kubelet: None }),
            Err(error) => {
                // Half a node would be in the way of the next boot.
                init.kill()?;
                init.wait().await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Connects the node to the network and starts its runtime.
    async fn boot_from(&self, init: &Process) -> Result<Process> {
        let machine = &self.machine;
        let boot = self.boots.fetch_add(1, Ordering::Relaxed);
        let is_there = |place: &str| {
            let file = PathBuf::from(format!("/proc/{}/root{place}", init.pid()));
            async move { file.exists().then_some(()) }
        };
        until(&[init], || is_there("/run/node-is-up")).await?;
        machine.network.connect(self.number, boot, init.pid(), machine.nodes).await?;

        let mut command = Command::new(machine.binaries.containerd.join("containerd"));
        let found = std::env::var_os("PATH").unwrap_or_default();
        // It looks for its shim there.
        let path = std::iter::once(machine.binaries.containerd.clone()).chain(std::env::split_paths(&found));
        command
            .arg(format!("--config={}", files::containerd_config(&self.dir).display()))
            .env("PATH", std::env::join_paths(path)?);
        let containerd = self.spawn_with(init, "containerd", &command)?;
        until(&[&containerd], || is_there(CONTAINERD_SOCKET)).await?;
        if boot == 0 {
            self.load_with(init, &self.first_images().await?).await?;
        }
        Ok(containerd)
    }

    async fn first_images(&self) -> Result<[Image; 2]> {
        let busybox = &self.machine.tools.busybox;
        let said = tokio::process::Command::new(busybox).arg("--list").output().await?;
        let commands: Vec<String> = String::from_utf8(said.stdout)?.lines().map(str::to_owned).collect();
        Ok([pause(busybox), Image::busybox(BUSYBOX_IMAGE, busybox, &commands)])
    }

    async fn load_with(&self, init: &Process, images: &[Image]) -> Result<()> {
        // Several may be loaded at a time.
        static LOADED: AtomicU32 = AtomicU32::new(0);
        let name = format!("images-{}.tar", LOADED.fetch_add(1, Ordering::Relaxed));
        let file = self.dir.join(name);
        std::fs::write(&file, archive(images)?)?;
        let mut command = self.ctr();
        command.args(["images", "import"]).arg(&file);
        let loaded = self.run_with(init, &command).await.context("the runtime does not take the images");
        std::fs::remove_file(&file)?;
        loaded.map(|_| ())
    }
}
