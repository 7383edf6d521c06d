//! Strings of MIG and NVML with their constraints.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A profile in mig-parted's grammar: compute slices of a compute instance where it has fewer than its GPU instance,
/// compute slices, memory, and attributes.
pub const PROFILE: &str = r"^([1-9][0-9]?c\.)?[1-9][0-9]?g\.[1-9][0-9]{0,3}gb((\+|-)[a-z]+(\.[a-z]+)?)?$";

/// The UUID of a whole GPU.
pub const GPU_UUID: &str = r"^GPU-[0-9a-fA-F]+(-[0-9a-fA-F]+)*$";

/// NVIDIA's name of a profile.
pub(super) enum Profile {}

impl JsonSchema for Profile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": 32, "pattern": PROFILE })
    }
}

/// The UUID of a whole GPU.
pub(super) enum GpuUuid {}

impl JsonSchema for GpuUuid {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GpuUuid".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": 64, "pattern": GPU_UUID })
    }
}

/// How many instances of which profile, as in mig-parted's `mig-devices`.
pub(super) enum Counts {}

impl JsonSchema for Counts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Counts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "maxProperties": 16,
            "additionalProperties": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 8 },
        })
    }
}
