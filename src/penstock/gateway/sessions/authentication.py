"""The SASL authentication of a connection, and when it expires.

The broker authenticates the client; the gateway reads the messages. If the cluster requires SASL, a
client that has not authenticated is not served, as with a broker (SaslServerAuthenticator.java).
The broker cannot enforce that alone, since the gateway responds to some requests itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests import sasl

if TYPE_CHECKING:
    from collections.abc import Callable


class ConnectionAuthentication:
    """The SASL state of a connection (KIP-43, KIP-152, KIP-368)."""

    def __init__(
        self, *, is_required: bool, certificate_principal: str | None, clock: Callable[[], float]
    ) -> None:
        """Make the state of a client that has not authenticated by SASL.

        Args:
            is_required: Whether the cluster requires SASL.
            certificate_principal: The principal of the client's TLS certificate.
            clock: Returns the monotonic time in seconds.
        """
        self.is_required = is_required
        self._certificate_principal = certificate_principal
        self._clock = clock
        self._messages = sasl.Authentication()
        self._uses_sasl = False
        self._valid_until = math.inf

    @property
    def principal(self) -> str | None:
        """The principal of the client, by SASL or by its certificate; None if it is not known.

        The certificate is ignored once the client uses SASL.
        """
        return self._messages.principal if self._uses_sasl else self._certificate_principal

    @property
    def is_done(self) -> bool:
        """Whether the client has authenticated, or need not."""
        return not self.is_required or self._messages.is_complete

    @property
    def awaits_response(self) -> bool:
        """Whether a response of the broker decides which requests the client may send next."""
        return self.is_required and self._messages.undecided

    @property
    def valid_until(self) -> float:
        """When the authentication expires, by the clock; infinite if it does not."""
        return self._valid_until

    def check(self, api_key: int) -> None:
        """Check that a request of another API is allowed now.

        Raises:
            WireError: It is not; the connection is to be closed, as by a broker.
        """
        if not self.is_required:
            return
        if not self._messages.is_complete:
            raise WireError(f"API key {api_key} before it has authenticated")
        if self._clock() > self._valid_until:
            raise WireError(f"API key {api_key} after its authentication has expired")

    def handshake_sent(self, frame: bytes) -> None:
        """Read a SaslHandshake request that is sent to the broker."""
        self._messages.handshake(sasl.read_handshake(frame))

    def message_sent(self, frame: bytes) -> None:
        """Read a SaslAuthenticate request that is sent to the broker."""
        self._messages.sent(sasl.read_authenticate(frame))

    def message_answered(self, frame: bytes, version: int) -> None:
        """Read the broker's response to the first request without a response."""
        accepted = sasl.authenticated(frame, version)
        has_authenticated = self._messages.answered(accepted)
        self._uses_sasl = self._uses_sasl or accepted is not None
        if has_authenticated:
            lifetime_ms = sasl.session_lifetime_ms(frame, version)
            self._valid_until = self._clock() + lifetime_ms / 1000 if lifetime_ms else math.inf
