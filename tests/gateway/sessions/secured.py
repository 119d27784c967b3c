"""A session that begins with a login."""

from tests.gateway.sessions.talk import Talk, answer
from tests.kafka.wire.sasl_frames import authenticate_frame, handshake_frame, response_frame

HANDSHAKE_RESPONSE = answer(7, b"\x00\x00" + bytes(4))


class Secured(Talk):
    """A session in front of a cluster whose listeners require SASL."""

    requires_sasl = True
    now = 0.0

    def clock(self) -> float:
        return self.now

    def greet(self) -> None:
        self.session.client_data(handshake_frame())
        self.session.upstream_data(HANDSHAKE_RESPONSE)
        self.broker.take(), self.client.take()

    def log_in(self, *, lifetime_ms: int = 0) -> None:
        self.greet()
        self.session.client_data(authenticate_frame())
        self.session.upstream_data(response_frame(lifetime_ms=lifetime_ms))
        self.broker.take(), self.client.take()
