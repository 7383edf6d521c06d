//! Whether the API server itself is calling, and for whom.
//!
//! What is asked of an aggregated API comes from the API server's own proxy, which has found out who asks and says so in
//! headers. They are worth something only if the connection's certificate is signed by the authority, and has one of
//! the names, that the API server publishes in the `ConfigMap` `extension-apiserver-authentication`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use k8s_openapi::api::{authentication::v1::UserInfo, core::v1::ConfigMap};
use kube::{Api, Client};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio::{sync::watch, time::sleep};

use super::tls::Peer;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// How often the `ConfigMap` is read. Authorities are renewed a long time before they end.
const PERIOD: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_secs(5);

/// How the API server's proxy is known, and in which headers it says for whom it asks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FrontProxy {
    /// Who signs its certificate. None: nobody is believed.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The common names that it may have. None: any.
    allowed_names: Vec<String>,
    user: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra: Vec<String>,
}

/// Why it is not known who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// The connection is not the API server's proxy's.
    NotTheProxy,
    /// The proxy does not say for whom it asks.
    Nobody,
}

impl FrontProxy {
    /// As the `ConfigMap` says. Nobody is believed by one that cannot be read: a list of names that is nonsense must
    /// not pass for none.
    fn read(config: &ConfigMap) -> Result<Self, serde_json::Error> {
        let text = |key: &str| config.data.as_ref().and_then(|data| data.get(key)).map_or("", String::as_str);
        let list = |key: &str| match text(key) {
            "" => Ok(Vec::new()),
            text => serde_json::from_str::<Vec<String>>(text),
        };
        let authorities = CertificateDer::pem_slice_iter(text("requestheader-client-ca-file").as_bytes());
        Ok(Self {
            authorities: authorities.filter_map(Result::ok).collect(),
            allowed_names: list("requestheader-allowed-names")?,
            user: list("requestheader-username-headers")?,
            uid: list("requestheader-uid-headers")?,
            group: list("requestheader-group-headers")?,
            extra: list("requestheader-extra-headers-prefix")?,
        })
    }

    /// For whom a request is made.
    pub fn user(&self, peer: &Peer, headers: &HeaderMap) -> Result<UserInfo, Stranger> {
        let known = |name: &String| self.allowed_names.is_empty() || self.allowed_names.contains(name);
        if self.authorities.is_empty() || !peer.common_name.as_ref().is_some_and(known) {
            return Err(Stranger::NotTheProxy);
        }
        let username = self.user.iter().find_map(|name| values(headers, name).next());
        Ok(UserInfo {
            username: Some(username.ok_or(Stranger::Nobody)?),
            uid: self.uid.iter().find_map(|name| values(headers, name).next()),
            groups: Some(self.group.iter().flat_map(|name| values(headers, name)).collect()),
            extra: Some(self.extras(headers)),
        })
    }

    fn extras(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extras = BTreeMap::new();
        for prefix in self.extra.iter().map(|prefix| prefix.to_ascii_lowercase()) {
            for name in headers.keys() {
                if let Some(key) = name.as_str().strip_prefix(&prefix) {
                    extras.insert(percent_decoded(key), values(headers, name.as_str()).collect());
                }
            }
        }
        extras
    }
}

/// The values of a header that say something.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let all = headers.get_all(name).iter();
    all.filter_map(|value| value.to_str().ok()).filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

/// A key may hold characters that a header's name may not.
fn percent_decoded(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = others.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = others.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the `ConfigMap` again and again.
pub async fn follow(client: Client, known: watch::Sender<Arc<FrontProxy>>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    loop {
        let pause = match api.get_opt(NAME).await {
            Ok(config) => {
                let read = config.as_ref().map(FrontProxy::read).transpose();
                let read = read.unwrap_or_else(|problem| {
                    tracing::warn!(
                        "ConfigMap {NAMESPACE}/{NAME} cannot be read, and nobody is believed: {problem}"
                    );
                    None
                });
                let read = read.unwrap_or_default();
                if **known.borrow() != read {
                    known.send_replace(Arc::new(read));
                }
                // There is none where the API server has no front proxy, or not yet.
                if config.is_some() { PERIOD } else { RETRY }
            }
            Err(problem) => {
                tracing::warn!("ConfigMap {NAMESPACE}/{NAME}, by which the API server is known: {problem}");
                RETRY
            }
        };
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn proxy(allowed: &[&str]) -> FrontProxy {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        FrontProxy {
            authorities: vec![CertificateDer::from(vec![1])],
            allowed_names: list(allowed),
            user: list(&["X-Remote-User"]),
            uid: list(&["X-Remote-Uid"]),
            group: list(&["X-Remote-Group"]),
            extra: list(&["X-Remote-Extra-"]),
        }
    }

    fn peer(name: Option<&str>) -> Peer {
        Peer { common_name: name.map(ToOwned::to_owned) }
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn the_proxy_says_for_whom_it_asks() {
        let headers = headers(&[
            ("x-remote-user", "alice"),
            ("x-remote-group", "team"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-extra-example.org%2fscope", "all"),
            ("x-remote-uid", "7"),
        ]);
        let user = proxy(&["front"]).user(&peer(Some("front")), &headers).unwrap();
        assert_eq!(user.username.as_deref(), Some("alice"));
        assert_eq!(user.uid.as_deref(), Some("7"));
        assert_eq!(user.groups.unwrap(), ["team", "system:authenticated"]);
        assert_eq!(user.extra.unwrap()["example.org/scope"], ["all"]);
    }

    #[test]
    fn nobody_else_is_believed_whatever_the_headers_say() {
        let headers = headers(&[("x-remote-user", "system:admin"), ("x-remote-group", "system:masters")]);
        let stranger = Err(Stranger::NotTheProxy);
        assert_eq!(proxy(&["front"]).user(&peer(None), &headers), stranger);
        assert_eq!(proxy(&["front"]).user(&peer(Some("other")), &headers), stranger);
        assert_eq!(proxy(&["front"]).user(&peer(Some("")), &headers), stranger);
        assert_eq!(proxy(&[]).user(&peer(None), &headers), stranger);
        assert!(proxy(&[]).user(&peer(Some("any")), &headers).is_ok());
        assert_eq!(FrontProxy::default().user(&peer(Some("front")), &headers), stranger);
    }

    #[test]
    fn a_proxy_that_names_nobody_asks_for_nobody() {
        let asked = proxy(&[]).user(&peer(Some("front")), &headers(&[("x-remote-user", "")]));
        assert_eq!(asked, Err(Stranger::Nobody));
    }

    #[test]
    fn a_config_map_of_nonsense_trusts_nobody() {
        let read = |key: &str, text: &str| {
            let data = [(key.to_owned(), text.to_owned())].into();
            FrontProxy::read(&ConfigMap { data: Some(data), ..ConfigMap::default() })
        };
        assert_eq!(read("requestheader-client-ca-file", "nonsense").unwrap(), FrontProxy::default());
        let names = read("requestheader-allowed-names", "[\"front\"]").unwrap().allowed_names;
        assert_eq!(names, ["front"]);
        assert!(read("requestheader-allowed-names", "front").is_err(), "which must not pass for anybody's");
    }
}
