//! A whole job, whatever its kind: what its Workload is made from, and what its templates are put back in.

use std::borrow::Cow;

use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;
use whalezen_crds::kueue::v1beta2::Workload;

use super::{
    JobKey, JobView, batch, described,
    kinds::{By, JobKind, Ranks, Serves},
    pod, writes,
};
use crate::write::Write;

/// A job as the API server has it.
#[derive(Clone, Debug)]
pub enum AnyJob {
    /// Kubernetes' own.
    Batch(Box<Job>),
    /// A pod.
    Pod(Box<Pod>),
    /// One of another kind.
    Described(&'static JobKind, Box<DynamicObject>),
}

/// A job's pod sets, and what else a Workload is made from.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Its kind.
    pub kind: &'static JobKind,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its pod sets.
    pub sets: Vec<Set>,
    /// Whether it may grow and shrink while it runs.
    pub elastic: bool,
    /// Whose its Workload is.
    pub standing: Standing,
}

/// Whose a Workload is.
#[derive(Clone, PartialEq, Debug)]
pub enum Standing {
    /// A job's.
    Job,
    /// That of a group of pods, which own it together.
    Pods(Vec<OwnerReference>),
    /// That of an object that serves, or of the group of this number.
    Serving(Option<u32>),
}

/// Pods of one template.
#[derive(Clone, Debug)]
pub struct Set {
    /// The name of the pod set.
    pub name: String,
    /// What the pods are made from, with what an admission added.
    pub template: PodTemplateSpec,
    /// How many.
    pub count: i32,
    /// How many are enough, if fewer are.
    pub min_count: Option<i32>,
    /// How each of them says which it is.
    pub ranks: Ranks,
    /// In how many groups they are, if they are in groups.
    pub group_count: Option<i32>,
    /// Whether a Workload has of the template the pods' spec alone.
    pub bare: bool,
    /// Where it is written what an admission adds.
    pub at: At,
}

/// Where it is written what an admission adds to the pods of a set.
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// In the pod template at this path.
    Template(Cow<'static, str>),
    /// In a template that is not there yet: this one, at this path.
    New(&'static str, Box<Value>),
    /// In a list at a path, of which each pod set has an entry, in order.
    Beside {
        /// The list.
        list: String,
        /// What has to be put where first, so that it is there and empty.
        anew: (String, Value),
    },
}

impl AnyJob {
    /// Its key.
    pub fn key(&self) -> JobKey {
        let (kind, metadata) = self.identity();
        JobKey {
            kind: kind.kind,
            namespace: metadata.namespace.as_deref().unwrap_or_default().into(),
            name: metadata.name.as_deref().unwrap_or_default().into(),
        }
    }

    /// Its kind and its metadata.
    pub fn identity(&self) -> (&'static JobKind, &ObjectMeta) {
        match self {
            Self::Batch(job) => (&super::kinds::JOB, &job.metadata),
            Self::Pod(pod) => (&super::kinds::POD, &pod.metadata),
            Self::Described(kind, job) => (kind, &job.metadata),
        }
    }

    /// What is kept of it.
    pub fn view(&self) -> JobView {
        match self {
            Self::Batch(job) => batch::view(job),
            Self::Pod(pod) => pod::view(pod),
            Self::Described(kind, job) => described::view(kind, job),
        }
    }

    /// How many groups it is to have, if those are queued by themselves.
    pub fn groups(&self) -> Option<u32> {
        let Self::Described(JobKind { serves: Some(Serves { by: By::Group(groups), .. }), .. }, object) =
            self
        else {
            return None;
        };
        Some((groups.wanted)(&object.data))
    }

    /// What its Workload is made from, or why none can be.
    pub fn whole(&self) -> Result<Whole, String> {
        match self {
            Self::Batch(job) => Ok(batch::whole(job)),
            Self::Pod(pod) => Ok(pod::whole(pod)),
            Self::Described(kind, job) => Ok(Whole {
                kind,
                metadata: job.metadata.clone(),
                sets: described::sets(kind, &job.name_any(), &job.data)?,
                elastic: false,
                standing: if kind.serves.is_some() { Standing::Serving(None) } else { Standing::Job },
            }),
        }
    }

    /// The same of one of its groups, if those are queued by themselves.
    pub fn whole_of(&self, number: Option<u32>) -> Result<Whole, String> {
        let whole = self.whole()?;
        Ok(match whole.standing {
            Standing::Serving(_) => Whole { standing: Standing::Serving(number), ..whole },
            Standing::Job | Standing::Pods(_) => whole,
        })
    }

    /// The same of a job by that of another kind that its controller makes of it.
    pub fn whole_by(&self, made: &Self) -> Result<Whole, String> {
        let (kind, metadata) = self.identity();
        let (of, its) = made.identity();
        let mut owners = its.owner_references.iter().flatten();
        if !owners.any(|owner| Some(&owner.uid) == metadata.uid.as_ref() && owner.controller == Some(true)) {
            return Err(format!("the {} of its name is not its own", of.kind));
        }
        Ok(Whole { kind, metadata: metadata.clone(), ..made.whole()? })
    }

    /// The patch that puts a job that rests back as its Workload remembers it, unless it has moved on and cannot be changed
    /// now. So many of its pods are `lost`, and not waited for.
    pub fn restore(&self, workload: &Workload, lost: usize) -> Option<Write> {
        let view = self.view();
        let rests = view.at_rest || (lost > 0 && view.suspended && view.waits_for_pods());
        if !rests || usize::try_from(view.active).is_ok_and(|active| active > lost) {
            return None;
        }
        let more = match self {
            Self::Batch(job) => batch::size_as_asked(job, workload),
            Self::Pod(_) => return None,
            Self::Described(..) => vec![],
        };
        Some(writes::restore(&self.whole().ok()?, workload, more))
    }
}
