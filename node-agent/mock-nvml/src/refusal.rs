//! What NVML answers when it does not do what was asked: the return codes of `nvml.h`, by name.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// A return code of NVML other than success. In files and on the command line it is written as in
        /// `nvml.h`, without the prefix: `IN_USE`, `GPU_IS_LOST`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum Refusal {
            $($(#[$doc])* #[error($text)] $name,)*
        }

        impl Refusal {
            /// The number in `nvml.h`.
            pub fn code(self) -> u32 {
                match self { $(Self::$name => $code,)* }
            }

            /// The refusal with that number; none for 0, which is success, and for numbers that NVML does not have.
            pub fn from_code(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// What it means, as `nvmlErrorString` says it.
            pub fn text(self) -> &'static CStr {
                match self {
                    $(Self::$name => {
                        const { match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                            Ok(text) => text,
                            Err(_) => c"Unknown Error",
                        } }
                    })*
                }
            }
        }
    };
}

refusals! {
    /// `nvmlInit` was not called, or not again after a reboot.
    Uninitialized = 1, "Uninitialized";
    /// A null pointer, a handle that never was, a number out of range.
    InvalidArgument = 2, "Invalid Argument";
    /// The device cannot do that, or not in its present mode.
    NotSupported = 3, "Not Supported";
    /// The caller is not root.
    NoPermission = 4, "Insufficient Permissions";
    /// Not there, or not any more.
    NotFound = 6, "Not Found";
    /// The caller's buffer is too small; how much is needed was written.
    InsufficientSize = 7, "Insufficient Size";
    /// No driver, which here means no machine.
    DriverNotLoaded = 9, "Driver Not Loaded";
    /// Nothing came within the time.
    Timeout = 10, "Timeout";
    /// The device fell off the bus.
    GpuIsLost = 15, "GPU is lost";
    /// What was set comes into force with the device's next reset.
    ResetRequired = 16, "GPU requires reset";
    /// The operating system refused.
    OperatingSystem = 17, "GPU access blocked by the operating system";
    /// Something uses it.
    InUse = 19, "In use by another client";
    /// No memory.
    Memory = 20, "Insufficient Memory";
    /// There is nothing to report.
    NoData = 21, "No data";
    /// No room for it, whether because something is there or because it never fits beside what is.
    InsufficientResources = 23, "Insufficient Resources";
    /// The structure is of a version that is not known.
    ArgumentVersionMismatch = 25, "Argument version mismatch";
    /// The device is not ready.
    NotReady = 27, "Not Ready";
    /// The operation is not allowed now.
    InvalidState = 29, "Invalid State";
    /// Anything else.
    Unknown = 999, "Unknown Error";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back_as_itself_and_success_is_no_refusal() {
        for code in 0..1_000 {
            if let Some(refusal) = Refusal::from_code(code) {
                assert_eq!(refusal.code(), code);
            }
        }
        assert_eq!(Refusal::from_code(0), None);
    }

    #[test]
    fn a_refusal_is_written_as_in_the_header() {
        assert_eq!(serde_json::to_string(&Refusal::GpuIsLost).unwrap(), "\"GPU_IS_LOST\"");
    }
}
