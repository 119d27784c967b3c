"""Stores dead letters in the cluster, with the gateway's principal, before their batch is sent.

The gateway sends them to the brokers, so no policy judges them. Letters are stored when all
replicas in sync have them. If they are not stored in time, the client retries its batch, and its
letters are written again with the same ids. The memory for waiting letters is bounded.

All connections share the requests: while a request to a broker is pending, letters for that broker
wait for the next request (`letter_queue`), in which those of a partition are one batch.

A dead letter topic that a user created may accept only smaller batches than those of letters: then
they are written in several batches. If it does not accept a letter at all, a retry fails, too: the
client gets a final error (`LettersRefused`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog
from kio.schema.errors import ErrorCode

from penstock.client.connections.connection import Connection
from penstock.client.errors import ClientError, ResponseError, describe, response_error
from penstock.client.protocol.produce import answer_of, read_response, write_request
from penstock.configuration import ConfigurationError
from penstock.error_codes import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from penstock.gateway.produce.dead_letters.letter_batches import halve_letters, join_letters
from penstock.gateway.produce.dead_letters.letter_queue import LetterQueue, WaitingLetters
from penstock.gateway.produce.dead_letters.letter_topics import (
    DeadLetterTopic,
    LetterTopics,
    leader_of,
)
from penstock.records.header import record_count
from penstock.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from penstock.client.protocol.produce import ProduceResult
    from penstock.gateway.produce.dead_letters.letter_queue import Buffer, Done, Place

log = structlog.get_logger()

DEADLINE_S: Final = 10.0
"""Dead letters not stored by then have failed: clients wait half a minute for a response."""
WAITING_MAX_BYTES: Final = 64 * 2**20
_SLOW_S: Final = 0.05
"""A request that takes longer holds nothing back: brokers wait for replicas, or are silent."""
_OF_TIME_LEFT: Final = 0.8
"""The share of a request's time in which brokers wait for replicas. Then they respond which
partitions must be retried, and that the others are stored."""
_LOG_EVERY_S: Final = 60.0
_ERROR: Final = "there was an error"
_TOO_LARGE: Final[Mapping[int, str]] = {
    MESSAGE_TOO_LARGE: "max.message.bytes",
    int(ErrorCode.record_list_too_large): "segment.bytes",
}
"""The config of the topic, by Kafka's error code."""
_REFUSED: Final = frozenset(
    {INVALID_RECORD, INVALID_TIMESTAMP, POLICY_VIOLATION, UNSUPPORTED_COMPRESSION_TYPE}
)
"""The errors for records that this topic never accepts, such as records without a key in a
compacted topic. Other errors may be repaired: those of the cluster, or of ACLs."""


class LettersRefused(str):
    """Why a dead letter topic does not take a letter, however often it is sent."""

    __slots__ = ()


class LetterRefusedError(ClientError):
    """The dead letter topic does not take a letter."""


class LettersTooLargeError(LetterRefusedError):
    """A batch of letters is larger than the dead letter topic allows."""


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
        self._queues: dict[int, LetterQueue] = {}
        self._failed = 0
        self._logged_at = -_LOG_EVERY_S
        self.waiting_bytes = 0
        self.stored = 0

    def store(self, to: DeadLetterTopic, letters: bytes, done: Done) -> None:
        """Store letters; `done` is called once, perhaps before this returns.

        Args:
            to: Where.
            letters: Batches, one behind the other.
            done: See `Done`.
        """
        if self.waiting_bytes and self.waiting_bytes + len(letters) > WAITING_MAX_BYTES:
            self._report(to, why := "too many dead letters wait")
            done(why)
            return
        self.waiting_bytes += len(letters)
        waiting = WaitingLetters(to, letters, done, self._clock() + DEADLINE_S)
        waiting.timer = asyncio.get_running_loop().call_later(DEADLINE_S, self._give_up, waiting)
        self._begin(waiting)

    def _give_up(self, letters: WaitingLetters) -> None:
        """End letters that were not stored in time, wherever they wait."""
        self._end(letters, letters.why)

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
        partition, node = leads
        queue = self._queues.get(node)
        if queue is None:
            queue = self._queues[node] = LetterQueue()
        queue.append((to.name, partition), letters)
        self._send_more(node, queue)

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
                        place: group for place, group in taken.items() if self._leads(node, place)
                    }
                    failures = await self._exchange(node, sent, f"dead letters {channel}")
                finally:
                    slow.cancel()
                    queue.release(taken)
                for place, group in taken.items():
                    failure = failures.get(place)
                    if len(group) > 1 and isinstance(failure, LetterRefusedError):
                        queue.separate(place, group)
                        continue
                    for letters in group:
                        if place in sent:
                            self._go_on(letters, failure)
                        else:
                            self._begin(letters)
        finally:
            queue.end(channel)
        self._send_more(node, queue)

    def _leader(self, to: DeadLetterTopic) -> tuple[int, int] | None:
        """Return what `leader_of` does; None also where the leaders have to be looked up."""
        leaders = self._connected().known_leaders(to.name)
        return None if leaders is None else leader_of(to, leaders)

    def _leads(self, node: int, place: Place) -> bool:
        """Return whether a broker leads a partition, as far as is known by now."""
        leaders = self._connected().known_leaders(place[0])
        return leaders is not None and place[1] in leaders and leaders[place[1]].node == node

    def _on_slow(self, node: int, queue: LetterQueue, channel: int) -> None:
        queue.be_slow(channel)
        self._send_more(node, queue)

    async def _exchange(
        self, node: int, taken: Mapping[Place, Sequence[WaitingLetters]], channel: str
    ) -> Mapping[Place, Exception | None]:
        """Send the first batches of letters of some partitions; return why they are not stored."""
        if not taken:
            return {}
        # The others have less time left, and are given up before.
        deadline = max(letters.deadline for group in taken.values() for letters in group)
        try:
            async with asyncio.timeout(deadline - self._clock()):
                batches = await _joined(taken)
                left = deadline - self._clock()
                request = write_request(None, left * _OF_TIME_LEFT, batches)
                response = await self._connected().exchange(node, request, channel=channel)
            answers = read_response(response)
            return {place: self._failure(place, group, answers) for place, group in taken.items()}
        except Exception as error:
            if self._connection is not None:
                for topic, _ in taken:
                    self._connection.refresh(topic)
            return dict.fromkeys(taken, error)

    def _failure(
        self,
        place: Place,
        group: Sequence[WaitingLetters],
        answers: Mapping[Place, ProduceResult],
    ) -> Exception | None:
        """Return the broker's error for a batch, or None."""
        try:
            answer = answer_of(answers, place)
        except WireError as error:
            return error
        subject = f"topic {place[0]}, partition {place[1]}"
        if answer.code in _TOO_LARGE:
            return LettersTooLargeError(
                f"{subject}: a dead letter of {len(group[0].batches[0])} bytes, with its headers, "
                f"is larger than its {_TOO_LARGE[answer.code]}: {describe(answer.code)}; raise it"
            )
        if answer.code in _REFUSED:
            return LetterRefusedError(
                f"{subject}: {describe(answer.code)}{_in_parentheses(answer.text)}"
            )
        if answer.code:
            self._connected().refresh(place[0])
            return response_error(answer.code, f"{subject}{_in_parentheses(answer.text)}")
        self.stored += len(group)
        return None

    def _go_on(self, letters: WaitingLetters, failure: Exception | None) -> None:
        """Continue with letters whose first batch is stored, or not."""
        if letters.is_over:
            return
        if failure is None:
            if letters.is_stored():
                self._end(letters, None)
            else:
                self._begin(letters)
        elif isinstance(failure, TimeoutError):
            self._end(letters, letters.why)
        elif isinstance(failure, ResponseError) and failure.code == REQUEST_TIMED_OUT:
            # The leader has them, and would have them again with each attempt.
            self._end(letters, str(failure))
        elif isinstance(failure, LettersTooLargeError) and record_count(letters.batches[0]) > 1:
            self._run(self._halve(letters))
        elif isinstance(failure, LetterRefusedError):
            self._end(letters, LettersRefused(failure))
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
        if not getattr(error, "retriable", False):
            return letters.why, 0.0
        return None, letters.pause_s()

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
        if letters.timer is not None:
            letters.timer.cancel()
        self.waiting_bytes -= letters.size
        if failure is not None:
            self._report(letters.to, failure)
        try:
            letters.done(failure)
        except Exception as error:
            # The others of the same request are still notified.
            _unexpected(error)

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


def _unexpected(error: Exception) -> str:
    """Return why letters have failed that met an error which no broker is to blame for."""
    if isinstance(error, ConfigurationError):
        return str(error)
    log.error("an error of the gateway", action="store dead letters", exc_info=error)
    return _ERROR


async def _joined(
    taken: Mapping[Place, Sequence[WaitingLetters]],
) -> Mapping[Place, Sequence[Buffer]]:
    """Return a batch for each partition, with the first batches of its letters."""
    batches = {place: [letters.batches[0] for letters in group] for place, group in taken.items()}
    if all(len(some) == 1 for some in batches.values()):
        return batches
    return await asyncio.to_thread(
        lambda: {place: [join_letters(some)] for place, some in batches.items()}
    )


def _in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""
