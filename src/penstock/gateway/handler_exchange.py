"""A request of topics or configs that is held and answered by a handler.

What the client sends next waits, as behind any request that is held; the handler starts when
everything before the request has gone to the broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from penstock.gateway.exchange import Held, State
from penstock.gateway.request_context import RequestContext
from penstock.wire import client_requests
from penstock.wire.errors import WireError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from penstock.gateway.exchange import ConnectionContext, Exchange
    from penstock.gateway.request_context import Handler

log = structlog.get_logger()

_SIZE_IN_MEMORY: Final = 8
"""So many times its bytes a request takes about, when it is read."""


class HandlerExchange(Held):
    """One such request from its arrival to its response."""

    __slots__ = ("_connection", "_frame", "_handler", "_response", "_task")

    is_exclusive = True

    def __init__(self, frame: bytes, arrived: Exchange, handler: Handler) -> None:
        super().__init__(arrived, _SIZE_IN_MEMORY * len(frame))
        self._frame = frame
        self._handler = handler
        self._task: asyncio.Task[object] | None = None
        self._response = b""

    def start(self, connection: ConnectionContext) -> None:
        """Start the handler as soon as the requests before it have gone on; see `run_handler`."""
        self._connection = connection
        connection.advance()

    def run_handler(self) -> None:
        """Start the handler: everything the client sent before has gone to the broker."""
        if self._task is None:
            self._task = self._connection.gateway.run(self._respond())

    async def _respond(self) -> None:
        connection = self._connection
        try:
            request = client_requests.read_request(self._frame)
            context = RequestContext(request, connection, self.transform)
            self._response = await self._handler(context)
        except WireError as error:
            log.warning("closing a connection", api_key=self.api_key, reason=str(error))
            connection.fail()
        except Exception:
            log.exception("closing a connection after an error of the gateway")
            connection.fail()
        else:
            if self.state is State.PROCESSING:
                self.transition_to(State.READY)
            connection.advance()

    def outgoing(self) -> None:
        """Return None: what the broker had to be asked, the handler has asked."""

    def local_response(self) -> Sequence[bytes]:
        """Return what the handler returned."""
        return [self._response]

    def cancel(self) -> None:
        """End the handler without a response."""
        super().cancel()
        if self._task is not None:
            self._task.cancel()
