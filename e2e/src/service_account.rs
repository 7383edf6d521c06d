//! Tokens of service accounts that are bound to a pod or to a node, as the programs on nodes have them.
//!
//! Only in such a token is the node's name, which admission policies read in
//! `authentication.kubernetes.io/node-name`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt as _};

use crate::cluster::Cluster;
use crate::credentials;

/// Longer than any test.
const SECONDS: i64 = 24 * 3600;

/// What a token is bound to: when that is gone, it is good for nothing.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    /// A pod of the service account's namespace and of that service account. Its node is in the token as well.
    Pod(&'a str),
    /// A node.
    Node(&'a str),
}

impl Cluster {
    /// A token of a service account that is bound to a pod or a node.
    pub async fn bound_token(&self, namespace: &str, account: &str, to: Bound<'_>) -> Result<String> {
        let client = self.client();
        let reference = match to {
            Bound::Pod(name) => {
                reference(&Api::<Pod>::namespaced(client.clone(), namespace).get(name).await?)
            }
            Bound::Node(name) => reference(&Api::<Node>::all(client.clone()).get(name).await?),
        };
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: None,
                bound_object_ref: Some(reference),
                expiration_seconds: Some(SECONDS),
            }),
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token of {namespace}/{account} that is bound to {to:?}"))?;
        answer.status.and_then(|status| status.token).context("the API server gave no token")
    }

    /// Writes a kubeconfig with a token into the cluster's folder and says where it is. It is good on this machine and on
    /// the cluster's real nodes.
    pub fn kubeconfig_with(&self, name: &str, token: &str) -> Result<PathBuf> {
        let file = self.state_dir().join(format!("{name}-kubeconfig"));
        let authority = std::fs::read(self.authority())?;
        credentials::write_kubeconfig(&file, &self.url(), &authority, token)?;
        Ok(file)
    }
}

fn reference<T: Resource<DynamicType = ()>>(object: &T) -> BoundObjectReference {
    BoundObjectReference {
        api_version: Some(T::api_version(&()).into_owned()),
        kind: Some(T::kind(&()).into_owned()),
        name: Some(object.name_any()),
        uid: object.uid(),
    }
}
