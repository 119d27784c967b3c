"""Stores dead letters in the cluster, with the gateway's principal, before their batch is sent.

The gateway sends them to the brokers, so no policy judges them. Letters are stored when all
replicas in sync have them. The memory for waiting letters is bounded.

All connections share the requests: while a request to a broker is pending, letters for that broker
wait for the next request (`letter_queue`), in which those of a partition are one batch.

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

import structlog
from cachetools import TTLCache

from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import NO_NODE
from penstock.client.errors import ClientError, ResponseError, describe
from penstock.client.protocol.produce import answer_of, read_response, write_request
from penstock.configuration import ConfigurationError
from penstock.error_codes import INVALID_RECORD, REQUEST_TIMED_OUT
from penstock.gateway.produce.dead_letters.double_letters import DoubleLetters
from penstock.gateway.produce.dead_letters.late_letters import LateLetters
from penstock.gateway.produce.dead_letters.letter_batches import halve_letters, join_letters
from penstock.gateway.produce.dead_letters.letter_failures import (
    LetterRefusedError,
    LettersRefused,
    LettersTooLargeError,
    breaks_request,
    failure_of,
    has_other_sequence,
    leaves_open,
)
from penstock.gateway.produce.dead_letters.letter_numbers import LetterProducers
from penstock.gateway.produce.dead_letters.letter_queue import LetterQueue
from penstock.gateway.produce.dead_letters.letter_topics import (
    DeadLetterTopic,
    LetterTopics,
    leader_of,
)
from penstock.gateway.produce.dead_letters.partition_letters import (
    PartitionLetters,
    Waiter,
    WaitingLetters,
)
from penstock.records.header import record_count
from penstock.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
    from pathlib import Path

    from penstock.client.protocol.produce import ProduceResult
    from penstock.client.protocol.raw_requests import RawRequest, RawResponse
    from penstock.gateway.produce.dead_letters.letter_numbers import LetterNumbers
    from penstock.gateway.produce.dead_letters.letter_queue import Place
    from penstock.gateway.produce.dead_letters.partition_letters import Done, LetterBatch

log = structlog.get_logger()

DEADLINE_S: Final = 10.0
"""Dead letters not stored by then have failed: clients wait half a minute for a response."""
RETRIED_S: Final = 600.0
"""How long a retry of a client finds its letters: as `producer_state` holds batches for retries."""
WAITING_MAX_BYTES: Final = 64 * 2**20
_FOUND_LATER_MAX: Final = 10_000
_SLOW_S: Final = 0.05
"""A request that takes longer holds nothing back: brokers wait for replicas, or are silent."""
_OF_TIME_LEFT: Final = 0.8
"""The share of a request's time in which brokers wait for replicas. Then they respond which
partitions must be retried, and that the others are stored."""
_LOG_EVERY_S: Final = 60.0
_ERROR: Final = "there was an error"
_TOO_MANY: Final = "too many dead letters wait"


class DeadLetterWriter:
    """Writes dead letters.

    Attributes:
        waiting_bytes: The bytes of letters that are not stored yet.
        stored: How many batches of letters were stored.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        file: Path,
        run: Callable[[Coroutine[object, object, None]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is contacted.

        Args:
            properties: The keys after `upstream.`, as for a Java client.
            file: The configuration file; relative locations start at its folder.
            run: Runs a coroutine beside everything else.
            clock: Returns the time in seconds.
        """
        self._properties = properties
        self._file = file
        self._run = run
        self._clock = clock
        self._connection: Connection | None = None
        self._topics = LetterTopics(properties, file)
        self._producers = LetterProducers(clock)
        self._partitions: dict[Place, PartitionLetters] = {}
        self._queues: dict[int, LetterQueue] = {}
        self._unstored: dict[Hashable, WaitingLetters] = {}
        self._stored_late: TTLCache[Hashable, None] = TTLCache(
            _FOUND_LATER_MAX, RETRIED_S, timer=clock
        )
        self._late = LateLetters()
        self._doubles = DoubleLetters(clock)
        self._failed = 0
        self._logged_at = -_LOG_EVERY_S
        self.waiting_bytes = 0
        self.stored = 0

    def store(self, to: DeadLetterTopic, letters: bytes, done: Done, key: Hashable = None) -> None:
        """Store letters; `done` is called once, perhaps before this returns.

        Args:
            to: Where.
            letters: Batches, one behind the other.
            done: See `Done`.
            key: Equal for the letters of a batch that its client sends again; None if that cannot
                be recognized.
        """
        # Another number of replicas does not make another topic.
        key = None if key is None else (to._replace(replicas=0), key)
        if key in self._stored_late:
            done(None)
            return
        waiting = self._unstored.get(key)
        if waiting is None:
            others = self.waiting_bytes - self._late.size
            if others and others + len(letters) > WAITING_MAX_BYTES:
                self._report(to, _TOO_MANY)
                done(_TOO_MANY)
                return
            waiting = WaitingLetters(to, letters, self._clock() + DEADLINE_S, key)
            self.waiting_bytes += waiting.size
            if key is not None:
                self._unstored[key] = waiting
            self._wait(waiting, done)
            self._begin(waiting)
        else:
            waiting.deadline = max(waiting.deadline, self._clock() + DEADLINE_S)
            self._wait(waiting, done)

    def _wait(self, letters: WaitingLetters, done: Done) -> None:
        waiter = Waiter(done)
        loop = asyncio.get_running_loop()
        waiter.timer = loop.call_later(DEADLINE_S, self._give_up, letters, waiter)
        letters.waiters.append(waiter)

    def _give_up(self, letters: WaitingLetters, waiter: Waiter) -> None:
        """Let a request wait no longer for letters, wherever they are."""
        is_last = letters.waiters == [waiter]
        if is_last and not letters.outlive_waiters:
            self._end(letters, letters.why)
            return
        letters.waiters.remove(waiter)
        self._report(letters.to, letters.why)
        _notify(waiter, letters.why)
        if letters.outlive_waiters:
            self._late.add(letters)
        for oldest in self._late.surplus():
            self._doubles.warn(_TOO_MANY)
            self._end(oldest, _TOO_MANY)

    def _begin(self, letters: WaitingLetters) -> None:
        """Send the first batch of letters, once its leader is known."""
        if letters.is_over:
            return
        try:
            to = letters.to
            leads = self._leader(to)
            if leads is None:
                self._run(self._begin_later(letters))
                return
        except Exception as error:
            self._end(letters, _unexpected(error))
            return
        place = to.name, leads[0]
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
                self._end(letters, failure)
            elif not pause_s:
                break
        self._begin(letters)

    async def _look_up(self, letters: WaitingLetters) -> tuple[str | None, float]:
        """Look up where letters go; return why they have failed, and how long to wait with more."""
        try:
            to = letters.to
            if self._leader(to) is None:
                async with asyncio.timeout(letters.deadline - self._clock()):
                    await self._topics.leaders(self._connected(), to)
        except TimeoutError:
            return letters.why, 0.0
        except (ClientError, WireError) as error:
            return self._after_error(letters, error)
        except Exception as error:
            return _unexpected(error), 0.0
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
                self._abandon(place, partition, _unexpected(error))
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
            self._end(letters, why)
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
            while queue.goes_on(channel) and (taken := queue.take()):
                slow = loop.call_later(_SLOW_S, self._on_slow, node, queue, channel)
                try:
                    sent = {
                        place: batch for place, batch in taken.items() if self._node(place) == node
                    }
                    failures = await self._exchange(node, sent, f"dead letters {channel}")
                finally:
                    slow.cancel()
                for place, batch in taken.items():
                    partition = self._partitions[place]
                    if place in sent:
                        self._settle(place, partition, batch, failures[place])
                    else:
                        partition.is_busy = False
                        if not batch.is_numbered:
                            partition.undo()
                    self._offer(place, partition)
        finally:
            queue.end(channel)
        self._send_more(node, queue)

    def _leader(self, to: DeadLetterTopic) -> tuple[int, int] | None:
        """Return what `leader_of` does; None also where the leaders have to be looked up."""
        leaders = self._connected().known_leaders(to.name)
        return None if leaders is None else leader_of(to, leaders)

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
        self, node: int, taken: Mapping[Place, LetterBatch], channel: str
    ) -> Mapping[Place, Exception | None]:
        """Send batches to the leader of their partitions; return why they are not stored."""
        if not taken:
            return {}
        now = self._clock()
        # The others have less time left, and are given up before.
        deadline = min(max(batch.deadline for batch in taken.values()), now + DEADLINE_S)
        try:
            async with asyncio.timeout(deadline - now):
                await self._begin_numbers(taken)
                # Meanwhile, some may have been given up.
                live = {place: batch for place, batch in taken.items() if not batch.is_over}
                failures: dict[Place, Exception | None]
                failures = {place: TimeoutError() for place in taken if place not in live}
                if not live:
                    return failures
                self._begin_batches(live)
                await _join(live.values())
                self._number(live)
                left = deadline - self._clock()
                batches = {place: batch.parts for place, batch in live.items()}
                request = write_request(None, left * _OF_TIME_LEFT, batches)
                for batch in live.values():
                    batch.is_sent = True
                response = await self._connected().exchange(node, request, channel=channel)
            answers = read_response(response)
            return failures | {
                place: self._failure(place, batch, answers) for place, batch in live.items()
            }
        except Exception as error:
            if self._connection is not None:
                for topic, _ in taken:
                    self._connection.refresh(topic)
            return dict.fromkeys(taken, error)

    async def _begin_numbers(self, taken: Mapping[Place, LetterBatch]) -> None:
        """Begin the numbers of partitions that have none, unless the cluster refuses them."""
        new = [numbers for place in taken if not (numbers := self._numbers(place)).have_begun]
        producer = await self._producers.get(self._exchange_with_any) if new else None
        if producer is not None:
            for numbers in new:
                numbers.begin(producer)

    def _begin_batches(self, taken: Mapping[Place, LetterBatch]) -> None:
        """Leave out letters that are over; a broker may have the others from now on."""
        until = self._clock() + RETRIED_S
        for place, batch in taken.items():
            batch.leave_out()
            if self._numbers(place).have_begun:
                batch.begin(until)

    def _number(self, taken: Mapping[Place, LetterBatch]) -> None:
        """Give batches the next numbers of their partitions, unless they have numbers."""
        for place, batch in taken.items():
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
                self._end(letters, None)
            else:
                self._begin(letters)
        elif isinstance(failure, LettersTooLargeError) and record_count(letters.batches[0]) > 1:
            self._run(self._halve(letters))
        elif isinstance(failure, LetterRefusedError):
            self._end(letters, LettersRefused(failure))
        elif isinstance(failure, TimeoutError):
            if is_sent or self._clock() >= letters.deadline:
                self._end(letters, letters.why)
            else:
                self._run(self._begin_later(letters, letters.pause_s()))
        elif isinstance(failure, (ClientError, WireError)):
            why, pause_s = self._after_error(letters, failure)
            if why is not None:
                self._end(letters, why)
            else:
                self._run(self._begin_later(letters, pause_s))
        else:
            self._end(letters, _unexpected(failure))

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
            self._end(letters, _unexpected(error))
            return
        self._begin(letters)

    def _end(self, letters: WaitingLetters, failure: str | None) -> None:
        if letters.is_over:
            return
        letters.is_over = True
        self.waiting_bytes -= letters.size
        self._late.discard(letters)
        if letters.partition is not None:
            letters.partition.remove(letters)
        if letters.key is not None:
            del self._unstored[letters.key]
            if failure is None and not letters.waiters:
                self._stored_late[letters.key] = None
        if failure is not None:
            self._report(letters.to, failure)
            if letters.is_partly_stored and not isinstance(failure, LettersRefused):
                self._doubles.warn(failure)
        waiters, letters.waiters = letters.waiters, []
        for waiter in waiters:
            if waiter.timer is not None:
                waiter.timer.cancel()
            _notify(waiter, failure)

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._properties, self._file)
        return self._connection

    def _report(self, to: DeadLetterTopic, why: str) -> None:
        """Log that letters could not be stored, once a minute."""
        self._failed += 1
        now = self._clock()
        if now - self._logged_at >= _LOG_EVERY_S:
            is_final = isinstance(why, LettersRefused)
            log.error(
                "dead letters cannot be stored",
                topic=to.source,
                dead_letter_topic=to.name,
                reason=why,
                answer=describe(INVALID_RECORD if is_final else REQUEST_TIMED_OUT),
                times=self._failed,
            )
            self._logged_at, self._failed = now, 0

    async def close(self) -> None:
        """Close the connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close_here()
            await asyncio.to_thread(connection.close)


def _notify(waiter: Waiter, failure: str | None) -> None:
    try:
        waiter.done(failure)
    except Exception as error:
        # The others of the same request are still notified.
        _unexpected(error)


def _unexpected(error: Exception) -> str:
    """Return why letters have failed that met an error which no broker is to blame for."""
    if isinstance(error, ConfigurationError):
        return str(error)
    log.error("an error of the gateway", action="store dead letters", exc_info=error)
    return _ERROR


async def _join(taken: Iterable[LetterBatch]) -> None:
    """Write the batches, with the first batches of their letters."""
    unwritten = [batch for batch in taken if batch.data is None]
    for batch in unwritten:
        if len(batch.letters) == 1:
            batch.data = batch.letters[0].batches[0]
        else:
            batches = [letters.batches[0] for letters in batch.letters]
            batch.data = await asyncio.to_thread(join_letters, batches)
        batch.parts = [batch.data]
