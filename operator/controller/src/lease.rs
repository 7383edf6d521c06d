//! Leadership by a `coordination.k8s.io` Lease.
//!
//! A lease does not fence: Kubernetes gives no token that the API server would check on a write. So a leader stops
//! writing a margin before its claim runs out, and every write carries a precondition of its own. The applier asks
//! [`Leadership::may_write`] before each write; that is why the claim's end is kept here and not only a flag (which
//! is all that the ready-made crates offer).
//!
//! Ends are counted from *before* the renewing request was sent, on this process's own monotonic clock; what others
//! claim is judged by when this process saw their claim change, never by their clocks.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::watch, time::Instant};

/// How long a claim lasts.
const DURATION: Duration = Duration::from_secs(12);
/// How often the leader renews it, and the others look.
const PERIOD: Duration = Duration::from_secs(2);
/// How long before its end a leader stops writing.
const MARGIN: Duration = Duration::from_secs(3);

/// Whether this replica leads; cheap to clone.
#[derive(Clone)]
pub struct Leadership {
    end: watch::Receiver<Option<Instant>>,
    release: Option<Release>,
}

#[derive(Clone)]
struct Release {
    api: Api<Lease>,
    name: String,
    identity: String,
}

impl Leadership {
    /// Whether a write may be sent now.
    pub fn may_write(&self) -> bool {
        self.end.borrow().is_some_and(|end| Instant::now() + MARGIN < end)
    }

    /// Waits until the claim has ended and was not renewed.
    pub async fn ended(mut self) {
        loop {
            let end = *self.end.borrow_and_update();
            match end {
                Some(end) if Instant::now() < end => {
                    tokio::select! {
                        () = tokio::time::sleep_until(end) => {}
                        () = self.changed() => {}
                    }
                }
                _ => return,
            }
        }
    }

    /// Waits until the claim is made, renewed or lost.
    pub async fn changed(&mut self) {
        if self.end.changed().await.is_err() {
            // Nobody campaigns any more: what is, stays.
            std::future::pending::<()>().await;
        }
    }

    /// Gives a claim up so that another replica need not wait for its end.
    pub async fn give_up(&self) {
        let (Some(release), true) = (&self.release, self.may_write()) else { return };
        if let Err(problem) = release.now().await {
            tracing::warn!("the lease could not be given up: {problem}");
        }
    }
}

impl Release {
    async fn now(&self) -> kube::Result<()> {
        let mut lease = self.api.get(&self.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = None;
            spec.renew_time = None;
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}

/// Leadership without a lease.
pub fn always() -> Leadership {
    const A_CENTURY: Duration = Duration::from_hours(100 * 365 * 24);
    Leadership { end: watch::channel(Some(Instant::now() + A_CENTURY)).1, release: None }
}

/// No leadership: of a replica that only looks on.
pub fn never() -> Leadership {
    Leadership { end: watch::channel(None).1, release: None }
}

/// Starts to campaign for a lease, and goes on for as long as the process lives.
pub fn campaign(client: Client, namespace: String, name: String, identity: String) -> Leadership {
    let api: Api<Lease> = Api::namespaced(client, &namespace);
    let (end, is_end) = watch::channel(None);
    let release = Some(Release { api: api.clone(), name: name.clone(), identity: identity.clone() });
    let mut campaign = Campaign { api, namespace, name, identity, rival: None };
    tokio::spawn(async move {
        loop {
            let sent = Instant::now();
            match tokio::time::timeout(DURATION, campaign.round()).await {
                Ok(Ok(leads)) => {
                    let claim = leads.then_some(sent + DURATION);
                    if end.borrow().is_some() != leads {
                        tracing::info!(identity = campaign.identity, leads, "leadership changed");
                    }
                    end.send_replace(claim);
                }
                // The claim stays what it was and runs out by itself.
                Ok(Err(problem)) => tracing::warn!("the lease could not be renewed: {problem}"),
                Err(_) => tracing::warn!("the lease could not be renewed: no answer"),
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
    Leadership { end: is_end, release }
}

struct Campaign {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    /// The claim of another that was seen last, and when it was first seen.
    rival: Option<(LeaseSpec, Instant)>,
}

impl Campaign {
    /// One look at the lease, and one attempt to get or keep it. Says whether this replica holds it.
    async fn round(&mut self) -> kube::Result<bool> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            };
            let lease = Lease { metadata, spec: Some(self.claim(None)) };
            return won(self.api.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) && self.holds(&spec) {
            return Ok(false);
        }
        lease.spec = Some(self.claim(Some(&spec)));
        // The resourceVersion in it makes this fail if anybody wrote meanwhile.
        won(self.api.replace(&self.name, &PostParams::default(), &lease).await)
    }

    /// Whether another's claim still counts: until it was seen unchanged for as long as it says it lasts.
    fn holds(&mut self, spec: &LeaseSpec) -> bool {
        if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
            return false;
        }
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = seconds.map_or(DURATION, Duration::from_secs);
        match &self.rival {
            Some((seen, since)) if seen == spec => since.elapsed() < lasts,
            _ => {
                self.rival = Some((spec.clone(), Instant::now()));
                true
            }
        }
    }

    fn claim(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: ours.and_then(|spec| spec.acquire_time.clone()).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if ours.is_some() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }
}

/// A claim that another beat us to is no error.
fn won<T>(answer: kube::Result<T>) -> kube::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(false),
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_claim_ends_when_it_is_not_renewed_or_is_given_up() {
        let start = Instant::now();
        let at = |millis| Some(start + Duration::from_millis(millis));
        let (end, is_end) = watch::channel(at(50));
        let leadership = Leadership { end: is_end, release: None };
        let ended = tokio::spawn(leadership.clone().ended());
        end.send_replace(at(200));
        ended.await.unwrap();
        assert!(start.elapsed() >= Duration::from_millis(200));
        end.send_replace(at(60_000));
        let ended = tokio::spawn(leadership.ended());
        end.send_replace(None);
        ended.await.unwrap();
    }
}
