//! Kueue's configuration file: no field forgotten, and each with Kueue's meaning.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod document;
#[cfg(test)]
mod go;
#[cfg(test)]
#[path = "../../../../crds/tests/kueue/kueue_module.rs"]
mod kueue_module;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod refusing;
