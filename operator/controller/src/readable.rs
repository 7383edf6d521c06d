//! An object of the API server's, read by itself: one that cannot be read does not keep others from being read.
//!
//! In the text of a list or of an event it is passed over without looking into it, so it does not matter how deep it is.
//! kube's own `DeserializeGuard` looks into it first, and `serde_json` refuses to go deeper than 128 levels: a list with one
//! such object could not be read at all.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::value::RawValue;

/// One, or what is known of it beside the problem.
#[derive(Clone, Debug)]
pub struct Readable<K>(pub Result<K, Unreadable>);

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// What could be read.
    pub metadata: ObjectMeta,
    /// Why not more.
    pub problem: String,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let read = match serde_json::from_str(text.get()) {
            Ok(object) => Ok(object),
            Err(problem) => {
                let OnlyMetadata { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                Err(Unreadable { metadata, problem: problem.to_string() })
            }
        };
        Ok(Self(read))
    }
}

impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::{
        ResourceExt as _,
        core::{DynamicObject, ObjectList, WatchEvent},
    };

    use super::*;

    /// A value in so many objects.
    fn nested(depth: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
    }

    fn object(name: &str, spec: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{spec}}}"#)
    }

    #[test]
    fn a_list_and_an_event_are_read_however_deep_one_of_their_objects_is() {
        let deep = object("deep", &nested(50_000));
        let items = [object("a", "{}"), deep.clone(), object("b", "{}")].join(",");
        let list = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#);
        let list: ObjectList<Readable<DynamicObject>> = serde_json::from_str(&list).unwrap();
        let names: Vec<String> = list.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "deep", "b"]);
        let readable: Vec<bool> = list.iter().map(|object| object.0.is_ok()).collect();
        assert_eq!(readable, [true, false, true]);

        let event = format!(r#"{{"type":"ADDED","object":{deep}}}"#);
        let event: WatchEvent<Readable<DynamicObject>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Added(Readable(Err(deep))) = event else { panic!("it is not read") };
        assert!(deep.problem.contains("recursion limit"), "{}", deep.problem);
    }

    #[test]
    fn an_object_of_another_shape_is_known_by_its_metadata() {
        let pod: Readable<Pod> = serde_json::from_str(&object("odd", r#"{"containers":"none"}"#)).unwrap();
        assert_eq!(pod.name_any(), "odd");
        assert!(pod.0.unwrap_err().problem.contains("invalid type"));
        assert!(serde_json::from_str::<Readable<Pod>>(r#"{"spec":1}"#).is_err(), "nothing is known of it");
    }
}
