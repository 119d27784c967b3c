"""Stores dead letters in the cluster, with the gateway's principal, before their batch is sent.

The gateway sends them to the brokers, so no policy judges them. Letters are stored when all
replicas in sync have them. The memory for waiting letters is bounded.

All connections share the requests: while a request to a broker is pending, letters for that broker
wait for the next request (`outgoing`), in which those of a partition are one batch.

The gateway is an idempotent producer. While it is not known whether a broker has a batch, it is
sent again with the same numbers (`partition_letters`), also after its client has got an error. If
the client then retries its own batch, the same letters are waited for. If the cluster refuses a
producer id, letters may be stored twice, with the same ids. A batch that breaks its requests is
given up if other letters wait behind it.

A dead letter topic that a user created may accept only smaller batches than those of letters: then
they are written in several batches. If it does not accept a letter at all, a retry fails, too: the
client gets a final error (`LettersRefused`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.dead_letters.batches import halve_letters
from penstock.gateway.produce.dead_letters.double_letters import DoubleLetters
from penstock.gateway.produce.dead_letters.failures import (
    LetterRefusedError,
    LettersRefused,
    LettersTooLargeError,
    breaks_request,
    has_other_sequence,
    leaves_open,
    unexpected_failure,
)
from penstock.gateway.produce.dead_letters.numbers import LetterProducers
from penstock.gateway.produce.dead_letters.outgoing import LetterQueue
from penstock.gateway.produce.dead_letters.partition_letters import (
    PartitionLetters,
    WaitingLetters,
)
from penstock.gateway.produce.dead_letters.pending_letters import PendingLetters
from penstock.gateway.produce.dead_letters.requests import LetterRequests
from penstock.gateway.produce.dead_letters.topics import LetterTopics, leader_of
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.connections.metadata import NO_NODE
from penstock.kafka.client.errors import ClientError, ResponseError
from penstock.kafka.error_codes import REQUEST_TIMED_OUT
from penstock.kafka.records.header import record_count
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Mapping
    from pathlib import Path

    from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
    from penstock.gateway.produce.dead_letters.names import LetterNames
    from penstock.gateway.produce.dead_letters.outgoing import Place
    from penstock.gateway.produce.dead_letters.partition_letters import Done, LetterBatch

_SLOW_S: Final = 0.05
"""A request that takes longer holds nothing back: brokers wait for replicas, or are silent."""


class DeadLetterWriter:
    """Writes dead letters.

    Attributes:
        stored: How many batches of letters were stored.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        file: Path,
        run: Callable[[Coroutine[object, object, None]], object],
        names: LetterNames,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            file: The configuration file; relative locations start at its folder.
            run: Runs a coroutine beside everything else.
            names: Checks where letters may go.
            clock: Returns the time in seconds.
        """
        self._properties = properties
        self._file = file
        self._run = run
        self._clock = clock
        self._connection: Connection | None = None
        self._names = names
        self._topics = LetterTopics(names)
        self._producers = LetterProducers(clock)
        self._partitions: dict[Place, PartitionLetters] = {}
        self._queues: dict[int, LetterQueue] = {}
        self._requests = LetterRequests(self._connected, self._producers, self._partitions, clock)
        self._doubles = DoubleLetters(clock)
        self._pending = PendingLetters(self._doubles, clock)
        self.stored = 0

    @property
    def waiting_bytes(self) -> int:
        """The bytes of letters that are not stored yet."""
        return self._pending.size

    def refusal(self, target: DeadLetterTopic) -> str:
        """Return why letters are refused, as far as it is known; empty if they are not."""
        return self._names.refusal(target)

    def store(
        self, target: DeadLetterTopic, letters: bytes, callback: Done, key: Hashable = None
    ) -> None:
        """Store letters; `callback` is called once, perhaps before this returns.

        Args:
            target: Where.
            letters: Batches, one behind the other.
            callback: See `Done`.
            key: Equal for the letters of a batch that its client sends again; None if that cannot
                be recognized.
        """
        new = self._pending.add(target, letters, callback, key)
        if new is not None:
            self._begin(new)

    def _begin(self, letters: WaitingLetters) -> None:
        """Send the first batch of letters, once its leader is known."""
        if letters.is_over:
            return
        try:
            target = letters.to
            leads = self._leader(target)
            if leads is None:
                self._run(self._begin_later(letters))
                return
            self._names.check(target)
        except ClientError as error:
            self._pending.end(letters, _text_of(error))
            return
        except Exception as error:
            self._pending.end(letters, unexpected_failure(error))
            return
        place = target.name, leads[0]
        partition = self._partitions.get(place)
        if partition is None:
            partition = self._partitions[place] = PartitionLetters()
        partition.add(letters)
        self._offer(place, partition)

    async def _begin_later(self, letters: WaitingLetters, pause_s: float = 0.0) -> None:
        """Send letters after a pause, and when the leaders of their topic are known."""
        while not letters.is_over:
            if pause_s:
                await asyncio.sleep(pause_s)
            failure, pause_s = await self._look_up(letters)
            if failure is not None:
                self._pending.end(letters, failure)
            elif not pause_s:
                break
        self._begin(letters)

    async def _look_up(self, letters: WaitingLetters) -> tuple[str | None, float]:
        """Look up where letters go; return why they have failed, and how long to wait with more."""
        try:
            target = letters.to
            if self._leader(target) is None:
                async with asyncio.timeout(letters.deadline - self._clock()):
                    await self._topics.leaders(self._connected(), target)
        except TimeoutError:
            return letters.why, 0.0
        except LetterRefusedError as error:
            return LettersRefused(error), 0.0
        except (ClientError, WireError) as error:
            return self._after_error(letters, error)
        except Exception as error:
            return unexpected_failure(error), 0.0
        return None, 0.0

    def _offer(self, place: Place, partition: PartitionLetters) -> None:
        """Let the letters of a partition be sent, unless a batch of them is on its way."""
        if not partition.is_ready():
            return
        node = self._node(place)
        if node is not None:
            queue = self._queues.get(node)
            if queue is None:
                queue = self._queues[node] = LetterQueue()
            queue.add(place, partition)
            self._send_more(node, queue)
        elif partition.batch is not None:
            partition.is_busy = True
            self._run(self._send_again(place, partition, partition.batch))
        else:
            for letters in partition.withdraw():
                self._begin(letters)

    async def _send_again(
        self, place: Place, partition: PartitionLetters, batch: LetterBatch, pause_s: float = 0.0
    ) -> None:
        """Send a batch again after a pause, and when the leader is known."""
        while True:
            await asyncio.sleep(pause_s)
            if self._clock() >= batch.deadline or batch.is_over:
                self._abandon(place, partition, batch.letters[0].why)
                return
            try:
                if self._node(place) is None:
                    await self._topics.leaders(self._connected(), batch.letters[0].to)
                if self._has_lost(place):
                    self._renumber(partition, batch, "the topic has fewer partitions")
                    for letters in partition.withdraw():
                        self._begin(letters)
                    return
            except (ClientError, WireError) as error:
                batch.postpone(str(error))
            except Exception as error:
                self._abandon(place, partition, unexpected_failure(error))
                return
            if self._node(place) is not None:
                partition.is_busy = False
                self._offer(place, partition)
                return
            self._connected().refresh(place[0])
            pause_s = batch.pause_s()

    def _abandon(self, place: Place, partition: PartitionLetters, why: str) -> None:
        """Send a batch no more, though a broker may have it."""
        batch = partition.batch
        assert batch is not None
        self._renumber(partition, batch, why)
        partition.end()
        for letters in batch.letters:
            self._pending.end(letters, why)
        self._offer(place, partition)

    def _renumber(self, partition: PartitionLetters, batch: LetterBatch, why: str) -> None:
        """Have the batch, or those after it, sent with new numbers."""
        if batch.may_be_stored:
            self._doubles.warn(why)
        batch.lose_numbers()
        if not partition.numbers.renew():
            self._producers.forget()

    def _send_more(self, node: int, queue: LetterQueue) -> None:
        """Send the letters that wait for a broker, unless they go into a later request."""
        channel = queue.begin()
        if channel is not None:
            self._run(self._send(node, queue, channel))

    async def _send(self, node: int, queue: LetterQueue, channel: int) -> None:
        """Send requests as long as letters wait for a broker."""
        loop = asyncio.get_running_loop()
        try:
            while queue.goes_on(channel) and (batches := queue.take()):
                slow = loop.call_later(_SLOW_S, self._on_slow, node, queue, channel)
                try:
                    sent_batches = {
                        place: batch
                        for place, batch in batches.items()
                        if self._node(place) == node
                    }
                    failures = await self._exchange(node, sent_batches, f"dead letters {channel}")
                finally:
                    slow.cancel()
                for place, batch in batches.items():
                    partition = self._partitions[place]
                    if place in sent_batches:
                        self._settle(place, partition, batch, failures[place])
                    else:
                        partition.is_busy = False
                        if not batch.is_numbered:
                            partition.undo()
                    self._offer(place, partition)
        finally:
            queue.end(channel)
        self._send_more(node, queue)

    def _leader(self, target: DeadLetterTopic) -> tuple[int, int] | None:
        """Return what `leader_of` does; None also where the topic has to be looked up."""
        if self._names.is_outdated(target.name):
            return None
        leaders = self._connected().known_leaders(target.name)
        return None if leaders is None else leader_of(target, leaders)

    def _node(self, place: Place) -> int | None:
        """Return the leader of a partition; None if it has none, or has to be looked up."""
        leaders = self._connected().known_leaders(place[0])
        if leaders is None or place[1] not in leaders or leaders[place[1]].node == NO_NODE:
            return None
        return leaders[place[1]].node

    def _has_lost(self, place: Place) -> bool:
        """Return whether a topic has fewer partitions than before: it was created again."""
        leaders = self._connected().known_leaders(place[0])
        return bool(leaders and place[1] > max(leaders))

    def _on_slow(self, node: int, queue: LetterQueue, channel: int) -> None:
        queue.be_slow(channel)
        self._send_more(node, queue)

    async def _exchange(
        self, node: int, batches: Mapping[Place, LetterBatch], channel: str
    ) -> Mapping[Place, Exception | None]:
        """Send batches to the leader of their partitions; return why they are not stored."""
        try:
            return await self._requests.send(node, batches, channel)
        except Exception as error:
            if self._connection is not None:
                for topic, _ in batches:
                    self._connection.refresh(topic)
            return dict.fromkeys(batches, error)

    def _settle(
        self,
        place: Place,
        partition: PartitionLetters,
        batch: LetterBatch,
        failure: Exception | None,
    ) -> None:
        """Continue with a batch that is stored, or not, or nobody knows."""
        if failure is None:
            self.stored += len(batch.letters)
            if batch.is_numbered:
                partition.numbers.is_stored(batch.parts)
        elif batch.is_numbered and self._is_sent_again(partition, batch, failure):
            if partition.is_held_up:
                self._give_way(place, partition, batch, str(failure))
                return
            self._run(self._send_again(place, partition, batch, batch.pause_s()))
            return
        elif len(batch.letters) > 1 and isinstance(failure, LetterRefusedError):
            partition.separate()
            return
        partition.end()
        for letters in batch.letters:
            self._go_on(letters, failure, is_sent=batch.is_sent)

    def _is_sent_again(
        self, partition: PartitionLetters, batch: LetterBatch, failure: Exception
    ) -> bool:
        """Return whether a batch with numbers is sent again, because a broker may have it.

        If not, another batch gets its numbers only if no broker can have it.
        """
        if has_other_sequence(failure):
            self._renumber(partition, batch, str(failure))
        elif leaves_open(failure):
            batch.may_be_stored = True
            batch.breaks += breaks_request(failure)
        elif isinstance(failure, LetterRefusedError) or not batch.may_be_stored:
            if batch.may_be_stored or not isinstance(failure, ClientError):
                self._renumber(partition, batch, str(failure))
            return False
        if not isinstance(failure, TimeoutError):
            batch.postpone(str(failure))
        return True

    def _give_way(
        self, place: Place, partition: PartitionLetters, batch: LetterBatch, why: str
    ) -> None:
        """Let the letters behind a batch that breaks its requests be sent.

        If it has several letters, each is sent alone: any of them may be the cause.
        """
        if len(batch.letters) == 1:
            self._abandon(place, partition, why)
        else:
            self._renumber(partition, batch, why)
            partition.separate()

    def _go_on(self, letters: WaitingLetters, failure: Exception | None, *, is_sent: bool) -> None:
        """Continue with letters whose first batch is stored, or not."""
        if letters.is_over:
            return
        if failure is None:
            if letters.is_stored():
                self._pending.end(letters, None)
            else:
                self._begin(letters)
        elif isinstance(failure, LettersTooLargeError) and record_count(letters.batches[0]) > 1:
            self._run(self._halve(letters))
        elif isinstance(failure, LetterRefusedError):
            self._pending.end(letters, LettersRefused(failure))
        elif isinstance(failure, TimeoutError):
            if is_sent or self._clock() >= letters.deadline:
                self._pending.end(letters, letters.why)
            else:
                self._run(self._begin_later(letters, letters.pause_s()))
        elif isinstance(failure, (ClientError, WireError)):
            why, pause_s = self._after_error(letters, failure)
            if why is not None:
                self._pending.end(letters, why)
            else:
                self._run(self._begin_later(letters, pause_s))
        else:
            self._pending.end(letters, unexpected_failure(failure))

    def _after_error(
        self, letters: WaitingLetters, error: ClientError | WireError
    ) -> tuple[str | None, float]:
        """Return why letters have failed; or None, and how long to wait before another attempt."""
        letters.why = str(error)
        is_retried = getattr(error, "retriable", False) and self._clock() < letters.deadline
        if isinstance(error, ResponseError) and error.code == REQUEST_TIMED_OUT:
            # The leader has them, and would have them again with each attempt.
            is_retried = False
        return (None, letters.pause_s()) if is_retried else (letters.why, 0.0)

    async def _halve(self, letters: WaitingLetters) -> None:
        """Write a batch that is too large as two."""
        try:
            halves = await asyncio.to_thread(halve_letters, letters.batches.popleft())
            letters.batches.extendleft(reversed(halves))
        except Exception as error:
            self._pending.end(letters, unexpected_failure(error))
            return
        self._begin(letters)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._properties, self._file)
        return self._connection

    async def close(self) -> None:
        """Close the connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close_here()
            await asyncio.to_thread(connection.close)


def _text_of(error: ClientError) -> str:
    """Return why letters are not stored."""
    return LettersRefused(error) if isinstance(error, LetterRefusedError) else str(error)
