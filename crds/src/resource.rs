//! What makes a Rust struct a Kubernetes object.
//!
//! kube's own derive makes `spec` obligatory on the wire, and Kueue's objects may come without one (the
//! quick start's `ResourceFlavor` is nothing but a name). A missing spec is the default spec here, and an
//! object always deserialises if its fields do.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

/// An object as it goes on the wire: `apiVersion` and `kind` come from the type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wire<'a, S, T> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub metadata: &'a ObjectMeta,
    pub spec: &'a S,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'a T>,
}

/// The status of kinds that have none.
#[derive(Serialize)]
pub(crate) enum NoStatus {}

/// Declares a kind: its object struct with metadata, spec and, where given, status.
macro_rules! resource {
    (
        $(#[$meta:meta])*
        $kind:ident ($group:literal, $version:literal, $plural:literal): $scope:ident {
            $(#[$spec_meta:meta])*
            spec: $spec:ty,
            $(
                $(#[$status_meta:meta])*
                status: $status:ty,
            )?
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[$meta])*
        pub struct $kind {
            /// Name, labels, annotations and the other fields that every Kubernetes object has.
            #[serde(default)]
            #[schemars(skip)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(#[$spec_meta])*
            #[serde(default)]
            #[schemars(transform = $crate::schema::mark::undefaulted)]
            pub spec: $spec,
            $(
                $(#[$status_meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub status: Option<$status>,
            )?
        }

        impl $kind {
            /// An object of this name and spec, not yet in a namespace.
            pub fn new(name: &str, spec: $spec) -> Self {
                Self {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    spec,
                    $(status: None::<$status>,)?
                }
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::resource::Wire {
                    api_version: concat!($group, "/", $version),
                    kind: stringify!($kind),
                    metadata: &self.metadata,
                    spec: &self.spec,
                    status: $crate::resource::resource!(@status self $($status)?),
                }
                .serialize(serializer)
            }
        }

        impl kube::core::object::HasSpec for $kind {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        $(
            impl kube::core::object::HasStatus for $kind {
                type Status = $status;

                fn status(&self) -> Option<&$status> {
                    self.status.as_ref()
                }

                fn status_mut(&mut self) -> &mut Option<$status> {
                    &mut self.status
                }
            }
        )?

        $crate::resource::served!($kind ($group, $version, $plural): $scope);
    };
    (@status $self:ident $status:ty) => { $self.status.as_ref() };
    (@status $self:ident) => { None::<&$crate::resource::NoStatus> };
}

/// Declares where the API server serves a struct that has a `metadata` field.
macro_rules! served {
    ($kind:ident ($group:literal, $version:literal, $plural:literal): $scope:ident) => {
        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn api_version(_: &()) -> std::borrow::Cow<'_, str> {
                concat!($group, "/", $version).into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use {resource, served};
