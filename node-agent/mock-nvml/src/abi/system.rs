//! NVML itself, and the machine as a whole.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::{export, fill, fill_text};
use crate::{
    host,
    process::{self, ask},
    refusal::Refusal,
};

export! {
    /// Initialises NVML.
    fn nvmlInit_v2() {
        process::init(NAME)
    }

    /// Initialises NVML. What the flags ask for (that it is no error if there is no GPU, and that none is attached)
    /// is so anyway.
    fn nvmlInitWithFlags(flags: c_uint) {
        let _ = flags;
        process::init(NAME)
    }

    /// Takes one initialisation back.
    fn nvmlShutdown() {
        process::shutdown()
    }

    /// The version of the driver.
    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        let driver = ask(NAME, None, |view| Ok(view.machine.config.driver_version.clone()))?;
        fill_text(version, length, &driver)
    }

    /// The version of NVML: the major version of CUDA, and the driver's.
    fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) {
        let nvml = ask(NAME, None, |view| {
            let config = &view.machine.config;
            Ok(format!("{}.{}", config.cuda_version.major, config.driver_version))
        })?;
        fill_text(version, length, &nvml)
    }

    /// The version of CUDA, times 1000 and 10.
    fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) {
        fill(version, cuda_version(NAME)?)
    }

    /// The version of CUDA, times 1000 and 10.
    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        fill(version, cuda_version(NAME)?)
    }

    /// The name of a process.
    fn nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) {
        let command = ask(NAME, None, |_| host::command(pid).ok_or(Refusal::NotFound))?;
        // As the header has it: cut off where the buffer ends.
        let room = (length as usize).saturating_sub(1).min(command.len());
        let end = (0..=room).rev().find(|end| command.is_char_boundary(*end)).unwrap_or(0);
        fill_text(name, length, command.get(..end).unwrap_or_default())
    }
}

fn cuda_version(name: &str) -> Result<c_int, Refusal> {
    ask(name, None, |view| {
        let version = view.machine.config.cuda_version;
        Ok(c_int::from(version.major) * 1_000 + c_int::from(version.minor) * 10)
    })
}

/// What a return code means.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text = match result {
        0 => c"The operation was successful",
        code => Refusal::from_code(code).unwrap_or(Refusal::Unknown).text(),
    };
    text.as_ptr()
}
