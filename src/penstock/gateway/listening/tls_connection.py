"""A client's or a broker's connection with TLS of which rustls has the bytes, and not OpenSSL.

It stands between the event loop's transport of the socket, whose protocol it is, and a client's or
broker's protocol, whose transport it is. Native threads can have the socket and the TLS in between:
there is no byte of either that only Python knows, once what was decrypted is passed on.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.gateway.listening.shared_buffer import SharedBufferProtocol

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterable


_HANDSHAKE_BYTES: Final = 4 * 1024
"""So much is read at once before there is a protocol that says how much it wants."""
CLOSING_S: Final = 30.0
"""How long a peer may take to read what is left, and to close."""


class TlsPhase(IntEnum):
    """What a connection is at: `native/src/python_tls.rs`."""

    HANDSHAKE = 0
    OPEN = 1
    ENDED = 2
    """The peer has said that it sends no more."""
    FAILED = 3
    """A record is not valid, or the peer has reported an error."""


class HandshakeError(ConnectionError):
    """A handshake has failed; the text has the reason."""


class TlsConnection(asyncio.Transport, SharedBufferProtocol):
    """The TLS of a connection.

    Attributes:
        tls: The native end of it. While a native thread has it, nobody else may use it.
        established: Is done when the handshake is.
    """

    def __init__(
        self, tls: Any, context: ssl.SSLContext, make: Callable[[], SharedBufferProtocol]
    ) -> None:
        """Wait for the socket's transport.

        Args:
            tls: The native end, whose next message is to be sent.
            context: The context of Python, as `sslcontext` of the transport.
            make: Returns the protocol after the handshake.
        """
        super().__init__({"sslcontext": context, "server_name": tls.server_name})
        self.tls = tls
        self._make: Callable[[], SharedBufferProtocol] | None = make
        self._loop = asyncio.get_running_loop()
        self.established: asyncio.Future[None] = self._loop.create_future()
        self._socket: asyncio.Transport | None = None
        self._protocol: SharedBufferProtocol | None = None
        self.read_buffer = memoryview(bytearray(_HANDSHAKE_BYTES))
        self._unread = b""
        self._phase: int = TlsPhase.HANDSHAKE
        self._has_eof = self._is_paused = self._is_closing = False
        self._closing: asyncio.TimerHandle | None = None

    @property
    def has_unread(self) -> bool:
        """Whether something is not passed on yet: bytes, an end, or an error."""
        return bool(self._unread) or self._is_over

    @property
    def held_bytes(self) -> int:
        """The bytes that were received and are not passed on, and the native end's."""
        return len(self._unread) + int(self.tls.held_bytes)

    @property
    def _is_over(self) -> bool:
        return self._has_eof or self._phase > TlsPhase.OPEN

    def returned(self) -> None:
        """Continue after a native thread: write what it has left, and notice what it has found."""
        self._write(self.tls.take_unsent())
        self._phase = self.tls.phase
        if self._is_over:
            self._loop.call_soon(self._pass_on)

    # The protocol of the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first message, or the answer to it."""
        self._socket = cast("asyncio.Transport", transport)
        self._write(self.tls.take_unsent())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory to read into: as much of it as the protocol wants."""
        protocol = self._protocol
        return self.read_buffer if protocol is None else protocol.get_buffer(sizehint)

    def data_received(self, data: bytes) -> None:
        """Decrypt bytes of the peer."""
        if self._is_closing:
            return
        plain, unsent, self._phase = self.tls.receive(data)
        self._write(unsent)
        self._unread = self._unread + plain if self._unread else plain
        if self._protocol is None and not self._is_established():
            return
        self._pass_on()

    def _is_established(self) -> bool:
        """Continue with the handshake; return whether it is complete."""
        if self._phase == TlsPhase.HANDSHAKE:
            return False
        if not self.tls.is_established:
            self._fail_handshake(HandshakeError(f"TLS: {self.tls.failure or 'it has ended'}"))
            return False
        # It may have the protocol, which may have this connection: they would keep each other.
        make, self._make = self._make, None
        assert make is not None
        self._protocol = make()
        self.read_buffer = self._protocol.read_buffer
        self._protocol.connection_made(self)
        if not self.established.done():
            self.established.set_result(None)
        return True

    def _fail_handshake(self, error: BaseException) -> None:
        self._is_closing = True
        if not self.established.done():
            self.established.set_exception(error)
        if self._socket is not None and not self._socket.is_closing():
            self._socket.close()
            self._close_later(self._socket)

    def _pass_on(self) -> None:
        protocol = self._protocol
        if protocol is None or self._is_paused or self._is_closing:
            return
        if self._unread:
            data, self._unread = self._unread, b""
            protocol.data_received(data)
        if self._is_over and not (self._unread or self._is_paused or self._is_closing):
            self._pass_end_on(protocol)

    def _pass_end_on(self, protocol: SharedBufferProtocol) -> None:
        if self._phase == TlsPhase.FAILED:
            self._stop()
        elif not protocol.eof_received():
            self.close()

    def _stop(self) -> None:
        """Close after an error; the peer gets the alert, if it reads."""
        if self._is_closing or self._socket is None:
            return
        self._is_closing = True
        if self._socket.get_write_buffer_size():
            self._socket.abort()
            return
        self._socket.write(self.tls.take_unsent())
        self._socket.close()
        self._close_later(self._socket)

    def _close_later(self, socket: asyncio.Transport) -> None:
        """Close at last, whatever the peer does."""
        if self._closing is None:
            self._closing = self._loop.call_later(CLOSING_S, socket.abort)

    def eof_received(self) -> bool:
        """Handle the end of the peer's bytes, which may be before that of its TLS."""
        self._has_eof = True
        if self._is_closing:
            return False
        if self._protocol is None:
            self._fail_handshake(ConnectionResetError())
        self._pass_on()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._is_closing, self._unread, self._make = True, b"", None
        if self._closing is not None:
            self._closing.cancel()
        protocol, self._protocol = self._protocol, None
        if protocol is None:
            self._fail_handshake(exc or ConnectionResetError())
        else:
            protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass on that the write buffer is full."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that it is not any more."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    # The transport of the protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection; of the certificate, nothing."""
        own = super().get_extra_info(name)
        if own is not None or self._socket is None:
            return own
        return self._socket.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        assert self._protocol is not None
        return self._protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt bytes, and write them."""
        if self._is_closing:
            return
        try:
            encrypted = self.tls.send(data if isinstance(data, bytes) else bytes(data))
        except ConnectionError:
            self._loop.call_soon(self._stop)
        else:
            self._write(encrypted)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Encrypt all of them together, and write them."""
        self.write(b"".join(list_of_data))

    def _write(self, encrypted: bytes) -> None:
        if encrypted and self._socket is not None and not self._socket.is_closing():
            self._socket.write(encrypted)

    def is_closing(self) -> bool:
        """Return whether the connection is closing, or closed."""
        return self._is_closing or self._socket is None or self._socket.is_closing()

    def close(self) -> None:
        """Close after what is written, the end of the gateway's TLS, and the peer's end.

        What the peer sends meanwhile is discarded. If it were not read, the system would reset
        the connection, and the peer might not get what is written.
        """
        if self._is_closing or self._socket is None:
            return
        self._is_closing, self._unread = True, b""
        self.tls.end()
        self._write(self.tls.take_unsent())
        if self._is_over or self._socket.is_closing():
            self._socket.close()
        else:
            self._socket.write_eof()
            self._socket.resume_reading()
        self._close_later(self._socket)

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        if self._socket is not None:
            self._socket.abort()

    def pause_reading(self) -> None:
        """Pass nothing on, and read nothing."""
        self._is_paused = True
        if self._socket is not None and not self.is_closing():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again, and pass on what was read before."""
        self._is_paused = False
        if self._socket is not None and not self.is_closing():
            self._socket.resume_reading()
        if self.has_unread:
            self._loop.call_soon(self._pass_on)

    def is_reading(self) -> bool:
        """Return whether bytes are passed on."""
        return not (self._is_paused or self.is_closing())

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are to be written to the socket."""
        return self._socket.get_write_buffer_size() if self._socket is not None else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when `pause_writing` and `resume_writing` are called."""
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high, low)


async def attach(
    connection: socket.socket,
    tls: Any,
    context: ssl.SSLContext,
    make: Callable[[], SharedBufferProtocol],
) -> None:
    """Complete the handshake of a connection, and attach a protocol to it.

    Args:
        connection: A non-blocking socket.
        tls: The native end of its TLS, which has processed the client's first message.
        context: The listener's context.
        make: Returns the protocol.

    Raises:
        OSError: The handshake has failed.
    """
    tls_connection = TlsConnection(tls, context, make)
    established = tls_connection.established
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: tls_connection,  # noqa: F821 - it is deleted afterwards
            connection,
        )
        await established
    except BaseException:
        if not established.cancel() and not established.cancelled():
            established.exception()  # it may not have been awaited
        tls_connection.abort()
        raise
    finally:
        # The error's traceback has this frame: they would keep each other, until the next run of
        # the garbage collector.
        del tls_connection, established
