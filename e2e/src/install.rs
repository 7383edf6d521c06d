//! What an administrator does once: the definitions, the policies and the roles of `manifests`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::cluster::Cluster;

/// A folder of this repository's manifests.
pub fn manifests(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests").join(folder)
}

impl Cluster {
    /// Installs everything of `manifests/kustomize/base` but the Deployment: whoever starts a cluster runs the
    /// operator's [replicas](crate::Replicas) beside it, because simulated nodes run no program.
    pub async fn install_operator(&self) -> Result<()> {
        self.install_operator_without_policies().await?;
        self.apply_dir(manifests("kustomize/base/admission")).await.context("the admission policies")?;
        Ok(())
    }

    /// The same for a cluster whose administrator wants no admission policies.
    pub async fn install_operator_without_policies(&self) -> Result<()> {
        self.apply_dir(manifests("crds")).await.context("the custom resource definitions")?;
        self.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).await?;
        self.apply_dir(manifests("kustomize/base/rbac")).await.context("the roles")?;
        self.apply_dir(manifests("kustomize/base/serving"))
            .await
            .context("the Service and the APIs behind it")?;
        Ok(())
    }
}
