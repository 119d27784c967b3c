"""Requests with dead letters: batches get sequence numbers, and are sent to a broker together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.dead_letters import partition_letters
from penstock.gateway.produce.dead_letters.batches import join_letters
from penstock.gateway.produce.dead_letters.failures import LetterRefusedError, failure_of
from penstock.kafka.client.protocol.produce import answer_of, read_response, write_request
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.gateway.produce.dead_letters.numbers import LetterNumbers, LetterProducers
    from penstock.gateway.produce.dead_letters.outgoing import Place
    from penstock.gateway.produce.dead_letters.partition_letters import (
        LetterBatch,
        PartitionLetters,
    )
    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.protocol.produce import ProduceResult
    from penstock.kafka.client.protocol.raw_requests import RawRequest, RawResponse

_OF_TIME_LEFT: Final = 0.8
"""The share of a request's time in which brokers wait for replicas. Then they respond which
partitions must be retried, and that the others are stored."""


class LetterRequests:
    """Sends batches of dead letters to brokers."""

    def __init__(
        self,
        connected: Callable[[], Connection],
        producers: LetterProducers,
        partitions: Mapping[Place, PartitionLetters],
        clock: Callable[[], float],
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            connected: Returns the connection to the cluster.
            producers: The producer ids.
            partitions: The letters of each partition that batches are sent to.
            clock: Returns the time in seconds.
        """
        self._connected = connected
        self._producers = producers
        self._partitions = partitions
        self._clock = clock

    async def send(
        self, node: int, batches: Mapping[Place, LetterBatch], channel: str
    ) -> Mapping[Place, Exception | None]:
        """Send batches to the leader of their partitions.

        Args:
            node: The id of that broker.
            batches: The batches, by their partitions.
            channel: See `Connection.begin`.

        Returns:
            Why each is not stored; None if it is.

        Raises:
            Exception: There is no response that can be read, for any of them.
        """
        if not batches:
            return {}
        now = self._clock()
        # The others have less time left, and are given up before.
        latest = max(batch.deadline for batch in batches.values())
        deadline = min(latest, now + partition_letters.DEADLINE_S)
        async with asyncio.timeout(deadline - now):
            await self._begin_numbers(batches)
            # Meanwhile, some may have been given up.
            live = {place: batch for place, batch in batches.items() if not batch.is_over}
            failures: dict[Place, Exception | None]
            failures = {place: TimeoutError() for place in batches if place not in live}
            if not live:
                return failures
            self._begin_batches(live)
            await _join(live.values())
            self._number(live)
            remaining_s = deadline - self._clock()
            parts = {place: batch.parts for place, batch in live.items()}
            request = write_request(None, remaining_s * _OF_TIME_LEFT, parts)
            for batch in live.values():
                batch.is_sent = True
            response = await self._connected().exchange(node, request, channel=channel)
        answers = read_response(response)
        return failures | {
            place: self._failure(place, batch, answers) for place, batch in live.items()
        }

    async def _begin_numbers(self, batches: Mapping[Place, LetterBatch]) -> None:
        """Begin the numbers of partitions that have none, unless the cluster refuses them."""
        new = [numbers for place in batches if not (numbers := self._numbers(place)).have_begun]
        producer = await self._producers.get(self._exchange_with_any) if new else None
        if producer is not None:
            for numbers in new:
                numbers.begin(producer)

    def _begin_batches(self, batches: Mapping[Place, LetterBatch]) -> None:
        """Leave out letters that are over; a broker may have the others from now on."""
        deadline = self._clock() + partition_letters.RETRIED_S
        for place, batch in batches.items():
            batch.leave_out()
            if self._numbers(place).have_begun:
                batch.begin(deadline)

    def _number(self, batches: Mapping[Place, LetterBatch]) -> None:
        """Give batches the next numbers of their partitions, unless they have numbers."""
        for place, batch in batches.items():
            numbers = self._numbers(place)
            if not batch.is_numbered and numbers.have_begun:
                batch.be_numbered(numbers)

    def _numbers(self, place: Place) -> LetterNumbers:
        return self._partitions[place].numbers

    async def _exchange_with_any(self, request: RawRequest) -> RawResponse:
        return await asyncio.wrap_future(self._connected().begin_with_any(request))

    def _failure(
        self, place: Place, batch: LetterBatch, answers: Mapping[Place, ProduceResult]
    ) -> Exception | None:
        """Return the broker's error for a batch, or None."""
        try:
            failure = failure_of(place, len(batch.letters[0].batches[0]), answer_of(answers, place))
        except WireError as error:
            return error
        if failure is not None and not isinstance(failure, LetterRefusedError):
            self._connected().refresh(place[0])
        return failure


async def _join(batches: Iterable[LetterBatch]) -> None:
    """Write the batches, with the first batches of their letters."""
    unwritten = [batch for batch in batches if batch.data is None]
    for batch in unwritten:
        if len(batch.letters) == 1:
            batch.data = batch.letters[0].batches[0]
        else:
            first_batches = [letters.batches[0] for letters in batch.letters]
            batch.data = await asyncio.to_thread(join_letters, first_batches)
        batch.parts = [batch.data]
