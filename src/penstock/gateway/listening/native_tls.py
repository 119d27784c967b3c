"""TLS of clients in native threads: which of them rustls serves, and which Python's `ssl`.

**Who does what.** The event loop makes the handshake, as before: a client's first message is
looked at while it stays in the socket (`client_hello`), and rustls (`native/src/lane/tls.rs`, with
ring) begins with it. After that a `TlsConnection` stands between the socket's transport and the
client's protocol, so Python works with plain bytes, and everything that belongs to the socket (its
TCP state, how it is reset, when it is readable) stays as it is. A connection is given to a native
thread with its socket and its TLS, and taken back with both (`native/src/lane/stream.rs`).

**What Python's `ssl` keeps.** Everything if native threads cannot have connections to brokers
(`gateway/broker_tls.py`): no thread would have such a connection. A listener with client
certificates, whose names are the principals of ACLs: webpki accepts other certificates than OpenSSL
does. A key that rustls cannot read (encrypted, of another kind), and suites of which it has none.
Everything in FIPS mode, and with `PENSTOCK_NATIVE_TLS=0`. The log has the reason. And single
connections: those whose first message rustls does not accept (no suite, group or signature in
common, not TLS at all, in several records), and those without the name of a broker, where names
select brokers: the name is looked at before anything is computed. (rustls takes an IP address for
no name, and OpenSSL refuses it.) OpenSSL reads the same bytes and reports the error. So nobody is
refused at the first message who was not before. `penstock_tls_connections` counts the connections
of both.

**What differs.** rustls ends a connection at the fifth warning, ignores a client's demand for small
records (RFC 6066, max_fragment_length), and takes the first suite of the listener's that it knows:
suites with CBC or CCM are passed over. A setting of OpenSSL's own file (groups, signatures) does
not bind it.

**Where settings come from.** The listener's `SSLContext` has the versions and suites. The file has
the key and the certificates; a reload makes a new configuration for new connections, for both
libraries from the same content. The name comes from the first message; a PROXY header is read
before it.

**Ends.** An end of TLS (close_notify) and an end without it are the same to a session, as before:
there is no half-closing, and no incomplete request is used. A thread stops there, and Python does
the rest. After an invalid record, the client gets the alert that rustls has for it, if any, and
both connections are closed. A gateway that closes says so, and discards what the client sends until
its end, for a limited time: else it would be reset, and lose responses that are on their way.
AES-GCM of TLS 1.2 cannot change its keys: a connection is ended before they are used up.

**Memory and back-pressure.** A thread encrypts at most 64 KiB before the socket takes them, counts
what is left, and does not read the other side meanwhile. The part of a record that was received
counts, too. A connection that does nothing keeps 4 KiB. More than 18 KiB, or 1,000 records, without
data are an error. A handshake has 10 s, and a connection counts from the moment it is accepted.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.stores import key_and_chain
from penstock.configuration.clients.tls_versions import versions_and_suites
from penstock.gateway.listening.client_hello import first_record
from penstock.gateway.listening.tls import renew

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.gateway.listening.server_names import ServerNames

log = structlog.get_logger()

_READS: Final = 3
"""How often a file is read that changes meanwhile."""
_CHANGING: Final = "ssl.keystore.location is being changed"


class NativeTls:
    """The connections of a listener that rustls can serve.

    Attributes:
        context: The listener's context, which serves the others.
    """

    def __init__(
        self,
        native: Any,
        context: ssl.SSLContext,
        properties: Mapping[str, str],
        file: Path,
        names: ServerNames | None,
    ) -> None:
        """Read the key and the certificates.

        Args:
            native: The native module.
            context: The listener's context.
            properties: The listener's keys, with which the context was made.
            file: The configuration file; relative locations start at its folder.
            names: The names of brokers; None if each has a port.

        Raises:
            ConfigurationError: They are not usable.
        """
        self.context = context
        self._native = native
        self._properties = properties
        self._file = file
        self._names = names
        self._server: Any | None = None
        self.renew()

    def renew(self) -> None:
        """Use the key and the certificates that are in the file now, with both libraries.

        Raises:
            ConfigurationError: They are not usable. Nothing has changed, unless the file was
                usable a moment ago: then only Python's library has what was in it.
        """
        # No client may see two certificates: both libraries have the same file, or only one.
        for attempt in range(_READS):
            pem = self._pem()
            try:
                renew(self.context, self._properties, self._file)
            except ConfigurationError:
                if attempt:
                    self._leave_to_python(_CHANGING)
                raise
            if pem is not None and self._pem() == pem:
                self._use(pem)
                return
        self._leave_to_python(_CHANGING)

    def _use(self, pem: bytes) -> None:
        try:
            self._server = self._made(pem)
        except ValueError as error:
            self._leave_to_python(str(error))

    def _leave_to_python(self, reason: str) -> None:
        write = log.info if self._server is None else log.warning
        self._server = None
        write("connections with TLS are processed in Python", reason=reason)

    def _made(self, pem: bytes) -> Any:
        if self.context.verify_mode != ssl.CERT_NONE:
            raise ValueError("ssl.client.auth")
        return self._native.TlsServer(pem, *versions_and_suites(self.context))

    def _pem(self) -> bytes | None:
        """Return the key and the certificates; None if they cannot be read."""
        try:
            return key_and_chain(self._properties, self._file.parent, f"{self._file}: ")
        except OSError:
            return None  # the context reports it

    async def accept(self, connection: socket.socket) -> Any | None:
        """Begin the TLS of a connection.

        Args:
            connection: A connected, non-blocking socket that has not been read.

        Returns:
            The native end of the TLS; None if Python's has to read the socket, from the first byte.
        """
        if self._server is None:
            return None
        start = await first_record(connection)
        if start is None:
            return None
        server = self._server  # it may have been renewed
        hello = server.hello(start) if server is not None else None
        if hello is None or not self._is_known(hello.server_name):
            return None
        tls = hello.answer()
        if tls is not None:
            connection.recv(len(start))
        return tls

    def _is_known(self, name: str | None) -> bool:
        if self._names is None:
            return True
        return name is not None and self._names.is_known(name)
