"""TLS of clients in native threads: which of them rustls serves, and which Python's `ssl`.

**Who does what.** The event loop makes the handshake, as before: a client's first message is
looked at while it stays in the socket (`client_hello`), and rustls (`native/src/lane/tls.rs`, with
ring) begins with it. After that a `TlsConnection` stands between the socket's transport and the
client's protocol, so Python works with plain bytes, and everything that belongs to the socket (its
TCP state, how it is reset, when it is readable) stays as it is. A connection is given to a native
thread with its socket and its TLS, and taken back with both (`native/src/lane/stream.rs`).

**What Python's `ssl` keeps.** Everything if connections to brokers have TLS, too: no thread would
have such a connection. A listener with client certificates, whose names are the principals
of ACLs: webpki accepts other certificates than OpenSSL does. A key that rustls cannot read
(encrypted, of another kind), and suites of which it has none. The log has the reason. And single
connections: those whose first message rustls does not accept (no suite, group or signature in
common, not TLS at all, in several records), and those with the name of no broker. OpenSSL reads the
same bytes and reports the error. So nobody is refused who was not before.

**Where settings come from.** The listener's `SSLContext`, which is checked and renewed as before,
has the versions and suites. The file has the key and the certificates; a reload makes a new
configuration for new connections. The name comes from the first message; a PROXY header is read
before it.

**Ends.** An end of TLS (close_notify) and an end without it are the same to a session, as before:
there is no half-closing, and no incomplete request is used. A thread stops there, and Python does
the rest. After an invalid record, the client gets the alert, and both connections are closed. With
TLS 1.2, whose keys cannot change, a connection is ended before they are used up.

**Memory and back-pressure.** A thread encrypts at most 64 KiB before the socket takes them, counts
what is left, and does not read the other side meanwhile. A connection that does nothing keeps at
most two records. A handshake has 10 s, and a connection counts from the moment it is accepted.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import structlog

from penstock.configuration.clients.stores import CHAIN, KEY, location_of
from penstock.gateway.listening.client_hello import first_record

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.gateway.listening.server_names import ServerNames

log = structlog.get_logger()


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
        """
        self.context = context
        self._native = native
        self._properties = properties
        self._file = file
        self._names = names
        self._server: Any | None = None
        self.renew()

    def renew(self) -> None:
        """Use the key and the certificates that are in the file now, after the context does."""
        self._server = None
        try:
            self._server = self._made()
        except (OSError, ValueError) as error:
            log.info("connections with TLS are processed in Python", reason=str(error))

    def _made(self) -> Any:
        if self.context.verify_mode != ssl.CERT_NONE:
            raise ValueError("ssl.client.auth")
        least, most = self.context.minimum_version, self.context.maximum_version
        return self._native.TlsServer(
            self._pem(),
            least <= ssl.TLSVersion.TLSv1_2 <= most,
            least <= ssl.TLSVersion.TLSv1_3 <= most,
            [cipher["name"] for cipher in self.context.get_ciphers()],
        )

    def _pem(self) -> bytes:
        of = self._properties
        path = location_of(of, self._file.parent, "keystore", f"{self._file}: ")
        return path.read_bytes() if path is not None else f"{of[KEY]}\n{of[CHAIN]}\n".encode()

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
        tls = server.accept(start) if server is not None else None
        if tls is None or not self._is_known(tls.server_name):
            return None
        connection.recv(len(start))
        return tls

    def _is_known(self, name: str | None) -> bool:
        if self._names is None:
            return True
        return name is not None and self._names.is_known(name)
