"""Requests to the coordinator of a group or of a transactional id, repeated until answered.

Each request here may be repeated: after a lost response the coordinator answers the second as the
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import BrokerUnreachableError, ClientError
from penstock.kafka.client.protocol.write_errors import write_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.kafka.client.connections.connection import Connection

T = TypeVar("T")
_MOVED: Final = frozenset(
    {int(ErrorCode.not_coordinator), int(ErrorCode.coordinator_not_available)}
)
_BACKOFF_S: Final = 0.02
"""After a commit the coordinator writes markers for a few milliseconds, and the first request of
the next transaction waits for them; the Java client pauses as long."""


class CoordinatorKey(NamedTuple):
    """The id of a group or of transactions, which has a coordinator.

    Attributes:
        name: A group id, or a transactional id.
        transaction: Whether it is a transactional id.
    """

    name: str
    transaction: bool = False

    def __str__(self) -> str:
        return f"{'transactional id' if self.transaction else 'group'} {self.name}"


def send_with_retries(
    connection: Connection,
    key: CoordinatorKey,
    request: Any,
    response: type[T],
    codes: Callable[[T], Iterable[int]],
    *,
    on_lost: Callable[[], None] = lambda: None,
) -> T:
    """Send a request until it succeeds; return the response.

    Args:
        connection: To the cluster.
        key: The id whose coordinator gets the request.
        request: An entity of `kio.schema`.
        response: The class of the response, of the same version.
        codes: Returns all error codes of a response.
        on_lost: Called when there was no response, or a response that does not say what became of
            the request: it may still be carried out later.

    Raises:
        WriteError: The coordinator refuses it; see `write_error`.
        ClientError: It is denied, or there was no success in time.
    """
    retries = Retries(connection.settings._replace(backoff_s=_BACKOFF_S))
    while True:
        try:
            answer = connection.send_to_coordinator(
                key.name, request, response, transaction=key.transaction
            )
            code = _decisive(codes(answer))
            if not code:
                return answer
            if code in _MOVED:
                connection.forget_coordinator(key.name, transaction=key.transaction)
            error = write_error(code, str(key))
            if code == ErrorCode.unknown_server_error:
                # While another writer takes over the transaction: a retry succeeds.
                on_lost()
                error.retriable = True
            raise error
        except BrokerUnreachableError as unreachable_error:
            on_lost()
            connection.forget_coordinator(key.name, transaction=key.transaction)
            retries.after(unreachable_error)
        except ClientError as client_error:
            retries.after(client_error)


def _decisive(codes: Iterable[int]) -> int:
    """Return the first error; others were perhaps not attempted because of it."""
    failed = [int(code) for code in codes if code]
    reasons = [code for code in failed if code != ErrorCode.operation_not_attempted]
    return next(iter(reasons or failed), 0)
