//! The client's end of TLS: connections to brokers.
//!
//! Nothing here judges certificates. OpenSSL has to have accepted the broker's certificate a short
//! time ago, for the same host and with the same authorities. So nobody is trusted that Python does
//! not trust. Python tries unknown certificates, and reports the error.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection, ResolvesClientCert, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use super::panics;
use super::tls::{Phase, Tls};
use super::tls_settings::{Settings, key_and_chain};

/// The most bytes of records without data that a broker may send in a row: its certificates, the
/// names of authorities that it accepts, and tickets, in which Java keeps whole chains.
const SILENT_BYTES_MAX: usize = 256 * 1024;

/// The TLS settings for all brokers: versions, suites, perhaps a key.
pub struct Client {
    config: ClientConfig,
    own: Option<Arc<CertifiedKey>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Client {
    /// Use the first key of a PEM file, and all its certificates, if there is a file.
    ///
    /// # Errors
    /// That is not possible; the text says why.
    pub fn new(pem: Option<&[u8]>, settings: &Settings) -> Result<Self, String> {
        let made = panics::caught(|| Self::made(pem, settings));
        made.unwrap_or_else(|| Err("an error of the library".into()))
    }

    fn made(pem: Option<&[u8]>, settings: &Settings) -> Result<Self, String> {
        let algorithms = settings.provider().signature_verification_algorithms;
        let made = ClientConfig::builder_with_provider(settings.provider())
            .with_protocol_versions(settings.versions())
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Known { certificates: vec![], algorithms }));
        let own = pem.map(key_and_chain).transpose()?.map(|(key, chain)| {
            CertifiedKey::from_der(chain, key, &settings.provider()).map(Arc::new)
        });
        let own = own.transpose().map_err(|error| error.to_string())?;
        let mut config = made.with_no_client_auth();
        config.resumption = Resumption::disabled(); // each connection is to show the certificate
        Ok(Self { config, own, algorithms })
    }

    /// Return a broker to connect to, which has to show any of these certificates.
    ///
    /// None if its name cannot be sent.
    pub fn to(&self, host: &str, certificates: Vec<Vec<u8>>) -> Option<Broker> {
        if host.ends_with('.') {
            return None; // rustls would leave out the dot
        }
        let name = ServerName::try_from(host.to_owned()).ok()?;
        let certificates = certificates.into_iter().map(CertificateDer::from).collect();
        let mut config = self.config.clone();
        let known = Known { certificates, algorithms: self.algorithms };
        config.dangerous().set_certificate_verifier(Arc::new(known));
        Some(Broker { config: Arc::new(config), own: self.own.clone(), name })
    }
}

/// A broker to connect to.
pub struct Broker {
    config: Arc<ClientConfig>,
    own: Option<Arc<CertifiedKey>>,
    name: ServerName<'static>,
}

impl fmt::Debug for Broker {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Broker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Broker {
    /// Begin a connection; None if that fails.
    pub fn connect(&self) -> Option<Tls> {
        let (mut config, name) = (Arc::clone(&self.config), self.name.clone());
        let is_withheld = Arc::<AtomicBool>::default();
        if let Some(key) = &self.own {
            let own = Own { key: Arc::clone(key), is_withheld: Arc::clone(&is_withheld) };
            Arc::make_mut(&mut config).client_auth_cert_resolver = Arc::new(own);
        }
        let made = panics::caught(|| ClientConnection::new(config, name).ok()).flatten()?;
        let tls = Tls::new(made.into(), SILENT_BYTES_MAX).unless(is_withheld);
        (tls.phase() == Phase::Handshake).then_some(tls)
    }
}

/// Shows the gateway's own certificate, and notes if it cannot.
///
/// rustls would shake hands without it if no signature scheme of the broker fits the key. OpenSSL
/// shows it with another scheme, which the broker may accept.
#[derive(Debug)]
struct Own {
    key: Arc<CertifiedKey>,
    is_withheld: Arc<AtomicBool>,
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        if self.key.key.choose_scheme(schemes).is_some() {
            return Some(Arc::clone(&self.key));
        }
        self.is_withheld.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Accepts certificates that were accepted before.
#[derive(Debug)]
struct Known {
    certificates: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.contains(shown) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, shown, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tls::tests::{SHOWN, server};
    use super::*;

    fn client() -> Client {
        let suites = ["TLS_AES_128_GCM_SHA256".to_owned()];
        Client::new(None, &Settings::new(false, true, &suites)).unwrap()
    }

    /// Connect to a server with a certificate that has no key; return why that fails.
    fn failure(certificates: Vec<Vec<u8>>) -> String {
        let mut ours = client().to("localhost", certificates).unwrap().connect().unwrap();
        let hello = server(false).hello(&ours.take_unsent()).unwrap();
        assert_eq!(hello.server_name().unwrap(), "localhost");
        let mut theirs = hello.answer().unwrap();
        assert!(ours.receive(&theirs.take_unsent()).is_empty());
        assert_eq!((ours.phase(), ours.is_established()), (Phase::Failed, false));
        assert!(theirs.receive(&ours.take_unsent()).is_empty());
        assert_eq!(theirs.phase(), Phase::Failed); // it received the alert
        ours.failure().unwrap().to_owned()
    }

    #[test]
    fn a_certificate_that_was_not_accepted_before_is_not_trusted() {
        for certificates in [vec![], vec![vec![48, 1, 0]], vec![vec![]]] {
            assert!(failure(certificates).contains("ApplicationVerificationFailure"));
        }
    }

    #[test]
    fn a_certificate_alone_is_not_enough_its_key_has_to_be_there() {
        assert!(failure(vec![vec![48, 1, 0], SHOWN.to_vec()]).contains("BadEncoding"));
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        for host in ["", "a host", "localhost.", "ü"] {
            assert!(client().to(host, vec![]).is_none());
        }
        let none = Settings::new(true, true, &["ECDHE-RSA-AES256-SHA384".to_owned()]);
        assert!(Client::new(None, &none).is_err());
        let some = Settings::new(true, true, &["ECDHE-RSA-AES128-GCM-SHA256".to_owned()]);
        assert!(Client::new(Some(b"-----BEGIN ENCRYPTED PRIVATE KEY-----"), &some).is_err());
    }
}
