//! The settings of Python's SSL contexts, and the files of keys, for rustls.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

/// The versions and suites that connections may have.
#[derive(Debug)]
pub struct Settings {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl Settings {
    /// Allow TLS 1.2, TLS 1.3, or both; and suites, in the order of preference, by the names that
    /// OpenSSL gives them. Unknown suites are left out.
    pub fn new(with_1_2: bool, with_1_3: bool, suites: &[String]) -> Self {
        let cipher_suites = suites.iter().filter_map(|name| suite(name)).collect();
        let provider = CryptoProvider { cipher_suites, ..ring::default_provider() };
        let versions = [(with_1_2, &TLS12), (with_1_3, &TLS13)]
            .into_iter()
            .filter_map(|(enabled, version)| enabled.then_some(version))
            .collect();
        Self { provider: Arc::new(provider), versions }
    }

    /// Return the suites, and the cryptography that they need.
    pub fn provider(&self) -> Arc<CryptoProvider> {
        Arc::clone(&self.provider)
    }

    /// Return the versions.
    pub fn versions(&self) -> &[&'static SupportedProtocolVersion] {
        &self.versions
    }
}

/// Read the first key of a PEM file, and all its certificates.
///
/// # Errors
/// The key or a certificate cannot be used; the text says why.
pub fn key_and_chain(
    pem: &[u8],
) -> Result<(PrivateKeyDer<'static>, Vec<CertificateDer<'static>>), String> {
    let key = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "the key is encrypted, or of a kind that is not known".to_owned())?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    Ok((key, chain.map_err(|error| error.to_string())?))
}

/// Return a suite by the name that OpenSSL gives it.
fn suite(name: &str) -> Option<SupportedCipherSuite> {
    let wanted = match name {
        "TLS_AES_128_GCM_SHA256" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-CHACHA20-POLY1305" => {
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        "ECDHE-RSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        _ => return None,
    };
    ring::ALL_CIPHER_SUITES.iter().find(|one| one.suite() == wanted).copied()
}
