"""The producer id of dead letters, and their sequence numbers in a partition (KIP-98).

Brokers recognize by them a batch that they already have. If a partition needs new numbers, its
epoch becomes larger, as in KIP-360. Without transactions, partitions may have different epochs.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

import structlog
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse

from penstock.kafka.client.errors import ClientError, LoginError
from penstock.kafka.client.protocol.producer_id import PRODUCER_ID_REQUEST, producer_of
from penstock.kafka.client.protocol.raw_requests import raw_request, read_entity
from penstock.kafka.records.header import record_count, with_sequence
from penstock.kafka.records.sequences import add
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.kafka.client.protocol.raw_requests import RawRequest, RawResponse

    Buffer = bytes | memoryview
    Exchange = Callable[[RawRequest], Awaitable[RawResponse]]
    """Sends a request to a broker, and returns the response."""

log = structlog.get_logger()

_AGAIN_AFTER_S: Final = 60.0
_LAST_EPOCH: Final = 2**15 - 1


class LetterNumbers:
    """The sequence numbers of a partition.

    A broker takes another batch with the same numbers for the same batch. So numbers are only used
    for another batch if the broker has responded that it does not have the first.
    """

    __slots__ = ("_next", "_producer")

    def __init__(self) -> None:
        self._producer: ProducerIdAndEpoch | None = None
        self._next = 0

    @property
    def have_begun(self) -> bool:
        """Whether there is a producer."""
        return self._producer is not None

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Number batches for a producer."""
        self._producer, self._next = producer, 0

    def number(self, batch: Buffer) -> Sequence[Buffer]:
        """Return a batch with the next numbers."""
        assert self._producer is not None
        return with_sequence(batch, *self._producer, self._next)

    def is_stored(self, parts: Sequence[Buffer]) -> None:
        """Record that the broker has the batch with the next numbers."""
        self._next = add(self._next, record_count(parts[0]))

    def renew(self) -> bool:
        """Number the next batch in a new epoch; return False if that needs a new producer id."""
        if self._producer is None:
            return True
        producer_id, epoch = self._producer
        self._next = 0
        if epoch == _LAST_EPOCH:
            self._producer = None
            return False
        self._producer = ProducerIdAndEpoch(producer_id, epoch + 1)
        return True


class LetterProducers:
    """Requests producer ids. If the cluster refuses them, letters have no numbers for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._requesting: asyncio.Future[None] | None = None
        self._producer: ProducerIdAndEpoch | None = None
        self._refused_until = -math.inf
        self._has_warned = False

    async def get(self, exchange: Exchange) -> ProducerIdAndEpoch | None:
        """Return the producer, or None if the cluster refuses one.

        All that need one share a request.

        Args:
            exchange: To any broker.

        Raises:
            ClientError: There is no response now.
            WireError: The response cannot be read.
        """
        if self._producer is None and self._clock() >= self._refused_until:
            if self._requesting is None:
                self._requesting = asyncio.ensure_future(self._request(exchange))
                self._requesting.add_done_callback(self._end_request)
            # It continues for the others when a batch has waited for too long.
            await asyncio.shield(self._requesting)
        return self._producer

    def forget(self) -> None:
        """Request a new producer id for the next partition that needs it."""
        self._producer = None

    async def _request(self, exchange: Exchange) -> None:
        try:
            response = await exchange(raw_request(PRODUCER_ID_REQUEST))
            self._producer = producer_of(read_entity(response, InitProducerIdResponse))
            self._has_warned = False
        except ClientError as error:
            if error.retriable or isinstance(error, LoginError):
                raise
            self._on_refused(str(error))

    def _end_request(self, request: asyncio.Future[None]) -> None:
        self._requesting = None
        if not request.cancelled():
            request.exception()  # it may be that nothing waits for it any more

    def _on_refused(self, reason: str) -> None:
        self._refused_until = self._clock() + _AGAIN_AFTER_S
        if not self._has_warned:
            self._has_warned = True
            log.warning("dead letters may be stored twice", reason=reason)
