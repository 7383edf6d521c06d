//! The identities of things, one type each, so that a flavor's name cannot be passed for a queue's.
//!
//! All are cheap to clone (a shared string) and ordered by their text.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! namespaced {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The namespace it lives in.
            pub namespace: Arc<str>,
            /// Its name there.
            pub name: Arc<str>,
        }

        impl $name {
            /// The identity of `name` in `namespace`.
            pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
                Self { namespace: namespace.into(), name: name.into() }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.namespace, self.name)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{self}\"")
            }
        }

        // As the text `namespace/name`, so that it can be a key of a map in a snapshot.
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.split_once('/').map(|(namespace, name)| Self::new(namespace, name)).ok_or_else(|| {
                    serde::de::Error::custom(format!("{text:?} is not of the form namespace/name"))
                })
            }
        }
    };
}

name!(
    /// A `ResourceFlavor`'s name.
    FlavorName
);
name!(
    /// A ClusterQueue's name.
    ClusterQueueName
);
name!(
    /// A cohort's name, whether or not a `Cohort` object of that name exists.
    CohortName
);
name!(
    /// A resource's name as pods request it, for example `nvidia.com/gpu`.
    ResourceName
);
name!(
    /// An admission check's name.
    CheckName
);
name!(
    /// A Topology's name.
    TopologyName
);
name!(
    /// A node's name.
    HostName
);
namespaced!(
    /// A LocalQueue's namespace and name.
    LocalQueueKey
);
namespaced!(
    /// A workload's namespace and name.
    WorkloadKey
);
namespaced!(
    /// A pod's namespace and name.
    PodKey
);

impl ResourceName {
    /// Processor time; the only resource that is counted in thousandths.
    pub const CPU: &'static str = "cpu";
    /// The count of pods, which a ClusterQueue may cover like any other resource.
    pub const PODS: &'static str = "pods";
}

/// One resource of one flavor: what quota is kept for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlavorResource {
    /// The flavor.
    pub flavor: FlavorName,
    /// The resource.
    pub resource: ResourceName,
}

impl FlavorResource {
    /// `resource` of `flavor`.
    pub fn new(flavor: impl Into<FlavorName>, resource: impl Into<ResourceName>) -> Self {
        Self { flavor: flavor.into(), resource: resource.into() }
    }
}

// As the text `flavor/resource`, so that it can be a key of a map in a snapshot. A flavor's name has no slash.
impl Serialize for FlavorResource {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}/{}", self.flavor, self.resource))
    }
}

impl<'de> Deserialize<'de> for FlavorResource {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.split_once('/')
            .map(|(flavor, resource)| Self::new(flavor, resource))
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not of the form flavor/resource")))
    }
}
