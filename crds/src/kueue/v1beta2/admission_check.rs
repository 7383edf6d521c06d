//! `AdmissionCheck`: a question asked of another controller before a workload with quota may start.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::definition::{CustomResource, Definition};
use crate::resource::resource;
use crate::schema::{mark, names};

resource! {
    /// An AdmissionCheck is a condition beyond quota that a workload must meet before it is admitted, such
    /// as nodes being provisioned. The controller that it names answers for each workload.
    AdmissionCheck("kueue.x-k8s.io", "v1beta2", "admissionchecks"): ClusterResourceScope {
        /// Who answers the check, and with which parameters.
        spec: AdmissionCheckSpec,
        /// Whether the check can be answered.
        status: AdmissionCheckStatus,
    }
}

impl CustomResource for AdmissionCheck {
    const DEFINITION: Definition =
        Definition { short_names: &["ac"], columns: &[], selectable: &[], status: true };
}

/// Who answers an AdmissionCheck, and with which parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckSpec {
    /// The controller that answers, by the name it goes by; not the name of a pod or a Deployment. Cannot
    /// be changed.
    #[schemars(length(min = 1, max = 253), transform = mark::immutable)]
    pub controller_name: String,

    /// An object with parameters for the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<AdmissionCheckParametersReference>,
}

/// A cluster-scoped object that holds parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckParametersReference {
    /// The object's API group.
    #[schemars(with = "names::RequiredSubdomain")]
    pub api_group: String,

    /// The object's kind.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub kind: String,

    /// The object's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = names::LABEL))]
    pub name: String,
}

/// Whether an AdmissionCheck can be answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionCheckStatus {
    /// What was last observed about the check. `Active` says whether its controller is ready to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), transform = mark::map_list(&["type"]))]
    pub conditions: Vec<Condition>,
}
