"""TLS of connections to brokers: OpenSSL judges certificates, and native threads have the bytes.

**Who does what.** rustls (`native/src/lane/tls_client.rs`, with ring) makes the handshake and has
the connection after it, as on a client's side (`listening/native_tls.py`). It judges no
certificate: it accepts those that OpenSSL has accepted, for the same host and with the same
authorities, in the last minutes. For that, OpenSSL connects first, and closes that connection at
once. So names, authorities, purposes and dates mean what they mean in Python, and OpenSSL reports
each error of a broker, as before. With each connection, the broker proves that it has the key of
its certificate. Sessions are not resumed: each connection shows a certificate.

**What stays in Python.** Everything if rustls cannot have the configuration: an encrypted key, or
of another kind; no suite that it knows; in FIPS mode, and with `PENSTOCK_NATIVE_TLS=0`. And all
connections, for ten minutes, to a broker with which OpenSSL shakes hands and rustls does not (no
suite, group or signature in common, a certificate that it cannot read). The log has the reason.

**A certificate that is replaced** is not known yet: OpenSSL judges it, and rustls tries again.
Behind one address may be several brokers, each with its own.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from penstock.configuration.clients.stores import key_and_chain
from penstock.configuration.clients.tls_versions import versions_and_suites
from penstock.gateway.broker_connection import connect, connect_error, open_transport
from penstock.gateway.lane.availability import why_without_tls
from penstock.gateway.listening.tls_connection import HandshakeError, TlsConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock.configuration import Address

log = structlog.get_logger()

ACCEPTED_S: Final = 300.0
"""How long a certificate is not judged again: one of its authorities may expire meanwhile."""
CHECK_S: Final = 10.0
IN_PYTHON_S: Final = 600.0
"""How long a broker is left to Python before it is tried again."""
_ATTEMPTS: Final = 2
_UNKNOWN: Final = "ApplicationVerificationFailure"
"""In the reason where a broker shows a certificate that is not known: `tls_client.rs`."""
_CERTIFICATES_MAX: Final = 16
"""So many are known of an address."""


class NotNativeError(Exception):
    """rustls does not shake hands with a broker.

    Attributes:
        reason: The reason.
        may_work: Whether it may in the next moment.
    """

    def __init__(self, reason: str, *, may_work: bool = False) -> None:
        """Make it with the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.may_work = may_work


class _Broker(NamedTuple):
    """The accepted certificates of an address.

    Attributes:
        certificates: These (DER), and until when each is accepted, in seconds since 1970.
        native: Begins connections that are to show one of them; None if that is left to Python.
        until: Until when this holds.
    """

    certificates: Mapping[bytes, float]
    native: Any | None
    until: float


class BrokerTls:
    """The TLS of connections to brokers.

    Attributes:
        context: The context of those that are Python's.
    """

    def __init__(
        self, context: ssl.SSLContext, properties: Mapping[str, str], folder: Path
    ) -> None:
        """Make it for connections that are all Python's.

        Args:
            context: The context, which was just made with these properties.
            properties: The keys after `upstream.`.
            folder: Where relative locations start.
        """
        self.context = context
        self._own = key_and_chain(properties, folder, "upstream.")
        self._client: Any | None = None
        self._brokers: dict[Address, _Broker] = {}
        self._checks: dict[Address, asyncio.Task[None]] = {}

    def use(self, native: Any) -> str:
        """Let native threads have connections from now on, if that is possible.

        Args:
            native: The native module.

        Returns:
            Why it is not; empty if it is.
        """
        own, self._own = self._own, None
        reason = why_without_tls()
        if not reason:
            try:
                self._client = native.TlsClient(own, *versions_and_suites(self.context))
            except ValueError as error:
                reason = f"upstream.ssl.*: {error}"
        if reason:
            log.info("connections to brokers are processed in Python", reason=reason)
        return reason

    async def connect(
        self, address: Address, protocol: Callable[[], asyncio.Protocol], timeout_s: float
    ) -> asyncio.Transport:
        """Connect to a broker.

        Args:
            address: Its address.
            protocol: Makes the protocol of the connection.
            timeout_s: How long that may take, in seconds. OpenSSL may take as long before.

        Returns:
            The connection, a `TlsConnection` if native threads may have it.

        Raises:
            ConnectError: It does not work, or not in time.
        """
        try:
            made = await self._connect_natively(address, protocol, timeout_s)
        except (OSError, TimeoutError) as error:
            raise connect_error(error) from None
        if made is None:
            made = await connect(address, self.context, protocol, timeout_s)
            if self._native(address) is not None:
                self._learn(address, made)
        return made

    async def _connect_natively(
        self, address: Address, protocol: Callable[[], asyncio.Protocol], timeout_s: float
    ) -> asyncio.Transport | None:
        """Connect; return None if that is left to Python."""
        if self._client is None:
            return None
        for attempt in range(_ATTEMPTS):
            native = await self._accepted(address)
            if native is None:
                return None
            try:
                return await self._begin(native, address, protocol, timeout_s)
            except NotNativeError as error:
                if self._native(address) is native:
                    await self._check(address)
                is_known = _UNKNOWN not in error.reason and self._native(address) is native
                if is_known and not (error.may_work and attempt + 1 < _ATTEMPTS):
                    self._leave_to_python(address, error.reason)
        return None

    async def _begin(
        self,
        native: Any,
        address: Address,
        protocol: Callable[[], asyncio.Protocol],
        timeout_s: float,
    ) -> asyncio.Transport:
        tls = native.connect()
        if tls is None:
            raise NotNativeError("an error of the library")
        made = TlsConnection(tls, self.context, protocol)
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(ends):
                await loop.create_connection(
                    lambda: made,  # noqa: F821 - it is deleted afterwards
                    address.host,
                    address.port,
                )
            await self._shake_hands(made, address, ends)
        except BaseException:
            made.abort()
            raise
        else:
            return made
        finally:
            del made  # as below

    async def _shake_hands(self, made: TlsConnection, address: Address, ends: float) -> None:
        try:
            async with asyncio.timeout_at(ends):
                await made.established
        except TimeoutError:
            # The client tries again, and OpenSSL may shake hands in time.
            self._leave_to_python(address, "the handshake takes too long")
            raise
        except HandshakeError as error:
            raise NotNativeError(str(error)) from None
        except OSError as error:
            raise NotNativeError(str(error) or type(error).__name__, may_work=True) from None
        finally:
            del made  # the error's traceback has this frame

    async def _accepted(self, address: Address) -> Any | None:
        """Return what begins a native connection; None if it is left to Python."""
        known = self._brokers.get(address)
        if known is None or known.until <= time.time():
            await self._check(address)
        return self._native(address)

    def _native(self, address: Address) -> Any | None:
        known = self._brokers.get(address)
        return known.native if known is not None else None

    async def _check(self, address: Address) -> None:
        """Have OpenSSL judge the certificate of a broker, once for all that wait for it.

        Raises:
            OSError: It is not accepted, or the broker cannot be reached.
        """
        check = self._checks.get(address)
        if check is None:
            check = asyncio.create_task(self._judge(address))
            self._checks[address] = check
            check.add_done_callback(lambda done: self._checked(address, done))
        await asyncio.shield(check)

    def _checked(self, address: Address, check: asyncio.Task[None]) -> None:
        del self._checks[address]
        if not check.cancelled():
            check.exception()  # perhaps nobody waits any more

    async def _judge(self, address: Address) -> None:
        async with asyncio.timeout(CHECK_S):
            transport = await open_transport(address, self.context, asyncio.Protocol)
        self._learn(address, transport)
        transport.close()

    def _learn(self, address: Address, transport: asyncio.Transport) -> None:
        """Accept the certificate of a connection of OpenSSL's."""
        shown = transport.get_extra_info("ssl_object")
        if shown is None:
            return  # it is closed already
        certificate, content = shown.getpeercert(binary_form=True), shown.getpeercert()
        expires_at = ssl.cert_time_to_seconds(content["notAfter"])
        self._accept(address, certificate, min(time.time() + ACCEPTED_S, expires_at))

    def _accept(self, address: Address, certificate: bytes, until: float) -> None:
        now = time.time()
        self._brokers = {of: known for of, known in self._brokers.items() if known.until > now}
        known = self._brokers.get(address, _Broker({}, None, now))
        kept = {of: until for of, until in known.certificates.items() if until > now}
        kept.pop(certificate, None)
        kept = {**dict(list(kept.items())[1 - _CERTIFICATES_MAX :]), certificate: until}
        native = known.native
        if native is None or kept.keys() != known.certificates.keys():
            native = self._client.to(address.host, list(kept)) if self._client else None
        self._brokers[address] = _Broker(kept, native, min(kept.values()))
        if native is None:
            self._leave_to_python(address, "its name cannot be sent")

    def _leave_to_python(self, address: Address, reason: str) -> None:
        log.warning(
            "connections to a broker are processed in Python", broker=str(address), reason=reason
        )
        self._brokers[address] = _Broker({}, None, time.time() + IN_PYTHON_S)
