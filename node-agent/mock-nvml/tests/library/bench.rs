//! A machine for one test, and the functions that `nvml-wrapper` leaves raw.

#![allow(unsafe_code)]

use std::{
    env, fs,
    io::{BufRead, BufReader},
    mem::zeroed,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use nvml_wrapper::{Nvml, error::NvmlError};
use nvml_wrapper_sys::bindings::*;
use whalezen_mock_nvml::{config::VARIABLE, control};

/// One process is on one machine at a time.
static ONE: Mutex<()> = Mutex::new(());

pub struct Bench {
    pub folder: PathBuf,
    pub control: control::Control,
    _one: MutexGuard<'static, ()>,
}

impl Bench {
    /// A machine of that description, which anybody may change unless it says something else.
    pub fn new(text: &str) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = std::thread::current().name().unwrap_or_default().replace(':', "_");
        let folder = env::temp_dir().join(format!("mock-nvml-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let config = folder.join("machine.toml");
        let anybody = if text.contains("require_root") { "" } else { "require_root = false\n" };
        fs::write(&config, format!("{anybody}{text}")).unwrap();
        // SAFETY: the lock is held, so that no other test of this process reads the environment.
        unsafe { env::set_var(VARIABLE, &config) };
        Self { folder, control: control::Control::open(&config).unwrap(), _one: one }
    }

    #[allow(clippy::unused_self, reason = "the machine must be there as long as it is used")]
    pub fn nvml(&self) -> Nvml {
        nvml().unwrap()
    }

    /// The same test program again, on this machine, with one test that does what a second process does there.
    pub fn process(&self, test: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(VARIABLE, self.folder.join("machine.toml"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// NVML, as the agent loads it, on the machine that the environment names.
pub fn nvml() -> Result<Nvml, NvmlError> {
    let library = control::library().expect("Cargo builds the library with its tests");
    Nvml::builder().lib_path(library.as_os_str()).init()
}

/// Reads what a process says until it says `word` in a line of its own.
pub fn hears(child: &mut Child, word: &str) {
    let mut output = BufReader::new(child.stdout.as_mut().unwrap());
    let mut line = String::new();
    while line.trim_end() != word {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the process ended before it said {word:?}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What `nvml-wrapper` does not wrap, on one GPU. An error is NVML's number of it.
pub struct Raw<'a> {
    lib: &'a NvmlLib,
    device: nvmlDevice_t,
}

fn ok<T>(code: nvmlReturn_t, value: T) -> Result<T, u32> {
    if code == 0 { Ok(value) } else { Err(code) }
}

impl<'a> Raw<'a> {
    pub fn new(nvml: &'a Nvml, index: u32) -> Self {
        // SAFETY: the handle is used while NVML is initialised.
        Self { lib: nvml.lib(), device: unsafe { nvml.device_by_index(index).unwrap().handle() } }
    }

    pub fn set_mig(&self, on: bool) -> Result<u32, u32> {
        let mut status = 0;
        // SAFETY: here and below, the pointers are to locals that live through the call.
        let code = unsafe { self.lib.nvmlDeviceSetMigMode(self.device, on.into(), &raw mut status) };
        ok(code, status)
    }

    pub fn profile(&self, slot: u32) -> Result<nvmlGpuInstanceProfileInfo_t, u32> {
        let mut info = unsafe { zeroed() };
        let code = unsafe { self.lib.nvmlDeviceGetGpuInstanceProfileInfo(self.device, slot, &raw mut info) };
        ok(code, info)
    }

    pub fn placements(&self, id: u32) -> Result<Vec<(u32, u32)>, u32> {
        let mut found = [nvmlGpuInstancePlacement_t { start: 0, size: 0 }; 8];
        let mut count = 8;
        let code = unsafe {
            self.lib.nvmlDeviceGetGpuInstancePossiblePlacements_v2(
                self.device,
                id,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        ok(code, found[..count as usize].iter().map(|place| (place.start, place.size)).collect())
    }

    pub fn remaining(&self, id: u32) -> Result<u32, u32> {
        let mut count = 0;
        let code =
            unsafe { self.lib.nvmlDeviceGetGpuInstanceRemainingCapacity(self.device, id, &raw mut count) };
        ok(code, count)
    }

    pub fn create(&self, id: u32, place: Option<(u32, u32)>) -> Result<nvmlGpuInstance_t, u32> {
        let mut made = unsafe { zeroed() };
        let code = unsafe {
            match place {
                None => self.lib.nvmlDeviceCreateGpuInstance(self.device, id, &raw mut made),
                Some((start, size)) => self.lib.nvmlDeviceCreateGpuInstanceWithPlacement(
                    self.device,
                    id,
                    &nvmlGpuInstancePlacement_t { start, size },
                    &raw mut made,
                ),
            }
        };
        ok(code, made)
    }

    pub fn instances(&self, id: u32) -> Result<Vec<nvmlGpuInstance_t>, u32> {
        let mut found = unsafe { [zeroed(); 8] };
        let mut count = 0;
        let code = unsafe {
            self.lib.nvmlDeviceGetGpuInstances(self.device, id, found.as_mut_ptr(), &raw mut count)
        };
        ok(code, found[..count as usize].to_vec())
    }

    pub fn info(&self, instance: nvmlGpuInstance_t) -> Result<nvmlGpuInstanceInfo_t, u32> {
        let mut info = unsafe { zeroed() };
        ok(unsafe { self.lib.nvmlGpuInstanceGetInfo(instance, &raw mut info) }, info)
    }

    pub fn create_compute(&self, of: nvmlGpuInstance_t, id: u32) -> Result<nvmlComputeInstance_t, u32> {
        let mut made = unsafe { zeroed() };
        ok(unsafe { self.lib.nvmlGpuInstanceCreateComputeInstance(of, id, &raw mut made) }, made)
    }

    pub fn destroy(&self, instance: nvmlGpuInstance_t) -> Result<(), u32> {
        ok(unsafe { self.lib.nvmlGpuInstanceDestroy(instance) }, ())
    }

    pub fn destroy_compute(&self, compute: nvmlComputeInstance_t) -> Result<(), u32> {
        ok(unsafe { self.lib.nvmlComputeInstanceDestroy(compute) }, ())
    }

    pub fn computes(&self, of: nvmlGpuInstance_t, id: u32) -> Result<Vec<nvmlComputeInstance_t>, u32> {
        let mut found = unsafe { [zeroed(); 8] };
        let mut count = 0;
        let code = unsafe {
            self.lib.nvmlGpuInstanceGetComputeInstances(of, id, found.as_mut_ptr(), &raw mut count)
        };
        ok(code, found[..count as usize].to_vec())
    }

    /// Null pointers, handles that never were, and handles of another kind are refused, and so are numbers out of range.
    pub fn refuses_nonsense(&self) {
        const INVALID: u32 = 2;
        let lib = self.lib;
        let never = |number: usize| std::ptr::without_provenance_mut(number);
        let mut count = 0;
        let mut name = [0; 8];
        for number in [0, 1, 15, 16 * 1_000, usize::MAX] {
            assert_eq!(unsafe { lib.nvmlDeviceGetIndex(never(number), &raw mut count) }, INVALID);
            assert_eq!(unsafe { lib.nvmlGpuInstanceDestroy(never(number).cast()) }, INVALID);
            assert_eq!(unsafe { lib.nvmlComputeInstanceDestroy(never(number).cast()) }, INVALID);
            assert_eq!(unsafe { lib.nvmlEventSetFree(never(number).cast()) }, INVALID);
            assert_eq!(unsafe { lib.nvmlGpmSampleFree(never(number).cast()) }, INVALID);
        }
        assert_eq!(unsafe { lib.nvmlGpuInstanceDestroy(self.device.cast()) }, INVALID);
        assert_eq!(unsafe { lib.nvmlEventSetFree(self.device.cast()) }, INVALID);
        assert_eq!(unsafe { lib.nvmlDeviceGetIndex(self.device, std::ptr::null_mut()) }, INVALID);
        assert_eq!(unsafe { lib.nvmlDeviceGetHandleByUUID(std::ptr::null(), std::ptr::null_mut()) }, INVALID);
        assert_eq!(unsafe { lib.nvmlDeviceGetName(self.device, name.as_mut_ptr(), 8) }, 7);
        assert_eq!(unsafe { lib.nvmlDeviceSetMigMode(self.device, 2, &raw mut count) }, INVALID);
        assert_eq!(unsafe { lib.nvmlDeviceGetFieldValues(self.device, -1, never(8).cast()) }, INVALID);
        let mut memory: nvmlMemory_v2_t = unsafe { zeroed() };
        assert_eq!(unsafe { lib.nvmlDeviceGetMemoryInfo_v2(self.device, &raw mut memory) }, 25);
    }
}
