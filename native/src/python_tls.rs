//! TLS as Python sees it: bytes in, bytes out. The socket is Python's, or the lane's.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::lane::locked;
use crate::lane::tls::{self, Phase};

/// What connections to a listener begin with.
#[pyclass(frozen, module = "penstock_native")]
pub struct TlsServer(tls::Server);

#[pymethods]
impl TlsServer {
    /// Use the key and the certificates of a PEM file, TLS 1.2, TLS 1.3, or both, and these of
    /// OpenSSL's suites. A `ValueError` says why that is not possible.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // it is what Python's is converted to
    fn new(pem: &[u8], with_1_2: bool, with_1_3: bool, suites: Vec<String>) -> PyResult<Self> {
        let made = tls::Server::new(pem, (with_1_2, with_1_3), &suites);
        made.map(Self).map_err(PyValueError::new_err)
    }

    /// Begin a connection with the record that has a client's first message; None if it is not a
    /// complete one, or nothing that it offers can be served.
    fn accept(&self, py: Python<'_>, start: &[u8]) -> Option<Tls> {
        py.detach(|| self.0.accept(start)).map(|made| Tls(Arc::new(Mutex::new(made))))
    }
}

/// A server's end of a connection.
///
/// While it is the lane's, nobody else may use it.
#[pyclass(frozen, module = "penstock_native")]
pub struct Tls(pub Arc<Mutex<tls::Tls>>);

#[pymethods]
impl Tls {
    /// The name by which the client has called the server.
    #[getter]
    fn server_name(&self) -> Option<String> {
        locked(&self.0).server_name().map(ToOwned::to_owned)
    }

    /// 0 in the handshake, 1 once both may send, 2 after the client's end, 3 after an error.
    #[getter]
    fn phase(&self) -> u8 {
        number(locked(&self.0).phase())
    }

    /// Why it has failed.
    #[getter]
    fn failure(&self) -> Option<String> {
        locked(&self.0).failure().map(ToOwned::to_owned)
    }

    /// Whether the connection should be ended soon; false, too, while a thread uses it.
    #[getter]
    fn is_worn(&self) -> bool {
        self.0.try_lock().is_ok_and(|tls| tls.is_worn())
    }

    /// Count records, as if they had been sent: for tests.
    fn count_records(&self, more: u64) {
        locked(&self.0).count_records(more);
    }

    /// Decrypt what was received; return what the client has said, what is to be written to the
    /// socket, and the phase.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
    ) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>, u8) {
        let (plain, unsent, phase) = py.detach(|| {
            let mut tls = locked(&self.0);
            (tls.receive(data), tls.take_unsent(), tls.phase())
        });
        (PyBytes::new(py, &plain), PyBytes::new(py, &unsent), number(phase))
    }

    /// Encrypt what is to be sent to the client; return what is to be written to the socket.
    ///
    /// A `ConnectionError` says that the connection has failed.
    fn send<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let unsent = py.detach(|| {
            let mut tls = locked(&self.0);
            tls.send_all(data);
            tls.failure().map_or_else(|| Ok(()), |why| Err(why.to_owned()))?;
            Ok(tls.take_unsent())
        });
        unsent.map(|bytes| PyBytes::new(py, &bytes)).map_err(PyConnectionError::new_err::<String>)
    }

    /// Say that nothing else will be sent.
    fn end(&self) {
        locked(&self.0).end();
    }

    /// Return what is to be written to the socket, and forget it.
    fn take_unsent<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &locked(&self.0).take_unsent())
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
