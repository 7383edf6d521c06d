//! `AppWrapper` of `CodeFlare`: objects of any kind that are made together. What an admission adds to their pods is
//! written beside them, and its controller merges it.

use serde_json::Value;

use super::{
    Active, Count, Ended, Factor, JobKind, Message, Place, Ranks, Ready, Shown, Status, Wrapped, count,
    of_object,
};

/// `AppWrapper`.
pub static APP_WRAPPER: JobKind = JobKind {
    framework: "workload.codeflare.dev/appwrapper",
    group: "workload.codeflare.dev",
    version: "v1beta2",
    kind: "AppWrapper",
    plural: "appwrappers",
    suspend: "/spec/suspend",
    pods: &[Place::Wrapped { list: "/spec/components", pods: wrapped, beside: "/podSetInfos" }],
    ranks: Ranks::NONE,
    completes: None,
    wraps: Some(info),
    priority_class: None,
    unless: Shown::Never,
    serves: None,
    status: Some(Status {
        active: Active::While(Shown::Condition("QuotaReserved")),
        rests: Shown::Field(PHASE, &["Suspended"]),
        ready: Ready::When(Shown::Condition("PodsReady")),
        endings: &[
            Ended {
                when: Shown::Field(PHASE, &["Succeeded"]),
                succeeded: true,
                message: Message::Text("AppWrapper finished successfully"),
            },
            Ended {
                // Until then it is still deleting what it made.
                when: Shown::All(&[
                    Shown::Field(PHASE, &["Failed"]),
                    Shown::Not(&Shown::Condition("ResourcesDeployed")),
                ]),
                succeeded: false,
                message: Message::Text("AppWrapper failed"),
            },
        ],
        done: None,
    }),
};

const PHASE: &str = "/status/phase";

/// The kinds of jobs of which its controller knows where the pods are. Of others they have to be declared.
const KNOWN: [&str; 5] = ["Job", "JobSet", "PyTorchJob", "RayCluster", "RayJob"];
/// The same of objects that are no jobs by themselves: what holds their pod template, and how many pods they make of it.
const OTHERS: [(&str, &str, &str, Count); 3] = [
    ("v1", "Pod", "", &[]),
    ("apps/v1", "Deployment", "/spec/template", &[Factor::Smallest(&["/spec/replicas"])]),
    ("apps/v1", "StatefulSet", "/spec/template", &[Factor::Smallest(&["/spec/replicas"])]),
];

/// The pod sets of a component: those that it declares, or those that an object of its kind has.
fn wrapped(component: &Value) -> Vec<Wrapped> {
    let declared = component.pointer("/podSets").and_then(Value::as_array).filter(|list| !list.is_empty());
    if let Some(declared) = declared {
        return declared.iter().map(declaration).collect();
    }
    let Some(object) = component.pointer("/template") else { return vec![] };
    let says = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (says("apiVersion"), says("kind"));
    let job = of_object(api_version, kind).filter(|kind| KNOWN.contains(&kind.kind));
    let job = job.into_iter().flat_map(|kind| kind.pods.iter().map(|place| (place, kind.ranks)));
    let of_job = job.flat_map(|(place, ranks)| place.found(object, ranks));
    let others = OTHERS.iter().filter(|(version, name, ..)| (*version, *name) == (api_version, kind));
    let of_others = others.map(|(_, _, at, pods)| unranked((*at).to_owned(), count(object, pods)));
    let within = |pods: Wrapped| Wrapped { template: format!("/template{}", pods.template), ..pods };
    of_job.chain(of_others).map(within).collect()
}

/// A declared pod set. Its path, such as `template.spec.replicatedJobs[0].template`, starts at the component.
fn declaration(declared: &Value) -> Wrapped {
    let path = declared.pointer("/path").and_then(Value::as_str).unwrap_or_default();
    let template = format!("/{}", path.replace('[', ".").replace(']', "").replace('.', "/"));
    unranked(template, declared.pointer("/replicas").and_then(Value::as_i64).unwrap_or(1))
}

/// Pods that do not say which they are.
fn unranked(template: String, count: i64) -> Wrapped {
    Wrapped { template, count, groups: 1, ranks: Ranks::NONE }
}

/// What is added to the pods of a set, as its controller wants it: not as a template.
fn info(_: &str, added: &Value) -> Value {
    let parts = ["/metadata", "/spec"].into_iter().filter_map(|part| added.pointer(part)?.as_object());
    Value::Object(parts.flatten().map(|(field, value)| (field.clone(), value.clone())).collect())
}
