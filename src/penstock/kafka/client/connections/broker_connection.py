"""A connection to a broker: aiokafka's, which logs in on other threads and knows when it is silent.

A step of a login may block: GSSAPI waits for a KDC. aiokafka runs it on the event loop's executor,
which has a few threads, and the gateway needs them for other work. It also leaves the KDC no limit.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.protocol.admin import SaslHandShakeRequest

from penstock.kafka.client.connections.scram import LimitedScramAuthenticator
from penstock.kafka.client.errors import LoginError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

_TIME_TO_RESPOND_S: Final = 5.0


class BrokerConnection(AIOKafkaConnection):  # type: ignore[misc]
    """A connection to a broker."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        logins: Executor,
        kdc_timeout_s: float | None = None,
        kerberos_principal: str = "",
        **options: Any,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            host: Of the broker.
            port: Of the broker.
            logins: Runs the steps of logins.
            kdc_timeout_s: How long a step of GSSAPI may take; None for no limit.
            kerberos_principal: Who logs in by GSSAPI; empty for any principal.
            options: The other arguments of `AIOKafkaConnection`.
        """
        super().__init__(host, port, **options)
        self._logins = logins
        self._kdc_timeout_s = kdc_timeout_s
        self._kerberos_principal = kerberos_principal
        self._made_at = time.monotonic()

    def send(self, request: Any, expect_response: bool = True) -> Awaitable[Any]:
        """Send a request.

        Returns:
            The response.
        """
        response: Awaitable[Any] = super().send(request, expect_response)
        if isinstance(request, SaslHandShakeRequest):
            return self._checked_handshake(response)
        return response

    async def _checked_handshake(self, response: Awaitable[Any]) -> Any:
        """Return the response to a handshake, unless it refuses the mechanism.

        aiokafka raises its error without the mechanisms.

        Raises:
            LoginError: The broker does not offer the mechanism.
        """
        handshake = await response
        if self._sasl_mechanism not in handshake.enabled_mechanisms:
            offered = ", ".join(handshake.enabled_mechanisms) or "no mechanism"
            raise LoginError(
                f"the broker does not offer logins by {self._sasl_mechanism}; it offers {offered}"
            )
        return handshake

    @property
    def received_at(self) -> float:
        """When bytes were received last, by its clock."""
        last_action: float = self._last_action
        return last_action

    def is_silent(self, received_at: float) -> bool:
        """Return whether a request that is cancelled shows that the broker is silent.

        It is not where other requests were answered, unless the next response belongs to a request
        that was cancelled: then the others wait behind it. A connection has a few seconds first:
        requests go to the next connection together, and a slow broker would get them again at each
        deadline.

        Args:
            received_at: What `received_at` was when the request was sent.
        """
        if not self.connected() or time.monotonic() - self._made_at < _TIME_TO_RESPOND_S:
            return False
        if self.received_at == received_at:
            return True
        return bool(self._requests) and self._requests[0][2].cancelled()

    def drop_unsent(self) -> None:
        """Forget bytes that are not sent yet; `close` would send all of it first."""
        if self._writer is not None:
            self._writer.transport.abort()

    @classmethod
    def _on_read_task_error(
        cls,
        self_ref: Callable[[], BrokerConnection | None],
        read_task: asyncio.Task[None],
    ) -> None:
        """Close the connection, which is lost.

        aiokafka raises the error of the task here. The error would keep this frame, which has the
        task, which has the error: a cycle for each lost connection.
        """
        error = None if read_task.cancelled() else read_task.exception()
        if error is None:
            return
        connection = self_ref()
        if connection is not None:
            connection.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)

    def authenticator_plain(self) -> _ThreadedAuthenticator:
        """Return the steps of PLAIN."""
        return _ThreadedAuthenticator(super().authenticator_plain(), self._logins)

    def authenticator_gssapi(self) -> _ThreadedAuthenticator:
        """Return the steps of GSSAPI."""
        # It needs the package gssapi, and takes long to import.
        from penstock.kafka.client.connections.kerberos import (  # noqa: PLC0415
            KerberosAuthenticator,
        )

        authenticator = KerberosAuthenticator(self.sasl_principal, self._kerberos_principal)
        return _ThreadedAuthenticator(authenticator, self._logins, self._kdc_timeout_s)

    def authenticator_scram(self) -> _ThreadedAuthenticator:
        """Return the steps of SCRAM."""
        authenticator = LimitedScramAuthenticator(
            loop=self._loop,
            sasl_plain_password=self._sasl_plain_password,
            sasl_plain_username=self._sasl_plain_username,
            sasl_mechanism=self._sasl_mechanism,
        )
        return _ThreadedAuthenticator(authenticator, self._logins)


def refusal_reason(error: Exception) -> str:
    """Return a broker's reason to refuse a login, or the name of its error.

    Args:
        error: Of aiokafka; it has the reason, or None, or a connection.
    """
    reason = error.args[0] if error.args else None
    if isinstance(reason, str) and reason:
        return reason
    return f"{getattr(error, 'message', type(error).__name__)}, without a reason"


class _ThreadedAuthenticator:
    """An authenticator of aiokafka, on other threads than its own."""

    def __init__(
        self, authenticator: Any, logins: Executor, timeout_s: float | None = None
    ) -> None:
        self._authenticator = authenticator
        self._logins = logins
        self._timeout_s = timeout_s

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Return the bytes to send, and whether a response is expected; None at the end.

        Raises:
            LoginError: It takes too long.
        """
        loop = asyncio.get_running_loop()
        step = self._authenticator._step  # noqa: SLF001 - `step` has no choice of the executor
        try:
            async with asyncio.timeout(self._timeout_s):
                next_step: tuple[bytes, bool] | None = await loop.run_in_executor(
                    self._logins, step, payload
                )
        except TimeoutError:
            raise LoginError(
                f"the login by GSSAPI failed: no KDC has responded within {self._timeout_s:g} s; "
                "see krb5.conf (KRB5_CONFIG)",
                retriable=True,
            ) from None
        return next_step
