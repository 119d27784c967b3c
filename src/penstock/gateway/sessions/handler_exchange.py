"""An exchange whose response comes from a handler, as for the admin APIs.

The handler starts when all requests before it have been sent to the broker. The client's next
requests wait until it has finished.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from penstock.gateway.context.exchange import ExchangeState, Held
from penstock.gateway.context.handler_context import HandlerContext
from penstock.kafka.wire import client_requests
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from penstock.gateway.context.exchange import Buffers, Exchange
    from penstock.gateway.sessions.gateway import RequestConnection, RequestGateway

log = structlog.get_logger()

_SIZE_IN_MEMORY: Final = 8
"""The estimated memory of a parsed request, as a multiple of its size."""


class Handler(Protocol):
    """Handles the requests of one API."""

    def __call__(
        self, context: HandlerContext[RequestGateway]
    ) -> Coroutine[object, object, bytes | Buffers]:
        """Return the frame of the response, or its buffers.

        Raises:
            WireError: The request or a response of the broker cannot be read.
        """


class HandlerExchange(Held):
    """A request that a handler responds to."""

    __slots__ = ("_connection", "_frame", "_handler", "_response", "_task")

    is_exclusive = True

    def __init__(
        self, frame: bytes, received: Exchange, handler: Handler, connection: RequestConnection
    ) -> None:
        super().__init__(received, _SIZE_IN_MEMORY * len(frame))
        self._frame = frame
        self._connection = connection
        self._handler = handler
        self._task: asyncio.Task[object] | None = None
        self._response: Buffers = ()

    def start(self) -> None:
        """Wait for `run_handler`."""
        self._connection.advance()

    def run_handler(self) -> None:
        """Start the handler: all requests before this request have been sent to the broker."""
        if self._task is None:
            self._task = self._connection.gateway.run(self._respond())

    async def _respond(self) -> None:
        connection = self._connection
        try:
            request = client_requests.read_request(self._frame)
            hold = partial(connection.hold, self)
            context = HandlerContext(request, connection, connection.gateway, self.transform, hold)
            response = await self._handler(context)
        except WireError as error:
            log.warning("closing a connection", api_key=self.api_key, reason=str(error))
            connection.fail()
        except Exception:
            log.exception("closing a connection after an error of the gateway")
            connection.fail()
        else:
            self._response = [response] if isinstance(response, bytes) else response
            # All that was held for the handler is free; the response may have to wait.
            connection.hold(self, sum(map(len, self._response)) - self.size)
            if self.state is ExchangeState.PROCESSING:
                self.transition_to(ExchangeState.READY)
            connection.advance()

    def outgoing(self) -> None:
        """Return None: the handler has sent its own requests."""

    def local_response(self) -> Buffers:
        """Return the handler's response."""
        response, self._response = self._response, ()
        return response

    def cancel(self) -> None:
        """Cancel the handler."""
        super().cancel()
        if self._task is not None:
            self._task.cancel()
