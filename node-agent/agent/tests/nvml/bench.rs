//! A machine for one test: a process is on one at a time.
#![allow(unsafe_code, reason = "the library asks the environment which machine it is on")]

use std::{
    env, fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use whalezen_agent::{
    device::{Devices as _, Gpu},
    nvml::Waiting,
};
use whalezen_mock_nvml::{
    config::VARIABLE,
    control,
    machine::{client::Place, fault::Fault, load::Load},
    refusal::Refusal,
};

static ONE: Mutex<()> = Mutex::new(());

pub struct Bench {
    pub devices: Waiting,
    control: control::Control,
    folder: PathBuf,
    _one: MutexGuard<'static, ()>,
}

impl Bench {
    /// A machine of that description, which anybody may change.
    pub fn new(text: &str) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = env::temp_dir().join(format!("agent-nvml-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let config = folder.join("machine.toml");
        fs::write(&config, format!("require_root = false\n{text}")).unwrap();
        // SAFETY: the lock is held, so no other test of this process reads the environment.
        unsafe { env::set_var(VARIABLE, &config) };
        let control = control::Control::open(&config).unwrap();
        let library = control::library().unwrap();
        Self { devices: Waiting::for_library(Some(library)), control, folder, _one: one }
    }

    /// The GPU with that index, read anew.
    pub fn gpu(&self, index: usize) -> Gpu {
        let system = self.devices.system().unwrap();
        self.devices.gpu(&system.gpus[index]).unwrap()
    }

    /// Lets every call of that function fail from now on.
    pub fn fault(&self, function: &str) {
        self.control
            .inject(Fault {
                function: function.to_owned(),
                gpu: None,
                after: 0,
                times: None,
                returns: Some(Refusal::Unknown),
                hang_ms: 0,
                seen: 0,
            })
            .unwrap();
    }

    /// Lets no call fail any more.
    pub fn heal(&self) {
        self.control.heal().unwrap();
    }

    /// Lets this process use an instance of the first GPU.
    pub fn attach(&self, gi: u32) {
        let place = Some(Place { gi, ci: 0 });
        self.control.attach(std::process::id(), 0, place, Load::default()).unwrap();
    }

    /// Lets an Xid befall the first GPU.
    pub fn xid(&self, xid: u64) {
        self.control.befall(0, xid, None).unwrap();
    }

    /// Starts the machine anew.
    pub fn reboot(&self) {
        self.control.reboot().unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}
