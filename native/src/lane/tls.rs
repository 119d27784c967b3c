//! TLS of a connection of which a thread has the socket, or Python: bytes in, bytes out.
//!
//! A connection keeps its TLS for as long as it lives, whoever owns it. So nothing is lost between
//! the owners: a record that is received in part, keys that were renewed, the sequence of records.
//! What cannot be served here (a key, a suite, a client's first message) is left to Python's `ssl`.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{Acceptor, NoServerSessionStorage, ServerConfig};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ProtocolVersion, ServerConnection};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

const KEPT_CAPACITY: usize = 4096;
/// So much is encrypted before it is sent.
const AT_ONCE_BYTES: usize = 64 * 1024;
const RECORD_BYTES: usize = 16 * 1024;
/// TLS 1.2 cannot change its keys, which encrypt no more than 2^24 records. rustls drops what follows.
const RECORDS_MAX: u64 = (1 << 24) - 1024;
/// So many records before, a connection is to be ended when that harms nobody.
const RECORDS_LEFT: u64 = 1 << 20;

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The handshake is not complete.
    Handshake,
    /// Both sides may send.
    Open,
    /// The peer has said that it sends no more.
    Ended,
    /// What was received is not valid, or the peer has reported an error.
    Failed,
}

/// What connections to a listener begin with: its key, its certificates, versions and suites.
pub struct Server(Arc<ServerConfig>);

impl Server {
    /// Use the first key of a PEM file, and all its certificates.
    ///
    /// `suites` are allowed, in the order of preference, with the names that OpenSSL gives them;
    /// those that are not known here are left out.
    ///
    /// # Errors
    /// That is not possible; the text says why.
    pub fn new(pem: &[u8], versions: (bool, bool), suites: &[String]) -> Result<Self, String> {
        let key = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| "the key is encrypted, or of a kind that is not known".to_owned())?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(|error| error.to_string())?;
        let known = suites.iter().filter_map(|name| suite(name)).collect();
        let provider = CryptoProvider { cipher_suites: known, ..ring::default_provider() };
        let versions: Vec<&SupportedProtocolVersion> = [(versions.0, &TLS12), (versions.1, &TLS13)]
            .into_iter()
            .filter_map(|(enabled, version)| enabled.then_some(version))
            .collect();
        let made = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = made.map_err(|error| error.to_string())?;
        config.ignore_client_order = true; // as Python's contexts
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ring::Ticketer::new().map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(config)))
    }

    /// Begin with the bytes of a client's first message, all of which the connection consumes.
    ///
    /// None if it is incomplete, invalid, or nothing that it offers can be served.
    pub fn accept(&self, mut start: &[u8]) -> Option<Tls> {
        let mut acceptor = Acceptor::default();
        while !start.is_empty() {
            if acceptor.read_tls(&mut start).ok()? == 0 {
                return None;
            }
            if let Some(accepted) = acceptor.accept().ok()? {
                let connection = accepted.into_connection(Arc::clone(&self.0)).ok()?;
                let unsent = Vec::new();
                let mut tls =
                    Tls { connection, unsent, sent_records: 0, has_ended: false, failure: None };
                tls.receive(start);
                return (tls.phase() == Phase::Handshake).then_some(tls);
            }
        }
        None
    }
}

/// A server's end of a connection.
pub struct Tls {
    connection: ServerConnection,
    unsent: Vec<u8>,
    sent_records: u64,
    has_ended: bool,
    failure: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Tls").field("phase", &self.phase()).finish_non_exhaustive()
    }
}

impl Tls {
    /// Return the name by which the client has called the server.
    pub fn server_name(&self) -> Option<&str> {
        self.connection.server_name()
    }

    /// Return what it is at.
    pub fn phase(&self) -> Phase {
        if self.failure.is_some() {
            Phase::Failed
        } else if self.has_ended {
            Phase::Ended
        } else if self.connection.is_handshaking() {
            Phase::Handshake
        } else {
            Phase::Open
        }
    }

    /// Return why it has failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Decrypt what was received; return what the peer has said. Nothing follows its end, or an error.
    pub fn receive(&mut self, received: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        self.guard(|tls| tls.decrypt(received, &mut plain));
        plain
    }

    fn decrypt(&mut self, mut received: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let processed = self.connection.process_new_packets();
            self.read(plain); // complete records that precede an invalid one count
            let state = processed.map_err(|error| error.to_string())?;
            self.has_ended = state.peer_has_closed();
            if received.is_empty() || self.has_ended {
                return Ok(());
            }
            self.connection.read_tls(&mut received).map_err(|error| error.to_string())?;
        }
    }

    fn read(&mut self, plain: &mut Vec<u8>) {
        let mut reader = self.connection.reader();
        while let Ok(chunk) = reader.fill_buf() {
            let count = chunk.len();
            if count == 0 {
                return;
            }
            plain.extend_from_slice(chunk);
            reader.consume(count);
        }
    }

    /// Encrypt what is to be sent; return how much of it was, which is less if it is much.
    pub fn send(&mut self, plain: &[u8]) -> usize {
        self.encrypt(plain, AT_ONCE_BYTES)
    }

    /// Encrypt all that is to be sent.
    pub fn send_all(&mut self, plain: &[u8]) {
        self.encrypt(plain, usize::MAX);
    }

    fn encrypt(&mut self, plain: &[u8], most: usize) -> usize {
        let mut sent = 0_usize;
        while self.unsent.len() < most && self.failure.is_none() {
            let Some(rest) = plain.get(sent..).filter(|rest| !rest.is_empty()) else { break };
            self.guard(|tls| {
                if !tls.lasts_for(RECORDS_MAX) {
                    return Err("the keys are used up".into());
                }
                match tls.connection.writer().write(rest) {
                    Ok(0) => Err("nothing can be sent".into()),
                    Ok(count) => {
                        sent = sent.saturating_add(count);
                        tls.count_records(count.div_ceil(RECORD_BYTES) as u64);
                        Ok(())
                    }
                    Err(error) => Err(error.to_string()),
                }
            });
        }
        sent
    }

    /// Return whether the connection should be ended soon, because its keys are used up then.
    pub fn is_worn(&self) -> bool {
        !self.lasts_for(RECORDS_MAX - RECORDS_LEFT)
    }

    fn lasts_for(&self, records: u64) -> bool {
        self.sent_records < records
            || self.connection.protocol_version() != Some(ProtocolVersion::TLSv1_2)
    }

    /// Count records that were sent.
    pub const fn count_records(&mut self, more: u64) {
        self.sent_records = self.sent_records.saturating_add(more);
    }

    /// Say that nothing else will be sent.
    pub fn end(&mut self) {
        self.guard(|tls| {
            tls.connection.send_close_notify();
            Ok(())
        });
    }

    /// Return what is to be written to the socket.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// Return how many bytes of memory that takes.
    pub const fn held_bytes(&self) -> usize {
        self.unsent.capacity()
    }

    /// Forget the first bytes of what is to be written: they were.
    pub fn written(&mut self, count: usize) {
        self.unsent.drain(..count.min(self.unsent.len()));
        if self.unsent.capacity() > KEPT_CAPACITY.max(self.unsent.len().saturating_mul(4)) {
            self.unsent.shrink_to_fit();
        }
    }

    /// Return what is to be written to the socket, and forget it.
    pub fn take_unsent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }

    /// Do something that may fail. A panic, too, ends this connection only.
    fn guard(&mut self, work: impl FnOnce(&mut Self) -> Result<(), String>) {
        if self.failure.is_some() {
            return;
        }
        let done = catch_unwind(AssertUnwindSafe(|| {
            let done = work(self);
            self.collect(); // an alert, if it has failed
            done
        }));
        self.failure = done.unwrap_or_else(|_| Err("an error of the library".into())).err();
    }

    fn collect(&mut self) {
        while self.connection.wants_write() {
            if !self.connection.write_tls(&mut self.unsent).is_ok_and(|count| count > 0) {
                return;
            }
        }
    }
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
