//! TLS as Python sees it: bytes in, bytes out. The socket is Python's, or the lane's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::lane::locked;
use crate::lane::tls::{self, Phase};
use crate::lane::tls_client;
use crate::lane::tls_settings::Settings;

/// The TLS settings of a listener.
#[pyclass(frozen, module = "penstock._native")]
pub struct TlsServer(tls::Server);

#[pymethods]
impl TlsServer {
    /// Use the key and the certificates of a PEM file, TLS 1.2, TLS 1.3, or both, and these of
    /// OpenSSL's suites. A `ValueError` says why that is not possible.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(pem: &[u8], with_1_2: bool, with_1_3: bool, suites: Vec<String>) -> PyResult<Self> {
        let made = tls::Server::new(pem, &Settings::new(with_1_2, with_1_3, &suites));
        made.map(Self).map_err(PyValueError::new_err)
    }

    /// Read a record with a client's first message; None if it does not have all of it, and nothing
    /// else, or it is invalid.
    fn hello(&self, record: &[u8]) -> Option<TlsHello> {
        self.0.hello(record).map(|hello| TlsHello(Mutex::new(Some(hello))))
    }
}

/// A client's first message, which can be answered once.
#[pyclass(frozen, module = "penstock._native")]
pub struct TlsHello(Mutex<Option<tls::Hello>>);

#[pymethods]
impl TlsHello {
    /// The name by which the client calls the server.
    #[getter]
    fn server_name(&self) -> Option<String> {
        locked(&self.0).as_ref().and_then(tls::Hello::server_name)
    }

    /// Begin the connection; None if nothing that the client offers can be served.
    fn answer(&self, py: Python<'_>) -> Option<Tls> {
        let hello = locked(&self.0).take()?;
        py.detach(|| hello.answer()).map(Tls::new)
    }
}

/// The TLS settings for brokers.
#[pyclass(frozen, module = "penstock._native")]
pub struct TlsClient(tls_client::Client);

#[pymethods]
impl TlsClient {
    /// As `TlsServer`; without a PEM file the gateway shows no certificate.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // pyo3 passes converted arguments by value
    fn new(
        pem: Option<&[u8]>,
        with_1_2: bool,
        with_1_3: bool,
        suites: Vec<String>,
    ) -> PyResult<Self> {
        let made = tls_client::Client::new(pem, &Settings::new(with_1_2, with_1_3, &suites));
        made.map(Self).map_err(PyValueError::new_err)
    }

    /// Return a broker to connect to, which has to show any of these certificates (DER); None if
    /// its name cannot be sent.
    fn to(&self, host: &str, certificates: Vec<Vec<u8>>) -> Option<TlsBroker> {
        self.0.to(host, certificates).map(TlsBroker)
    }
}

/// A broker to connect to, and its certificates.
#[pyclass(frozen, module = "penstock._native")]
pub struct TlsBroker(tls_client::Broker);

#[pymethods]
impl TlsBroker {
    /// Begin a connection; None if that fails.
    fn connect(&self) -> Option<Tls> {
        self.0.connect().map(Tls::new)
    }
}

/// The gateway's end of a connection.
///
/// While it is the lane's, nobody else may use it.
#[pyclass(frozen, module = "penstock._native")]
pub struct Tls {
    /// Shared with the lane.
    pub inner: Arc<Mutex<tls::Tls>>,
    is_worn: Arc<AtomicBool>,
}

impl Tls {
    fn new(of: tls::Tls) -> Self {
        Self { is_worn: of.is_worn(), inner: Arc::new(Mutex::new(of)) }
    }
}

#[pymethods]
impl Tls {
    /// The name by which the client has called the server; None if the client's end is here.
    #[getter]
    fn server_name(&self) -> Option<String> {
        locked(&self.inner).server_name().map(ToOwned::to_owned)
    }

    /// 0 in the handshake, 1 once both may send, 2 after the peer's end, 3 after an error.
    #[getter]
    fn phase(&self) -> u8 {
        number(locked(&self.inner).phase())
    }

    /// Why it has failed.
    #[getter]
    fn failure(&self) -> Option<String> {
        locked(&self.inner).failure().map(ToOwned::to_owned)
    }

    /// Whether the handshake was completed, whatever has happened after it.
    #[getter]
    fn is_established(&self) -> bool {
        locked(&self.inner).is_established()
    }

    /// Whether the connection should be ended soon, also while a thread uses it.
    #[getter]
    fn is_worn(&self) -> bool {
        self.is_worn.load(Ordering::Relaxed)
    }

    /// The bytes that are held: those to be written to the socket, and those not decrypted yet.
    #[getter]
    fn held_bytes(&self) -> usize {
        locked(&self.inner).held_bytes()
    }

    /// Whether a record was received in part.
    #[getter]
    fn has_part(&self) -> bool {
        locked(&self.inner).has_part()
    }

    /// Fail as by an error of the library: for tests.
    fn panic(&self) {
        locked(&self.inner).panic();
    }

    /// Count records, as if they had been sent: for tests.
    fn count_records(&self, more: u64) {
        locked(&self.inner).count_records(more);
    }

    /// Decrypt received bytes; return the peer's data, the unsent bytes for the socket, and the
    /// phase.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>, u8) {
        let (plain, unsent, phase) = py.detach(|| {
            let mut tls = locked(&self.inner);
            (tls.receive(data), tls.take_unsent(), tls.phase())
        });
        (PyBytes::new(py, &plain), PyBytes::new(py, &unsent), number(phase))
    }

    /// Encrypt data; return the unsent bytes for the socket.
    ///
    /// A `ConnectionError` says that the connection has failed.
    fn send<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let unsent = py.detach(|| {
            let mut tls = locked(&self.inner);
            tls.send_all(data);
            tls.failure().map_or_else(|| Ok(()), |why| Err(why.to_owned()))?;
            Ok(tls.take_unsent())
        });
        unsent.map(|bytes| PyBytes::new(py, &bytes)).map_err(PyConnectionError::new_err::<String>)
    }

    /// Say that nothing else will be sent.
    fn end(&self) {
        locked(&self.inner).end();
    }

    /// Return the unsent bytes for the socket, and remove them.
    fn take_unsent<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &locked(&self.inner).take_unsent())
    }
}

const fn number(phase: Phase) -> u8 {
    match phase {
        Phase::Handshake => 0,
        Phase::Open => 1,
        Phase::Ended => 2,
        Phase::Failed => 3,
    }
}
