//! Keeps the certificate in a Secret that all replicas share, and its authority where the API server looks for it.
//!
//! No replica is special: each looks, and the first that finds the certificate due makes the next one. The Secret's
//! `resourceVersion` is the precondition, so that of two that do so at once one fails and takes what the other made.
//! A replica serves by a new certificate only after it has seen to it that its authority is trusted, and the authority
//! before stays trusted: so it does not matter who is how far.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::json;
use tokio::{sync::watch, time::sleep};
use whalezen_crds::kueue::v1beta1;

use super::{
    certificate::{Certificate, Problem},
    discovery,
};

/// How often it is looked at least.
const PERIOD: Duration = Duration::from_mins(1);
/// How long after a new authority is written down it is served by: the API server has to notice.
const NOTICE: Duration = Duration::from_secs(1);

const AUTHORITIES: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// See the module.
pub struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    name: String,
    names: Vec<String>,
    life: Duration,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Certificate(#[from] Problem),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Keeper {
    /// Keeps a certificate for a Service.
    pub fn new(client: Client, namespace: &str, service: &str, life: Duration) -> Self {
        let host = format!("{service}.{namespace}.svc");
        let names =
            vec![host.clone(), format!("{host}.cluster.local"), service.to_owned(), "localhost".to_owned()];
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            client,
            name: format!("{service}-certificate"),
            names,
            life,
        }
    }

    /// Looks again and again, and hands over the certificate that is to be served by.
    pub async fn run(self, served: watch::Sender<Option<Certificate>>) {
        let period = PERIOD.min(self.life / 12);
        loop {
            match self.round(&served).await {
                Ok(()) => sleep(period).await,
                Err(problem) => {
                    tracing::warn!("the serving certificate {}: {problem}", self.name);
                    sleep(period.min(Duration::from_secs(5))).await;
                }
            }
        }
    }

    async fn round(&self, served: &watch::Sender<Option<Certificate>>) -> Result<(), Failure> {
        let certificate = self.current().await?;
        let published = self.publish(&certificate.authorities).await;
        let before = served.borrow().clone();
        // As long as another one serves, this one waits until it is trusted.
        if before.as_ref() != Some(&certificate) && (before.is_none() || published.is_ok()) {
            if before.is_some() {
                sleep(NOTICE).await;
            }
            tracing::info!("serving by the certificate in Secret {}", self.name);
            served.send_replace(Some(certificate));
        }
        published
    }

    /// The certificate of the Secret, made anew if it is due.
    async fn current(&self) -> Result<Certificate, Failure> {
        loop {
            let found = self.secrets.get_opt(&self.name).await?;
            let before = found.as_ref().and_then(read);
            let now = Timestamp::now();
            if let Some(certificate) = before.clone().filter(|certificate| !certificate.is_due(now)) {
                return Ok(certificate);
            }
            let made = Certificate::make(self.names.clone(), self.life, now, before.as_ref())?;
            let written = match found {
                None => self.secrets.create(&PostParams::default(), &self.secret(&made)).await,
                Some(mut found) => {
                    // The resourceVersion in it makes this fail if another replica was first.
                    found.data = Some(data(&made));
                    self.secrets.replace(&self.name, &PostParams::default(), &found).await
                }
            };
            match written {
                Ok(_) => {
                    tracing::info!("made a certificate, in Secret {}", self.name);
                    return Ok(made);
                }
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
                Err(problem) => return Err(problem.into()),
            }
        }
    }

    fn secret(&self, certificate: &Certificate) -> Secret {
        let mut secret = Secret { type_: Some("kubernetes.io/tls".to_owned()), ..Secret::default() };
        secret.metadata.name = Some(self.name.clone());
        secret.metadata.labels =
            Some([("app.kubernetes.io/part-of".to_owned(), "whalezen".to_owned())].into());
        secret.data = Some(data(certificate));
        secret
    }

    /// Writes the authorities where the API server looks for them, as far as it is told to come here at all.
    async fn publish(&self, authorities: &str) -> Result<(), Failure> {
        let bundle = serde_json::to_value(ByteString(authorities.as_bytes().to_vec())).unwrap_or_default();
        for Trusting { kind, name, of } in trusting() {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            let Some(found) = api.get_opt(&name).await? else { continue };
            let Some(client) = found.data.pointer(of) else { continue };
            if client.get("caBundle") == Some(&bundle) {
                continue;
            }
            let patch = json!([{ "op": "add", "path": format!("{of}/caBundle"), "value": bundle }]);
            let patch = serde_json::from_value(patch).map(Patch::<()>::Json);
            let patch = patch.map_err(kube::Error::SerdeError)?;
            api.patch(&name, &PatchParams::default(), &patch).await?;
            tracing::info!("{name} trusts the serving certificate's authority");
        }
        Ok(())
    }
}

/// An object in which the API server is told whom to trust.
struct Trusting {
    kind: ApiResource,
    name: String,
    /// Where in it.
    of: &'static str,
}

fn trusting() -> impl Iterator<Item = Trusting> {
    let kind = |group: &str, kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let definitions = v1beta1::CONVERTED.iter().map(move |converted| Trusting {
        kind: kind("apiextensions.k8s.io", "CustomResourceDefinition"),
        name: format!("{}s.kueue.x-k8s.io", converted.to_lowercase()),
        of: "/spec/conversion/webhook/clientConfig",
    });
    let services = discovery::SERVICES.into_iter().map(move |name| Trusting {
        kind: kind("apiregistration.k8s.io", "APIService"),
        name: name.to_owned(),
        of: "/spec",
    });
    definitions.chain(services)
}

fn data(certificate: &Certificate) -> BTreeMap<String, ByteString> {
    let Certificate { authorities, chain, key } = certificate;
    let each = [(AUTHORITIES, authorities), (CERTIFICATE, chain), (KEY, key)];
    each.map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec()))).into()
}

fn read(secret: &Secret) -> Option<Certificate> {
    let text = |name| String::from_utf8(secret.data.as_ref()?.get(name)?.0.clone()).ok();
    Some(Certificate { authorities: text(AUTHORITIES)?, chain: text(CERTIFICATE)?, key: text(KEY)? })
}
