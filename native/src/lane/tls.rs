//! TLS of a connection of which a thread has the socket, or Python: bytes in, bytes out.
//!
//! A connection keeps its TLS for as long as it lives, whoever owns it. So nothing is lost between
//! the owners: a record that is received in part, keys that were renewed, the sequence of records.
//! A key, a suite or a first message that is not supported here is left to Python's `ssl`.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::crypto::ring;
use rustls::server::{Accepted, Acceptor, NoServerSessionStorage, ServerConfig};
use rustls::{Connection, SupportedCipherSuite};

use super::panics;
use super::tls_record::Record;
use super::tls_settings::{Settings, key_and_chain};

const KEPT_CAPACITY: usize = 4096;
/// So much is encrypted before it is sent.
const AT_ONCE_BYTES: usize = 64 * 1024;
const RECORD_BYTES: usize = 16 * 1024;
/// TLS 1.2 cannot change its keys. rustls drops all data after the last record that they may
/// encrypt, so a connection stops so many records before.
const RECORDS_SPARE: u64 = 1024;
/// So many records before that, a connection is to be ended when that harms nobody.
const RECORDS_LEFT: u64 = 1 << 20;
/// The most bytes of records without data that a client may send in a row: handshake, new keys.
const SILENT_BYTES_MAX: usize = 18 * 1024;
/// The most of these records for every million records with data: new keys take time.
const SILENT_RECORDS_MAX: u32 = 1000;
const DATA_RECORDS: u32 = 1 << 20;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The handshake is not complete.
    Handshake,
    /// Both sides may send.
    Open,
    /// The peer has said that it sends no more.
    Ended,
    /// Received bytes are not valid, or the peer has reported an error.
    Failed,
}

/// The TLS settings of a listener: its key, its certificates, versions and suites.
pub struct Server(Arc<ServerConfig>);

impl Server {
    /// Use the first key of a PEM file, and all its certificates.
    ///
    /// # Errors
    /// That is not possible; the text says why.
    pub fn new(pem: &[u8], settings: &Settings) -> Result<Self, String> {
        let made = panics::caught(|| Self::made(pem, settings));
        made.unwrap_or_else(|| Err("an error of the library".into()))
    }

    fn made(pem: &[u8], settings: &Settings) -> Result<Self, String> {
        let (key, chain) = key_and_chain(pem)?;
        let made = ServerConfig::builder_with_provider(settings.provider())
            .with_protocol_versions(settings.versions())
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = made.map_err(|error| error.to_string())?;
        config.ignore_client_order = true; // as Python's contexts
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ring::Ticketer::new().map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(config)))
    }

    /// Read a record with a client's first message.
    ///
    /// None if it does not have all of that message, and nothing else, or it is invalid.
    pub fn hello(&self, mut record: &[u8]) -> Option<Hello> {
        if !is_first_message(record) {
            return None;
        }
        panics::caught(|| {
            let mut acceptor = Acceptor::default();
            while !record.is_empty() {
                if acceptor.read_tls(&mut record).ok()? == 0 {
                    return None;
                }
                if let Some(accepted) = acceptor.accept().ok()? {
                    return Some(Hello { accepted, config: Arc::clone(&self.0) });
                }
            }
            None
        })
        .flatten()
    }
}

/// A client's first message.
#[derive(Debug)]
pub struct Hello {
    accepted: Accepted,
    config: Arc<ServerConfig>,
}

impl Hello {
    /// Return the name by which the client calls the server.
    pub fn server_name(&self) -> Option<String> {
        self.accepted.client_hello().server_name().map(ToOwned::to_owned)
    }

    /// Begin the connection. That takes long: it has a signature, and an exchange of keys.
    ///
    /// None if nothing that the client offers can be served.
    pub fn answer(self) -> Option<Tls> {
        let Self { accepted, config } = self;
        let connection = panics::caught(|| accepted.into_connection(config).ok()).flatten()?;
        let tls = Tls::new(connection.into(), SILENT_BYTES_MAX);
        (tls.phase() == Phase::Handshake).then_some(tls)
    }
}

fn is_first_message(record: &[u8]) -> bool {
    let Some(([22, _, _, _, _, 1, high, middle, low], body)) = record.split_first_chunk() else {
        return false;
    };
    let length = u32::from_be_bytes([0, *high, *middle, *low]);
    usize::try_from(length).is_ok_and(|length| length == body.len())
}

/// The gateway's end of a connection, as a server or a client.
pub struct Tls {
    connection: Connection,
    unsent: Vec<u8>,
    sent_records: u64,
    is_worn: Arc<AtomicBool>,
    record: Record,
    silent_bytes_max: usize,
    silent_bytes: usize,
    silent_records: u32,
    data_records: u32,
    has_ended: bool,
    is_withheld: Arc<AtomicBool>,
    failure: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Tls").field("phase", &self.phase()).finish_non_exhaustive()
    }
}

impl Tls {
    /// Begin; the first message can be written. `silent_bytes_max` limits the bytes of records
    /// without data that the peer sends in a row.
    pub(super) fn new(connection: Connection, silent_bytes_max: usize) -> Self {
        let mut tls = Self {
            connection,
            unsent: Vec::new(),
            sent_records: 0,
            is_worn: Arc::default(),
            record: Record::default(),
            silent_bytes_max,
            silent_bytes: 0,
            silent_records: 0,
            data_records: 0,
            has_ended: false,
            is_withheld: Arc::default(),
            failure: None,
        };
        tls.guard(|_| Ok(())); // collects the first message
        tls
    }

    /// Fail the handshake if its own certificate turns out to be withheld.
    pub(super) fn unless(self, is_withheld: Arc<AtomicBool>) -> Self {
        Self { is_withheld, ..self }
    }

    fn is_withheld(&self) -> bool {
        self.is_withheld.load(Ordering::Relaxed)
    }

    /// Return the name by which the client has called the server; None if the client's end is here.
    pub fn server_name(&self) -> Option<&str> {
        match &self.connection {
            Connection::Server(connection) => connection.server_name(),
            Connection::Client(_) => None,
        }
    }

    /// Return the phase.
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

    /// Return whether the handshake was completed, whatever has happened after it.
    pub fn is_established(&self) -> bool {
        !self.connection.is_handshaking() && !self.is_withheld()
    }

    /// Return why it has failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Decrypt received bytes; return the peer's data. Nothing follows its end, or an error.
    pub fn receive(&mut self, received: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        self.guard(|tls| tls.decrypt(received, &mut plain));
        plain
    }

    fn decrypt(&mut self, mut received: &[u8], plain: &mut Vec<u8>) -> Result<(), String> {
        while !received.is_empty() && !self.has_ended {
            let (before, is_handshaking) = (plain.len(), self.connection.is_handshaking());
            let (count, complete) = self.record.take(received);
            let (mut part, rest) = received.split_at_checked(count).unwrap_or_default();
            received = rest;
            while !part.is_empty() && !self.has_ended {
                self.connection.read_tls(&mut part).map_err(|error| error.to_string())?;
                let processed = self.connection.process_new_packets();
                self.read(plain);
                self.has_ended = processed.map_err(|error| error.to_string())?.peer_has_closed();
            }
            if let Some(size) = complete {
                let goes_on = is_handshaking && !self.connection.is_handshaking();
                self.completed(size, goes_on || plain.len() > before)?;
            }
        }
        if self.record.received() == 0 {
            // Without a record in it, the library's buffer shrinks when it is to be read into.
            let _ = self.connection.read_tls(&mut Nothing);
        }
        Ok(())
    }

    /// Limit the records with neither data nor the end of the handshake: nobody else counts them.
    fn completed(&mut self, size: usize, goes_on: bool) -> Result<(), String> {
        if goes_on {
            self.silent_bytes = 0;
            self.data_records = self.data_records.saturating_add(1);
            if self.data_records == DATA_RECORDS {
                (self.data_records, self.silent_records) = (0, 0);
            }
            return Ok(());
        }
        self.silent_bytes = self.silent_bytes.saturating_add(size);
        self.silent_records = self.silent_records.saturating_add(1);
        if self.silent_bytes > self.silent_bytes_max || self.silent_records > SILENT_RECORDS_MAX {
            return Err("too many records have no data".into());
        }
        Ok(())
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

    /// Encrypt data; return how many bytes of it, which may be fewer than all.
    pub fn send(&mut self, plain: &[u8]) -> usize {
        self.encrypt(plain, AT_ONCE_BYTES)
    }

    /// Encrypt all data.
    pub fn send_all(&mut self, plain: &[u8]) {
        self.encrypt(plain, usize::MAX);
    }

    fn encrypt(&mut self, plain: &[u8], most: usize) -> usize {
        let mut sent = 0_usize;
        while self.unsent.len() < most && self.failure.is_none() {
            let Some(rest) = plain.get(sent..).filter(|rest| !rest.is_empty()) else { break };
            self.guard(|tls| {
                if tls.sent_records >= tls.records_max() {
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

    /// Return the flag of a connection that should be ended soon: its keys are nearly used up.
    pub fn is_worn(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_worn)
    }

    /// Return how many records the keys encrypt. TLS 1.3 changes them itself.
    fn records_max(&self) -> u64 {
        match self.connection.negotiated_cipher_suite() {
            Some(SupportedCipherSuite::Tls12(suite)) => {
                suite.common.confidentiality_limit.saturating_sub(RECORDS_SPARE)
            }
            _ => u64::MAX,
        }
    }

    /// Count records that were sent.
    pub fn count_records(&mut self, more: u64) {
        self.sent_records = self.sent_records.saturating_add(more);
        if self.sent_records >= self.records_max().saturating_sub(RECORDS_LEFT) {
            self.is_worn.store(true, Ordering::Relaxed);
        }
    }

    /// Say that nothing else will be sent.
    pub fn end(&mut self) {
        self.guard(|tls| {
            tls.connection.send_close_notify();
            Ok(())
        });
    }

    /// Return the unsent bytes for the socket.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// Return the memory of the unsent bytes, and of received bytes that are not decrypted.
    pub const fn held_bytes(&self) -> usize {
        let received = self.record.received().saturating_add(self.silent_bytes);
        self.unsent.capacity().saturating_add(received)
    }

    /// Return whether a record was received in part.
    pub const fn has_part(&self) -> bool {
        self.record.received() > 0
    }

    /// Remove the first of the unsent bytes: they were written.
    pub fn written(&mut self, count: usize) {
        self.unsent.drain(..count.min(self.unsent.len()));
        if self.unsent.capacity() > KEPT_CAPACITY.max(self.unsent.len().saturating_mul(4)) {
            self.unsent.shrink_to_fit();
        }
    }

    /// Return the unsent bytes for the socket, and remove them.
    pub fn take_unsent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }

    /// Do something that may fail. A panic, too, ends this connection only.
    fn guard(&mut self, work: impl FnOnce(&mut Self) -> Result<(), String>) {
        if self.failure.is_some() {
            return;
        }
        let done = panics::caught(|| {
            let done = work(self);
            if self.is_withheld() {
                return done.and(Err("no signature scheme fits the gateway's key".into()));
            }
            self.collect(); // an alert, if it has failed
            done
        });
        self.failure = done.unwrap_or_else(|| Err("an error of the library".into())).err();
    }

    /// Fail as by an error of the library: for tests.
    #[cfg_attr(not(test), expect(clippy::panic))]
    pub fn panic(&mut self) {
        self.guard(|_| std::panic::panic_any("a record's content"));
    }

    fn collect(&mut self) {
        while self.connection.wants_write() {
            if !self.connection.write_tls(&mut self.unsent).is_ok_and(|count| count > 0) {
                return;
            }
        }
    }
}

/// Nothing can be read of it for now.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::client::{ClientConfig, ClientConnection, Resumption};
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
    use rustls::server::{ClientHello, ResolvesServerCert};
    use rustls::sign::CertifiedKey;
    use rustls::version::TLS13;
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    use super::*;

    /// Trusts everybody: here only bytes are of interest.
    #[derive(Debug)]
    struct Trusting;

    impl ServerCertVerifier for Trusting {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }
    }

    /// Has a key for any name, or panics.
    #[derive(Debug)]
    struct Key(Option<Arc<CertifiedKey>>);

    impl ResolvesServerCert for Key {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(Arc::clone(self.0.as_ref().unwrap()))
        }
    }

    /// The bytes that it shows as its certificate, which are not valid.
    pub(in crate::lane) const SHOWN: [u8; 2] = [48, 0];

    /// Return a server with the key that is the simplest to make: of Ed25519, in PKCS #8.
    pub(in crate::lane) fn server(panics: bool) -> Server {
        let start = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
        let der = [&start[..], &[7; 32]].concat();
        let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der)).unwrap();
        let certified = CertifiedKey::new(vec![CertificateDer::from(SHOWN.to_vec())], key);
        let key = Key((!panics).then(|| Arc::new(certified)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(key));
        config.ticketer = ring::Ticketer::new().unwrap();
        Server(Arc::new(config))
    }

    fn client() -> ClientConnection {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    }

    fn sent(client: &mut ClientConnection) -> Vec<u8> {
        let mut all = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut all).unwrap();
        }
        all
    }

    /// Return both ends of a connection after the handshake.
    pub(in crate::lane) fn connected() -> (ClientConnection, Tls) {
        let mut client = client();
        let hello = sent(&mut client);
        let mut tls = server(false).hello(&hello).unwrap().answer().unwrap();
        while client.is_handshaking() {
            client.read_tls(&mut tls.take_unsent().as_slice()).unwrap();
            client.process_new_packets().unwrap();
        }
        assert!(tls.receive(&sent(&mut client)).is_empty());
        assert_eq!(tls.phase(), Phase::Open);
        tls.take_unsent();
        (client, tls)
    }

    /// Return the encrypted bytes of data that a client sends.
    pub(in crate::lane) fn said(client: &mut ClientConnection, data: &[u8]) -> Vec<u8> {
        client.writer().write_all(data).unwrap();
        sent(client)
    }

    #[test]
    fn a_first_message_is_read_before_it_is_answered() {
        let hello = sent(&mut client());
        assert_eq!(server(true).hello(&hello).unwrap().server_name().unwrap(), "localhost");
        let mut longer = [&hello[..], &[0]].concat();
        for invalid in [&hello[..hello.len() - 1], &longer, &hello[5..], &[], &[22; 9], &[23; 90]] {
            assert!(server(true).hello(invalid).is_none());
        }
        // More of the handshake in the same record
        let length = u16::try_from(longer.len() - 5).unwrap();
        longer[3..5].copy_from_slice(&length.to_be_bytes());
        assert!(server(true).hello(&longer).is_none());
    }

    #[test]
    fn a_panic_of_the_library_is_caught_and_counted() {
        let hello = sent(&mut client());
        let before = panics::caught_count();
        assert!(server(true).hello(&hello).unwrap().answer().is_none());
        assert!(panics::caught_count() > before);
        let before = panics::caught_count();
        let (mut client, mut tls) = connected();
        tls.panic();
        assert!(panics::caught_count() > before);
        assert_eq!(tls.phase(), Phase::Failed);
        assert!(tls.receive(&said(&mut client, b"x")).is_empty());
    }

    #[test]
    fn what_is_received_in_part_is_held_and_the_buffer_of_it_is_not_kept() {
        let (mut client, mut tls) = connected();
        let record = said(&mut client, &[7; 16_000]);
        for count in [0, 3, 5, 6, 9000, record.len() - 1] {
            let (mut client, mut tls) = connected();
            let record = said(&mut client, &[7; 16_000]);
            assert!(tls.receive(&record[..count]).is_empty());
            assert_eq!(tls.held_bytes(), count);
            assert_eq!(tls.receive(&record[count..]), [7; 16_000]);
            assert_eq!(tls.held_bytes(), 0);
        }
        assert_eq!(tls.receive(&record), [7; 16_000]);
        let more = said(&mut client, b"more");
        for at in 0..more.len() {
            let plain = tls.receive(&more[at..=at]);
            assert_eq!(plain.is_empty(), at + 1 < more.len());
        }
    }

    #[test]
    fn a_connection_has_a_limited_number_of_records_without_data() {
        let (mut client, mut tls) = connected();
        let mut renewed = 0;
        while tls.phase() == Phase::Open {
            for _ in 0..30 {
                client.refresh_traffic_keys().unwrap();
                renewed += 1;
                tls.receive(&sent(&mut client));
                client.read_tls(&mut tls.take_unsent().as_slice()).unwrap();
                client.process_new_packets().unwrap();
            }
            tls.receive(&said(&mut client, b"x"));
        }
        assert!(renewed > 990 && renewed < 1100, "{renewed}");
        assert_eq!(tls.failure(), Some("too many records have no data"));
    }
}
