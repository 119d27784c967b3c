"""A request that the gateway sends to a broker on a client's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_CORRELATION_ID: Final = 0x50454E53


class OwnRequest:
    """A request of the gateway's own."""

    __slots__ = ("correlation_id", "on_response")

    is_needed_after_disconnect = True

    def __init__(
        self, on_response: Callable[[bytes], None], correlation_id: int = OWN_CORRELATION_ID
    ) -> None:
        self.correlation_id = correlation_id
        self.on_response = on_response
