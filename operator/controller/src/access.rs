//! Who may read what is served: the API server says who a token belongs to (`TokenReview`) and what that one may see
//! (`SubjectAccessReview`). Nothing is looked up before, so that nobody learns whether something exists.

use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::limiter::Limiter;

const PATIENCE: Duration = Duration::from_secs(10);

/// Why somebody does not get what was asked for.
pub type Refusal = (StatusCode, &'static str);

/// Asks the API server.
pub struct Access {
    client: Client,
    limiter: Mutex<Limiter>,
}

/// How many are asked about in a second, and at once: whoever can reach a port can make the API server work.
pub struct Pace {
    /// In the long run.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

impl Access {
    /// Asks by this client, and not more often.
    pub fn new(client: Client, pace: &Pace) -> Self {
        Self { client, limiter: Mutex::new(Limiter::new(pace.per_second, pace.burst, Instant::now())) }
    }

    /// Whether whoever sent these headers may `verb` Workloads: this one, or all of a namespace, or all.
    pub async fn check(
        &self,
        headers: &HeaderMap,
        verb: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), Refusal> {
        const UNKNOWN: Refusal =
            (StatusCode::UNAUTHORIZED, "send a token that the API server knows: Authorization: Bearer ...");
        let token =
            headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        let token = token.filter(|token| !token.is_empty()).ok_or(UNKNOWN)?;
        let attributes = ResourceAttributes {
            group: Some("kueue.x-k8s.io".to_owned()),
            resource: Some("workloads".to_owned()),
            verb: Some(verb.to_owned()),
            namespace: namespace.map(ToOwned::to_owned),
            name: name.map(ToOwned::to_owned),
            ..ResourceAttributes::default()
        };
        self.ask(async {
            let Some(user) = self.user(token).await? else { return Ok(Err(UNKNOWN)) };
            let allowed = self.may(user, attributes).await?;
            Ok(allowed.then_some(()).ok_or((StatusCode::FORBIDDEN, "you may not read these Workloads")))
        })
        .await
    }

    /// Whether this user may do this.
    pub async fn permits(&self, user: UserInfo, attributes: ResourceAttributes) -> Result<(), Refusal> {
        self.ask(async {
            let allowed = self.may(user, attributes).await?;
            Ok(allowed
                .then_some(())
                .ok_or((StatusCode::FORBIDDEN, "you may not read who waits in this queue")))
        })
        .await
    }

    /// Asks the API server, if not too much is asked of it, and not for long.
    async fn ask(
        &self,
        asked: impl Future<Output = kube::Result<Result<(), Refusal>>>,
    ) -> Result<(), Refusal> {
        if !self.limiter.lock().await.take(Instant::now()) {
            return Err((StatusCode::TOO_MANY_REQUESTS, "too many at once: try again in a second"));
        }
        match timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(problem)) => {
                tracing::warn!("whether somebody may read could not be asked: {problem}");
                Err((StatusCode::SERVICE_UNAVAILABLE, "the API server did not say whether you may"))
            }
            Err(_) => {
                Err((StatusCode::SERVICE_UNAVAILABLE, "the API server did not say in time whether you may"))
            }
        }
    }

    async fn user(&self, token: &str) -> kube::Result<Option<UserInfo>> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = api.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }

    async fn may(&self, user: UserInfo, attributes: ResourceAttributes) -> kube::Result<bool> {
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = api.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }
}
