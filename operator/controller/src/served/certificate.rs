//! A certificate for the Service, and the authority that vouches for it.
//!
//! Each certificate has an authority of its own, whose key is forgotten as soon as it has signed: whoever reads the
//! Secret can serve in the operator's name until the certificate ends, and sign nothing.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

/// How much earlier than now a certificate begins, for clocks that are behind.
const BEHIND: Duration = Duration::from_mins(5);

/// A certificate as it lies in the Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The authorities to be trusted: its own, and the one before, by which replicas may still serve.
    pub authorities: String,
    /// The certificate itself.
    pub chain: String,
    /// Its key.
    pub key: String,
}

/// What is wrong with a certificate.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It cannot be made.
    #[error("the certificate cannot be made: {0}")]
    Making(#[from] rcgen::Error),
    /// It cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Reading(String),
}

impl Certificate {
    /// A certificate for these names from now on, which follows another one.
    pub fn make(
        names: Vec<String>,
        life: Duration,
        now: Timestamp,
        before: Option<&Self>,
    ) -> Result<Self, Problem> {
        let from = at(now.as_second().saturating_sub(seconds(BEHIND)))?;
        let until = at(now.as_second().saturating_add(seconds(life)))?;
        let common_name = names.first().cloned().unwrap_or_default();

        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        // A name of its own, or two authorities in one bundle could not be told apart.
        let own = format!("whalezen serving authority {:08x}", rand::random::<u32>());
        params.distinguished_name.push(DnType::CommonName, own);
        (params.not_before, params.not_after) = (from, until);
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);

        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = (from, until);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;

        let previous = before.and_then(Self::authority).map(|(text, _)| text).unwrap_or_default();
        Ok(Self {
            authorities: authority.pem() + &previous,
            chain: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Whether it is time for another one: two thirds of its life are over, or nobody could use it.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let Some((from, until)) = self.validity().ok().filter(|_| self.belongs_together()) else {
            return true;
        };
        let life = until.saturating_sub(from).saturating_sub(seconds(BEHIND));
        now.as_second() >= until.saturating_sub(life / 3)
    }

    /// Whether the key is the certificate's, and the first of the authorities has signed it, by their names: each has one of
    /// its own. A person may have changed the Secret.
    fn belongs_together(&self) -> bool {
        let key = KeyPair::from_pem(&self.key).ok();
        let (Ok((chain, _)), Some(key), Some((_, authority))) = (self.parts(), key, self.authority()) else {
            return false;
        };
        let first = chain.first().and_then(|first| X509Certificate::from_der(first).ok());
        let vouches = X509Certificate::from_der(&authority).ok();
        first.zip(vouches).is_some_and(|((_, certificate), (_, authority))| {
            certificate.public_key().raw == key.subject_public_key_info()
                && certificate.issuer() == authority.subject()
        })
    }

    /// The first of the authorities, if all of them can be read: the API server takes them all or none.
    fn authority(&self) -> Option<(String, CertificateDer<'static>)> {
        let all: Vec<_> =
            CertificateDer::pem_slice_iter(self.authorities.as_bytes()).collect::<Result<_, _>>().ok()?;
        let read = all.iter().all(|authority| X509Certificate::from_der(authority).is_ok());
        let first = all.into_iter().next().filter(|_| read)?;
        Some((first_of(&self.authorities)?, first))
    }

    /// From when until when it is good, in seconds since 1970.
    fn validity(&self) -> Result<(i64, i64), Problem> {
        let (chain, _) = self.parts()?;
        let first = chain.first().ok_or_else(|| Problem::Reading("there is none".to_owned()))?;
        let (_, parsed) =
            X509Certificate::from_der(first).map_err(|problem| Problem::Reading(problem.to_string()))?;
        Ok((parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp()))
    }

    /// The certificate and its key as they are served.
    pub fn parts(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Problem> {
        let unreadable = |problem: rustls::pki_types::pem::Error| Problem::Reading(problem.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(unreadable)?;
        Ok((chain.map_err(unreadable)?, key))
    }
}

/// The first certificate of several.
fn first_of(bundle: &str) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----\n";
    bundle.find(END).and_then(|at| bundle.get(..at + END.len())).map(ToOwned::to_owned)
}

fn at(second: i64) -> Result<OffsetDateTime, Problem> {
    OffsetDateTime::from_unix_timestamp(second).map_err(|problem| Problem::Reading(problem.to_string()))
}

fn seconds(of: Duration) -> i64 {
    i64::try_from(of.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn after(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + 60 * minutes).unwrap()
    }

    fn make(now: Timestamp, before: Option<&Certificate>) -> Certificate {
        Certificate::make(vec!["operator.system.svc".to_owned()], HOUR, now, before).unwrap()
    }

    #[test]
    fn a_certificate_is_replaced_when_two_thirds_of_its_life_are_over() {
        let certificate = make(after(0), None);
        assert!(!certificate.is_due(after(0)) && !certificate.is_due(after(39)));
        assert!(certificate.is_due(after(40)) && certificate.is_due(after(90)));
    }

    #[test]
    fn what_nobody_can_read_is_replaced() {
        let mut broken = make(after(0), None);
        broken.key = "nonsense".to_owned();
        assert!(broken.is_due(after(0)));
        let mut broken = make(after(0), None);
        broken.chain = String::new();
        assert!(broken.is_due(after(0)));
    }

    #[test]
    fn what_does_not_belong_together_is_replaced_and_garbage_is_not_kept() {
        let (one, other) = (make(after(0), None), make(after(0), None));
        for broken in [
            Certificate { key: other.key.clone(), ..one.clone() },
            Certificate { authorities: other.authorities.clone(), ..one.clone() },
            Certificate { authorities: String::new(), ..one.clone() },
            Certificate {
                authorities: format!("{}{}", one.authorities, one.authorities.replace("MI", "!!")),
                ..one.clone()
            },
        ] {
            assert!(broken.is_due(after(0)));
            assert!(!make(after(0), Some(&broken)).authorities.contains("!!"));
        }
        assert!(!make(after(0), Some(&one)).is_due(after(0)));
    }

    #[test]
    fn the_authority_before_is_trusted_on_and_the_one_before_that_is_not() {
        let first = make(after(0), None);
        let second = make(after(40), Some(&first));
        let third = make(after(80), Some(&second));
        assert!(second.authorities.ends_with(&first.authorities));
        assert!(!third.authorities.contains(&first.authorities));
        assert!(third.authorities.ends_with(&first_of(&second.authorities).unwrap()));
    }
}
