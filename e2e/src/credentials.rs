//! The secrets of one cluster, made new for each: an administrator's token and the key that
//! signs service account tokens.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

use crate::go_module::hex;

/// 128 random bits in hexadecimal.
pub(crate) fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| anyhow!("the system gives no random numbers"))?;
    Ok(hex(&bytes))
}

/// Writes the file by which the API server knows the administrator and the kubelets of nodes, by their names and tokens.
pub(crate) fn write_token_file(path: &Path, token: &str, nodes: &[(String, String)]) -> Result<()> {
    let mut content = format!("{token},admin,admin,system:masters\n");
    for (node, token) in nodes {
        content += &[token, ",system:node:", node, ",", node, ",system:nodes\n"].concat();
    }
    write_secret(path, content.as_bytes())
}

/// What precedes a point of the curve P-256 in a `SubjectPublicKeyInfo` (RFC 5480).
const P256_PUBLIC_KEY_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Makes the key pair that signs service account tokens and writes both halves.
pub(crate) fn write_service_account_keys(private: &Path, public: &Path) -> Result<()> {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let failed = |_| anyhow!("cannot make a service account key");
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(failed)?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random)
        .map_err(|rejected| anyhow!("cannot read the new service account key: {rejected}"))?;
    let spki = [&P256_PUBLIC_KEY_PREFIX, pair.public_key().as_ref()].concat();
    write_secret(private, pem("PRIVATE KEY", pkcs8.as_ref())?.as_bytes())?;
    write_secret(public, pem("PUBLIC KEY", &spki)?.as_bytes())
}

/// The name by which the API server's proxy is known to aggregated APIs.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";
/// The name by which the API server is known to kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A client's certificate, its key, and the certificate of the authority that signed it: the files of each.
pub(crate) struct ClientFiles {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Makes an authority of its own for one client, the API server, and writes all that `files` names. The client has this
/// name and is in this group.
pub(crate) fn write_client(files: &ClientFiles, name: &str, group: Option<&str>) -> Result<()> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, format!("{name}-ca"));
    let authority_key = KeyPair::generate()?;
    write_secret(&files.authority, params.self_signed(&authority_key)?.pem().as_bytes())?;
    let issuer = Issuer::new(params, authority_key);
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let own_key = KeyPair::generate()?;
    write_secret(&files.certificate, params.signed_by(&own_key, &issuer)?.pem().as_bytes())?;
    write_secret(&files.key, own_key.serialize_pem().as_bytes())
}

fn pem(label: &str, der: &[u8]) -> Result<String> {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in BASE64_STANDARD.encode(der).as_bytes().chunks(64) {
        text.push_str(std::str::from_utf8(line)?);
        text.push('\n');
    }
    Ok(text + "-----END " + label + "-----\n")
}

/// Writes the administrator's kubeconfig, with the authority's certificate inside.
pub(crate) fn write_kubeconfig(path: &Path, url: &str, authority: &[u8], token: &str) -> Result<()> {
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "whalezen",
        "clusters": [{
            "name": "whalezen",
            "cluster": { "server": url, "certificate-authority-data": BASE64_STANDARD.encode(authority) },
        }],
        "users": [{ "name": "admin", "user": { "token": token } }],
        "contexts": [{ "name": "whalezen", "context": { "cluster": "whalezen", "user": "admin" } }],
    });
    write_secret(path, serde_json::to_string_pretty(&config)?.as_bytes())
}

fn write_secret(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.write_all(content)?)
}
