//! From `kueue.x-k8s.io/v1beta1` to v1beta2 and back, object by object, as JSON.
//!
//! A round trip loses nothing. What one version says in other words than the other is translated. What it alone can
//! say is [kept](keep) in an annotation of the other one, and put back on the way home if what it belongs to is still
//! there. Kueue's own conversion drops it.
//!
//! An annotation is a user's to write: only the fields that are kept are ever put back, and an object that is no
//! v1beta2 object of its kind then is refused, since it could be stored and nobody could read it.

mod keep;
mod priority_class;
mod queues;
mod topology;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use whalezen_crds::kueue::v1beta2;

use self::keep::Kept;

const GROUP: &str = "kueue.x-k8s.io";

/// A version of the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// The one of old.
    V1Beta1,
    /// The one that is stored.
    V1Beta2,
}

impl Version {
    /// The version that an `apiVersion` names.
    pub fn of(api_version: &str) -> Option<Self> {
        match api_version.strip_prefix(GROUP)?.strip_prefix('/')? {
            "v1beta1" => Some(Self::V1Beta1),
            "v1beta2" => Some(Self::V1Beta2),
            _ => None,
        }
    }

    fn api_version(self) -> String {
        let version = match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        };
        format!("{GROUP}/{version}")
    }

    /// The annotation in which the other version keeps what this one alone can say.
    fn annotation(self) -> &'static str {
        match self {
            Self::V1Beta1 => "conversion.scheduling.gen.io/v1beta1",
            Self::V1Beta2 => "conversion.scheduling.gen.io/v1beta2",
        }
    }
}

/// Why an object cannot be converted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem(pub String);

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object in this version. One that has it already is given back as it is.
pub fn convert(mut object: Value, to: Version) -> Result<Value, Problem> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(from) = Version::of(&api_version) else {
        return Err(Problem(format!("{api_version:?} is no version that is converted here")));
    };
    let Some(check) = check_of(&kind) else {
        return Err(Problem(format!("{kind:?} is no kind that is converted here")));
    };
    if from == to {
        return Ok(object);
    }
    let returning = Kept::from_annotation(&mut object, to.annotation());
    let mut leaving = Kept::default();
    for path in only(from, &kind) {
        leaving.take(&mut object, path);
    }
    translate(&mut object, &kind, to, &returning, &mut leaving)?;
    for path in only(to, &kind) {
        returning.put_back(&mut object, path);
    }
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), json!(to.api_version()));
    }
    leaving.annotate(&mut object, from.annotation());
    if to == Version::V1Beta2 {
        check(&object).map_err(|problem| Problem(format!("this is no {kind} of v1beta2: {problem}")))?;
    }
    Ok(object)
}

/// The fields that only this version has.
fn only(version: Version, kind: &str) -> &'static [&'static str] {
    match (version, kind) {
        (Version::V1Beta1, "ClusterQueue") => {
            &["status.pendingWorkloadsStatus", "status.fairSharing.admissionFairSharingStatus"]
        }
        (Version::V1Beta1, "Cohort") => &["status.fairSharing.admissionFairSharingStatus"],
        (Version::V1Beta1, "LocalQueue") => &["status.flavors"],
        (Version::V1Beta2, "ClusterQueue") => &["spec.concurrentAdmissionPolicy"],
        (Version::V1Beta2, "MultiKueueConfig") => &["spec.quotaManagement"],
        (Version::V1Beta2, "Workload") => &[
            "spec.preemptionGates",
            "spec.podSets[].topologyRequest.podsetSliceRequiredTopologyConstraints",
            "status.preemptionGates",
        ],
        _ => &[],
    }
}

/// Says in the words of one version what was said in those of the other.
fn translate(
    object: &mut Value,
    kind: &str,
    to: Version,
    returning: &Kept,
    leaving: &mut Kept,
) -> Result<(), Problem> {
    match (kind, to) {
        ("AdmissionCheck", Version::V1Beta2) => {
            leaving.take_unless(object, "spec.retryDelayMinutes", &json!(RETRY_DELAY_MINUTES));
        }
        ("AdmissionCheck", Version::V1Beta1) => {
            returning.put_back(object, "spec.retryDelayMinutes");
            if let Some(Value::Object(spec)) = object.get_mut("spec") {
                spec.entry("retryDelayMinutes").or_insert_with(|| json!(RETRY_DELAY_MINUTES));
            }
        }
        ("ClusterQueue", Version::V1Beta2) => queues::to_v1beta2(object, leaving),
        ("ClusterQueue", Version::V1Beta1) => queues::to_v1beta1(object, returning),
        ("LocalQueue", Version::V1Beta2) => rename(object, "status", "flavorUsage", "flavorsUsage"),
        ("LocalQueue", Version::V1Beta1) => rename(object, "status", "flavorsUsage", "flavorUsage"),
        ("MultiKueueCluster", Version::V1Beta2) => source_to_v1beta2(object),
        ("MultiKueueCluster", Version::V1Beta1) => source_to_v1beta1(object),
        ("Workload", Version::V1Beta2) => {
            priority_class::to_v1beta2(object, returning, leaving);
            rename(object, "status", OLD_PAST_TIME, PAST_TIME);
            topology::each_assignment(object, topology::to_v1beta2)?;
        }
        ("Workload", Version::V1Beta1) => {
            priority_class::to_v1beta1(object, returning, leaving);
            rename(object, "status", PAST_TIME, OLD_PAST_TIME);
            topology::each_assignment(object, topology::to_v1beta1)?;
        }
        _ => {}
    }
    Ok(())
}

/// What v1beta1 has in this field unless somebody says otherwise. It has no effect.
const RETRY_DELAY_MINUTES: i64 = 15;
const PAST_TIME: &str = "accumulatedPastExecutionTimeSeconds";
/// The same with the letters in which v1beta1 has it.
const OLD_PAST_TIME: &str = "accumulatedPastExexcutionTimeSeconds";

/// Calls a field of `spec` or `status` by another name.
fn rename(object: &mut Value, part: &str, from: &str, to: &str) {
    if let Some(Value::Object(part)) = object.get_mut(part)
        && let Some(value) = part.remove(from)
    {
        part.insert(to.to_owned(), value);
    }
}

/// How another cluster is reached: what stood beside each other stands under one field.
fn source_to_v1beta2(object: &mut Value) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let mut source = Map::new();
    if let Some(config) = spec.remove("kubeConfig")
        && config.get("location").and_then(Value::as_str).is_some_and(|location| !location.is_empty())
    {
        source.insert("kubeConfig".to_owned(), config);
    }
    if let Some(profile) = spec.remove("clusterProfileRef") {
        source.insert("clusterProfileRef".to_owned(), profile);
    }
    spec.insert("clusterSource".to_owned(), source.into());
}

fn source_to_v1beta1(object: &mut Value) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    let mut source = spec.remove("clusterSource").unwrap_or_default();
    // v1beta1 always has this field.
    let none = || json!({ "location": "", "locationType": "Secret" });
    let mut take = |field| source.as_object_mut().and_then(|source| source.remove(field));
    spec.insert("kubeConfig".to_owned(), take("kubeConfig").unwrap_or_else(none));
    if let Some(profile) = take("clusterProfileRef") {
        spec.insert("clusterProfileRef".to_owned(), profile);
    }
}

type Check = fn(&Value) -> Result<(), serde_json::Error>;

/// How it is known whether something is a v1beta2 object of a kind.
fn check_of(kind: &str) -> Option<Check> {
    fn is<T: DeserializeOwned>(object: &Value) -> Result<(), serde_json::Error> {
        T::deserialize(object).map(drop)
    }
    Some(match kind {
        "AdmissionCheck" => is::<v1beta2::AdmissionCheck>,
        "ClusterQueue" => is::<v1beta2::ClusterQueue>,
        "Cohort" => is::<v1beta2::Cohort>,
        "LocalQueue" => is::<v1beta2::LocalQueue>,
        "MultiKueueCluster" => is::<v1beta2::MultiKueueCluster>,
        "MultiKueueConfig" => is::<v1beta2::MultiKueueConfig>,
        "ProvisioningRequestConfig" => is::<v1beta2::ProvisioningRequestConfig>,
        "ResourceFlavor" => is::<v1beta2::ResourceFlavor>,
        "Topology" => is::<v1beta2::Topology>,
        "Workload" => is::<v1beta2::Workload>,
        "WorkloadPriorityClass" => is::<v1beta2::WorkloadPriorityClass>,
        _ => return None,
    })
}
