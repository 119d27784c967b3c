"""How far the client of one connection has authenticated, and until when that holds.

The broker authenticates; the gateway reads along. In front of a cluster that requires SASL, a
client is served nothing before, as a broker does it (SaslServerAuthenticator.java): what is
refused here is answered without the broker, so it cannot be left to it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penstock.wire import sasl
from penstock.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable


class Authentication:
    """The SASL state of one connection (KIP-43, KIP-152, KIP-368)."""

    def __init__(
        self, *, is_required: bool, certificate_principal: str | None, clock: Callable[[], float]
    ) -> None:
        """Begin with a client that is not authenticated by SASL.

        Args:
            is_required: Whether the cluster requires SASL.
            certificate_principal: Who the client is by its TLS certificate.
            clock: Returns the time in seconds; it never goes back.
        """
        self.is_required = is_required
        self._certificate_principal = certificate_principal
        self._clock = clock
        self._messages = sasl.Authentication()
        self._uses_sasl = False
        self._valid_until = math.inf

    @property
    def principal(self) -> str | None:
        """Who the client is: as it authenticated to the broker, or by its certificate.

        A certificate does not speak for a client that authenticates by SASL.
        """
        return self._messages.principal if self._uses_sasl else self._certificate_principal

    @property
    def is_done(self) -> bool:
        """Whether the client has authenticated, or does not have to."""
        return not self.is_required or self._messages.is_complete

    @property
    def awaits_response(self) -> bool:
        """Whether what may come next depends on a response of the broker that is to come."""
        return self.is_required and self._messages.undecided

    def check(self, api_key: int) -> None:
        """Check that a request of another API may come now.

        Raises:
            WireError: It may not; the connection is to be closed, as a broker closes it.
        """
        if not self.is_required:
            return
        if not self._messages.is_complete:
            raise WireError(f"API key {api_key} before it has authenticated")
        if self._clock() > self._valid_until:
            raise WireError(f"API key {api_key} after its authentication has expired")

    def handshake_sent(self, frame: bytes) -> None:
        """Read a SaslHandshake request that goes to the broker."""
        self._messages.handshake(sasl.read_handshake(frame))

    def message_sent(self, frame: bytes) -> None:
        """Read a SaslAuthenticate request that goes to the broker."""
        self._messages.sent(sasl.read_authenticate(frame))

    def message_answered(self, frame: bytes, version: int) -> None:
        """Read the broker's response to the first message that has none yet."""
        accepted = sasl.authenticated(frame, version)
        has_authenticated = self._messages.answered(accepted)
        self._uses_sasl = self._uses_sasl or accepted is not None
        if has_authenticated:
            lifetime_ms = sasl.session_lifetime_ms(frame, version)
            self._valid_until = self._clock() + lifetime_ms / 1000 if lifetime_ms else math.inf
