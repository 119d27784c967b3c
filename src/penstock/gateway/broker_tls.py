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
Handshakes that are lost or too slow are only such a reason if that happens repeatedly, OpenSSL
shakes hands after each, and rustls never does.

**A certificate that is not known**, as it is new, or of another broker behind the same address,
is judged by OpenSSL with a connection that stays in Python. If OpenSSL meets another broker there,
it connects a few times more.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from penstock.configuration.clients.stores import key_and_chain
from penstock.configuration.clients.tls_versions import versions_and_suites
from penstock.gateway.broker_connection import ConnectError, connect_error, open_transport
from penstock.gateway.lane.availability import why_without_tls
from penstock.gateway.listening.tls_connection import HandshakeError, TlsConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock.configuration import Address
    from penstock.gateway.listening.shared_buffer import SharedBufferProtocol

log = structlog.get_logger()

ACCEPTED_S: Final = 300.0
"""How long a certificate is not judged again: one of its authorities may expire meanwhile."""
CHECK_S: Final = 10.0
IN_PYTHON_S: Final = 600.0
"""How long a broker is left to Python before it is tried again."""
_ROUNDS: Final = 3
"""In so many, rustls loses a handshake and OpenSSL completes one: the broker is left to Python."""
_UNKNOWN: Final = "ApplicationVerificationFailure"
"""In the reason where a broker shows a certificate that is not known: `tls_client.rs`."""
_CERTIFICATES_MAX: Final = 64
"""So many are known of an address."""
_SEARCHES: Final = 4
"""So often OpenSSL connects for a certificate that only rustls was shown."""


class NotNativeError(Exception):
    """rustls does not shake hands with a broker.

    Attributes:
        may_work: Whether it may in the next moment.
    """

    def __init__(self, reason: str, *, may_work: bool = False) -> None:
        """Make it with the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.may_work = may_work


class _Accepted(NamedTuple):
    """How long a certificate is accepted.

    Attributes:
        until: In seconds of `time.monotonic`, which nobody sets.
        not_after: In seconds since 1970, as the certificate has it.
    """

    until: float
    not_after: float

    def holds(self) -> bool:
        """Return whether it is accepted now."""
        return self.until > time.monotonic() and self.not_after > time.time()


@dataclass(slots=True)
class _Broker:
    """The accepted certificates of an address.

    Attributes:
        until: Until when, in seconds of `time.monotonic`.
        certificates: Its accepted certificates (DER), the latest last.
        native: Begins connections that are to show one of them; None without any.
        is_in_python: Whether it is left to Python.
        doubt: Why rustls has not shaken hands, and how many rounds that is if OpenSSL does next.
        rounds: How many were lost since rustls has shaken hands.
        is_missed: Whether rustls was shown a certificate that is not known.
    """

    until: float
    certificates: dict[bytes, _Accepted] = field(default_factory=dict)
    native: Any | None = None
    is_in_python: bool = False
    doubt: tuple[str, int] | None = None
    rounds: int = 0
    is_missed: bool = False


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
        self._checks: dict[Address, asyncio.Future[str]] = {}
        self._searches: dict[Address, asyncio.Task[None]] = {}

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
        self, address: Address, protocol: Callable[[], SharedBufferProtocol], timeout_s: float
    ) -> asyncio.Transport:
        """Connect to a broker.

        Args:
            protocol: Makes the protocol of the connection.
            timeout_s: How long OpenSSL's handshake may take, and rustls's, in seconds; all of it
                together twice as long.

        Returns:
            The connection, a `TlsConnection` if native threads may have it.

        Raises:
            ConnectError: It does not work, or not in time.
        """
        try:
            async with asyncio.timeout(2 * timeout_s):
                transport = await self._connect_natively(address, protocol, timeout_s)
                if transport is None:
                    transport = await self._connect_in_python(address, protocol, timeout_s)
                return transport
        except (OSError, TimeoutError) as error:
            raise connect_error(error) from None

    async def _connect_natively(
        self, address: Address, protocol: Callable[[], SharedBufferProtocol], timeout_s: float
    ) -> asyncio.Transport | None:
        """Connect; return None if that is left to Python."""
        if self._client is None:
            return None
        for is_last in (False, True):
            native = await self._accepted(address)
            if native is None:
                return None
            try:
                transport = await self._begin(native, address, protocol, timeout_s)
            except NotNativeError as error:
                if _UNKNOWN in error.reason:
                    if not await self._is_learned(address, native):
                        return None
                elif is_last or not error.may_work:
                    self._doubt(address, native, error)
                    return None
            else:
                self._works(address)
                return transport
        return None

    async def _is_learned(self, address: Address, native: Any) -> bool:
        """Return whether another connection may have learned an unknown certificate."""
        if address in self._checks:
            await self._check(address)
        broker = self._known(address)
        if broker is None:
            return False
        broker.is_missed = broker.native is native
        return not broker.is_missed

    async def _begin(
        self,
        native: Any,
        address: Address,
        protocol: Callable[[], SharedBufferProtocol],
        timeout_s: float,
    ) -> asyncio.Transport:
        tls = native.connect()
        if tls is None:
            raise NotNativeError("an error of the library")
        connection = TlsConnection(tls, self.context, protocol)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,  # noqa: F821 - it is deleted afterwards
                    address.host,
                    address.port,
                )
            await self._shake_hands(connection, native, address, timeout_s)
        except BaseException:
            if not connection.established.cancel() and not connection.established.cancelled():
                connection.established.exception()  # it may not have been awaited
            connection.abort()
            raise
        else:
            return connection
        finally:
            del connection  # as below

    async def _shake_hands(
        self, connection: TlsConnection, native: Any, address: Address, timeout_s: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await connection.established
        except TimeoutError:
            # The client tries again, and OpenSSL shakes hands before rustls does.
            error = NotNativeError("the handshake takes too long", may_work=True)
            self._doubt(address, native, error)
            self._forget(address, native)
            raise
        except HandshakeError as error:
            raise NotNativeError(str(error)) from None
        except OSError as error:
            raise NotNativeError(str(error) or type(error).__name__, may_work=True) from None
        finally:
            del connection  # the error's traceback has this frame

    async def _connect_in_python(
        self, address: Address, protocol: Callable[[], SharedBufferProtocol], timeout_s: float
    ) -> asyncio.Transport:
        """Connect with OpenSSL; this is a check for those that begin to wait meanwhile."""
        check = asyncio.get_running_loop().create_future()
        is_check = self._checks.setdefault(address, check) is check
        refused = ""
        try:
            return await self._open(address, protocol, timeout_s)
        except ssl.SSLCertVerificationError as error:
            refused = str(error)
            raise
        finally:
            if is_check:
                del self._checks[address]
                check.set_result(refused)

    async def _open(
        self, address: Address, protocol: Callable[[], asyncio.BaseProtocol], timeout_s: float
    ) -> asyncio.Transport:
        try:
            async with asyncio.timeout(timeout_s):
                transport = await open_transport(address, self.context, protocol)
        except (OSError, TimeoutError):
            if (broker := self._brokers.get(address)) is not None:
                broker.doubt = None  # it is not because of rustls
            raise
        if self._client is not None:
            self._learn(address, transport)
        return transport

    async def _accepted(self, address: Address) -> Any | None:
        """Return what begins a native connection; None if it is left to Python."""
        broker = self._known(address)
        if broker is None or not (broker.native or broker.is_in_python):
            await self._check(address)
            broker = self._known(address)
        return broker.native if broker is not None else None

    async def _check(self, address: Address) -> None:
        """Have OpenSSL judge the certificate of a broker, once for all that wait for it.

        If that fails for another reason, each of them connects with OpenSSL.

        Raises:
            ConnectError: It is not accepted.
        """
        check = self._checks.get(address)
        if check is None:
            check = asyncio.create_task(self._judge(address))
            self._checks[address] = check
            check.add_done_callback(lambda task: self._checked(address, task))
        if refused := await asyncio.shield(check):
            raise ConnectError(refused)

    def _checked(self, address: Address, check: asyncio.Future[str]) -> None:
        del self._checks[address]
        if not check.cancelled():
            check.exception()  # perhaps nobody waits any more

    async def _judge(self, address: Address) -> str:
        """Return why the certificate of a broker is not accepted; empty if that is not known.

        No error is raised: it would have the frames of all that wait for it, and they would have
        it, until the next run of the garbage collector.
        """
        try:
            transport = await self._open(address, asyncio.Protocol, CHECK_S)
        except ssl.SSLCertVerificationError as error:
            return str(error)
        except (OSError, TimeoutError):
            return ""
        transport.close()
        return ""

    def _learn(self, address: Address, transport: asyncio.Transport) -> None:
        """Accept the certificate of a connection of OpenSSL's."""
        broker = self._known(address)
        if broker is not None and broker.is_in_python:
            return
        if broker is not None and broker.doubt is not None:
            (reason, rounds), broker.doubt = broker.doubt, None
            broker.rounds += rounds
            if broker.rounds >= _ROUNDS:
                self._leave_to_python(address, reason)
                return
        shown = transport.get_extra_info("ssl_object")
        if shown is None:
            return  # it is closed already
        certificate, content = shown.getpeercert(binary_form=True), shown.getpeercert()
        not_after = ssl.cert_time_to_seconds(content["notAfter"])
        self._accept(address, certificate, not_after)

    def _accept(self, address: Address, certificate: bytes, not_after: float) -> None:
        expiry = time.monotonic() + ACCEPTED_S
        for other in list(self._brokers):
            self._known(other)
        broker = self._brokers.setdefault(address, _Broker(expiry))
        broker.until = expiry
        certificates = {
            der: accepted for der, accepted in broker.certificates.items() if der != certificate
        }
        certificates = dict(list(certificates.items())[1 - _CERTIFICATES_MAX :])
        if broker.is_missed and certificate in broker.certificates:
            self._search(address)
        broker.is_missed = False
        certificates[certificate] = _Accepted(expiry, not_after)
        self._keep(address, broker, certificates)
        if broker.native is None:
            self._leave_to_python(address, "its name cannot be sent")

    def _search(self, address: Address) -> None:
        """Find the unknown certificate that rustls was shown, and OpenSSL was not."""
        if address not in self._searches:
            self._searches[address] = search = asyncio.create_task(self._find(address))
            search.add_done_callback(lambda _: self._searches.pop(address))

    async def _find(self, address: Address) -> None:
        for _ in range(_SEARCHES):
            broker = self._known(address)
            native = broker.native if broker is not None else None
            if native is None or await self._judge(address):
                return
            broker = self._known(address)
            if broker is None or broker.native is not native:
                return

    def _known(self, address: Address) -> _Broker | None:
        """Return what is known of an address, after what does not hold any more is forgotten."""
        broker = self._brokers.get(address)
        if broker is None:
            return None
        if broker.until <= time.monotonic():
            del self._brokers[address]
            return None
        certificates = {
            der: accepted for der, accepted in broker.certificates.items() if accepted.holds()
        }
        self._keep(address, broker, certificates)
        return broker

    def _keep(
        self, address: Address, broker: _Broker, certificates: dict[bytes, _Accepted]
    ) -> None:
        is_same = certificates.keys() == broker.certificates.keys()
        broker.certificates = certificates
        if not is_same:
            client = self._client if certificates else None
            broker.native = (
                client.to(address.host, list(certificates)) if client is not None else None
            )

    def _forget(self, address: Address, native: Any) -> None:
        """Let OpenSSL judge a broker before the next connection."""
        broker = self._brokers.get(address)
        if broker is not None and broker.native is native:
            self._keep(address, broker, {})

    def _doubt(self, address: Address, native: Any, error: NotNativeError) -> None:
        """Note that rustls has not shaken hands, unless OpenSSL has judged the broker meanwhile."""
        broker = self._brokers.get(address)
        if broker is not None and broker.native is native:
            broker.doubt = error.reason, 1 if error.may_work else _ROUNDS

    def _works(self, address: Address) -> None:
        """Note that rustls has shaken hands."""
        broker = self._brokers.get(address)
        if broker is not None:
            broker.doubt, broker.rounds = None, 0

    def _leave_to_python(self, address: Address, reason: str) -> None:
        log.warning(
            "connections to a broker are processed in Python", broker=str(address), reason=reason
        )
        expiry = time.monotonic() + IN_PYTHON_S
        self._brokers[address] = _Broker(expiry, is_in_python=True)
