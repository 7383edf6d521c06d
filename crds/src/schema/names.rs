//! Strings that must look a certain way. They are plain `String`s in Rust; the marker types here carry their
//! constraints into the schema (`#[schemars(with = "Option<names::Subdomain>")]`).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Lower-case DNS labels joined by dots (RFC 1123), as object names are.
pub const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// One lower-case DNS label.
pub const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A label key: an optional DNS prefix, a slash, and a name.
pub const QUALIFIED: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A quantity, with sign, decimal or binary suffix, or exponent.
pub const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

macro_rules! string {
    ($(#[$doc:meta])* $name:ident { $($key:literal: $value:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", $($key: $value),* })
            }
        }
    };
}

string! {
    /// The name of a cluster-scoped object or of a queue.
    Subdomain { "maxLength": 253, "pattern": SUBDOMAIN }
}

string! {
    /// An object name that must be given.
    RequiredSubdomain { "minLength": 1, "maxLength": 253, "pattern": SUBDOMAIN }
}

string! {
    /// The name of a set of pods.
    PodSetName { "maxLength": 63, "pattern": LABEL }
}

string! {
    /// The name of an admission check.
    CheckName { "minLength": 1, "maxLength": 316 }
}

string! {
    /// The name of a gate.
    GateName { "minLength": 1, "maxLength": 63 }
}

string! {
    /// A free string of at most 255 characters.
    Parameter { "maxLength": 255 }
}
