//! The functions of `nvml.h`, as thin as they can be: each reads its arguments, asks the machine, and writes the answer.
//!
//! A function that is not here is not exported. NVML's callers look each one up by name and say so when it is missing,
//! which is better than an answer that is not true.

// The only modules that may: they read and write memory of C callers, as `nvml.h` says they do.
#![allow(unsafe_code)]
// Names and signatures are the header's, and one sentence on safety holds for all.
#![allow(clippy::missing_safety_doc, clippy::similar_names)]

mod compute;
mod device;
mod event;
mod field;
mod gpm;
mod instance;
mod link;
mod sensor;
mod system;
mod usage;

use std::ffi::{CStr, c_char, c_uint};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use crate::{
    process::{self, Target},
    refusal::Refusal,
};

/// Exports functions of NVML. A body answers with a `Result`, and knows its function's name as `NAME`.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $of:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $of),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            #[allow(dead_code)]
            const NAME: &str = stringify!($name);
            // SAFETY: the caller keeps NVML's contract: a pointer is null, or may be read and written as the header
            // says, for as many elements as the count beside it.
            #[allow(unused_unsafe)]
            $crate::abi::answer(|| unsafe { $body })
        }
    )*
        /// The functions that are exported here.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}
use export;

/// The functions that are exported and can be slow, hang or fail.
pub fn functions() -> impl Iterator<Item = &'static str> {
    let modules = [
        compute::NAMES,
        device::NAMES,
        event::NAMES,
        field::NAMES,
        gpm::NAMES,
        instance::NAMES,
        link::NAMES,
        sensor::NAMES,
        system::NAMES,
        usage::NAMES,
    ];
    modules.into_iter().flatten().copied()
}

/// What NVML returns for a result.
fn answer(call: impl FnOnce() -> Result<(), Refusal>) -> nvmlReturn_t {
    match call() {
        Ok(()) => 0,
        Err(refusal) => refusal.code(),
    }
}

/// Refuses a null pointer.
fn given<T>(pointer: *const T) -> Result<(), Refusal> {
    if pointer.is_null() { Err(Refusal::InvalidArgument) } else { Ok(()) }
}

/// Writes `value` to `to`, which is refused if it is null.
unsafe fn fill<T>(to: *mut T, value: T) -> Result<(), Refusal> {
    given(to)?;
    // SAFETY: not null, so writable by the caller's contract.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a string with its end to a buffer of `length` bytes.
unsafe fn fill_text(to: *mut c_char, length: c_uint, text: &str) -> Result<(), Refusal> {
    given(to)?;
    if text.len() >= length as usize {
        return Err(Refusal::InsufficientSize);
    }
    // SAFETY: the buffer is as long as its caller says, and the text with its end is not longer.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// Reads a string.
unsafe fn text<'a>(from: *const c_char) -> Result<&'a str, Refusal> {
    given(from)?;
    // SAFETY: not null, so it ends with a null by the caller's contract.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|_| Refusal::InvalidArgument)
}

/// Writes as many values as there are to an array whose size is in `count`, and that number there. If the array is too
/// small, nothing but the number is written; it may be null if its size is 0.
unsafe fn fill_array<T: Copy>(to: *mut T, count: *mut c_uint, values: &[T]) -> Result<(), Refusal> {
    given(count)?;
    // SAFETY: not null, so readable and writable by the caller's contract.
    let room = unsafe { count.replace(u32::try_from(values.len()).unwrap_or(u32::MAX)) };
    if values.len() > room as usize {
        return Err(Refusal::InsufficientSize);
    }
    unsafe { fill_all(to, values) }
}

/// Writes all values to an array that the header says is large enough. It may be null if there are none.
unsafe fn fill_all<T: Copy>(to: *mut T, values: &[T]) -> Result<(), Refusal> {
    if values.is_empty() {
        return Ok(());
    }
    given(to)?;
    // SAFETY: the array has at least as many elements by the caller's contract.
    unsafe { to.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    Ok(())
}

/// A string in an array of a structure, cut off if it is too long, and with its end.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    for (to, from) in chars.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    chars
}

/// The handle of a device.
fn device(target: Target) -> nvmlDevice_t {
    pointer(target)
}

/// The handle that stands for `target`. It is a number: nothing is behind it, and nobody may look there.
fn pointer<T>(target: Target) -> *mut T {
    std::ptr::without_provenance_mut(process::handle(target))
}

/// What a handle stands for.
fn target<T>(handle: *mut T) -> Result<Target, Refusal> {
    process::target(handle.addr())
}

/// The GPU that a handle stands for, and its index; a MIG device is refused.
fn gpu(handle: nvmlDevice_t) -> Result<(Target, usize), Refusal> {
    match target(handle)? {
        target @ Target::Gpu(index) => Ok((target, index)),
        Target::MigDevice(..) => Err(Refusal::NotSupported),
        _ => Err(Refusal::InvalidArgument),
    }
}

/// The GPU or MIG device that a handle stands for.
fn any_device(handle: nvmlDevice_t) -> Result<Target, Refusal> {
    match target(handle)? {
        target @ (Target::Gpu(_) | Target::MigDevice(..)) => Ok(target),
        _ => Err(Refusal::InvalidArgument),
    }
}

/// The version that the header makes of a structure's size and its revision.
const fn version<T>(revision: u32) -> u32 {
    // A structure is never larger than 16 MiB, which the header supposes too.
    #[allow(clippy::cast_possible_truncation)]
    let size = size_of::<T>() as u32;
    size | (revision << 24)
}

/// A number in a field of 32 bits: the highest, if it is higher.
fn narrow(value: u64) -> c_uint {
    c_uint::try_from(value).unwrap_or(c_uint::MAX)
}
