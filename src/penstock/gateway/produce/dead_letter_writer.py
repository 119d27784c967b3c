"""Stores dead letters in the cluster, by the gateway's own principal, before their batch goes on.

Directly at the brokers, so that no policy judges them. Letters are stored when all replicas in sync
have them. What is not stored in time has failed: the client sends its batch again, and its letters
are written again under the same ids. How much waits is bounded.

A dead letter topic that somebody created may take smaller batches than letters come in: then they
are written in several. A letter that it does not take at all is no better with a retry: the client
gets a final error (`LettersRefused`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode

from penstock.client.connections.connection import LEADER_NOT_AVAILABLE, Connection
from penstock.client.connections.metadata import NO_NODE
from penstock.client.errors import BrokerUnreachableError, ClientError, describe, response_error
from penstock.client.protocol.produce import answer_of, read_response, write_request
from penstock.cluster.created_topics import create
from penstock.cluster.librdkafka import admin_client, client_settings
from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import DEAD_LETTER_REPLICAS
from penstock.engine.modes.quarantine import LETTERS_BYTES
from penstock.error_codes import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from penstock.records.header import PREFIX_BYTES, record_count
from penstock.records.stored_batch import read_stored_batch
from penstock.wire.errors import UNKNOWN_TOPIC_OR_PARTITION, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from pathlib import Path

    from penstock.client.connections.metadata import Leader, TopicLeaders

    Buffer = bytes | memoryview

    Done = Callable[[str | None], None]
    """Called with None when letters are stored, or with an error message: with `LettersRefused`
    where a retry would not help."""

log = structlog.get_logger()

DEADLINE_S: Final = 10.0
"""What is not stored by then has failed: clients wait half a minute for a response."""
WAITING_MAX_BYTES: Final = 64 * 2**20
CHANNELS: Final = 4
"""A broker handles one request of a connection at a time."""
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
_CREATE_TIMEOUT_S: Final = 10.0
_LOG_EVERY_S: Final = 60.0
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_HEADERS_BYTES: Final = 64 * 1024
"""More than the headers of a letter take."""
_TOO_LARGE: Final[Mapping[int, str]] = {
    MESSAGE_TOO_LARGE: "max.message.bytes",
    int(ErrorCode.record_list_too_large): "segment.bytes",
}
"""The config of the topic, by Kafka's error code."""
_REFUSED: Final = frozenset(
    {INVALID_RECORD, INVALID_TIMESTAMP, POLICY_VIOLATION, UNSUPPORTED_COMPRESSION_TYPE}
)
"""What brokers respond to records that this topic never takes, such as without a key where it is
compacted. Other errors are those of the cluster, or of rights, and somebody may repair them."""


class LettersRefused(str):
    """Why a dead letter topic does not take a letter, however often it is sent."""

    __slots__ = ()


class LetterRefusedError(ClientError):
    """The dead letter topic does not take a letter."""


class LettersTooLargeError(LetterRefusedError):
    """A batch of letters is larger than the dead letter topic allows."""


class DeadLetterTopic(NamedTuple):
    """Where the dead letters of a partition go.

    Attributes:
        name: The dead letter topic.
        source: The topic that its records were for.
        partition: The partition of that topic. Letters go to the same one, modulo their topic's
            number of partitions.
        replicas: The replication factor of the dead letter topic, if it is created.
    """

    name: str
    source: str
    partition: int
    replicas: int


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
        self._creating = asyncio.Lock()
        self._looking: dict[str, asyncio.Future[Mapping[int, Leader]]] = {}
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
        self._run(self._store(to, letters, done))

    async def _store(self, to: DeadLetterTopic, letters: bytes, done: Done) -> None:
        failure: str | None = "there was an error"
        try:
            failure = await self._attempts(to, letters)
        except Exception:
            log.exception("an error of the gateway", action="store dead letters")
        finally:
            self.waiting_bytes -= len(letters)
        if failure is not None:
            self._report(to, failure)
        done(failure)

    async def _attempts(self, to: DeadLetterTopic, letters: bytes) -> str | None:
        """Store letters; return why they could not be stored in time."""
        deadline = self._clock() + DEADLINE_S
        waiting: deque[Buffer] = deque(_batches(letters))
        try:
            while waiting:
                try:
                    failure = await self._attempt(to, waiting[0], deadline)
                except LettersTooLargeError as error:
                    if record_count(waiting[0]) < 2:
                        return LettersRefused(error)
                    first, second = await asyncio.to_thread(_halves, waiting.popleft())
                    waiting.extendleft((second, first))
                    continue
                if failure is not None:
                    return failure
                waiting.popleft()
        except LetterRefusedError as error:
            return LettersRefused(error)
        except ConfigurationError as error:
            return str(error)
        return None

    async def _attempt(self, to: DeadLetterTopic, batch: Buffer, deadline: float) -> str | None:
        """Store a batch of letters; return why it could not be stored in time.

        Raises:
            LettersTooLargeError: It is too large.
            LetterRefusedError: The topic does not take a letter.
        """
        why, pause = "it took too long", _PAUSE_S
        while True:
            left = deadline - self._clock()
            if left <= 0:
                return why
            try:
                async with asyncio.timeout(left):
                    await self._write(to, batch)
                return None
            except TimeoutError:
                self._connected().refresh(to.name)
                return why
            except LetterRefusedError:
                raise
            except (ClientError, WireError) as error:
                why = str(error)
                if not getattr(error, "retriable", False):
                    return why
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX_S)

    async def _write(self, to: DeadLetterTopic, batch: Buffer) -> None:
        """Store one batch.

        Raises:
            LettersTooLargeError: It is too large.
            LetterRefusedError: The topic does not take a letter.
            ClientError: It is not stored; `retriable` says whether to try again.
        """
        connection = self._connected()
        leaders = connection.known_leaders(to.name)
        if leaders is None:
            leaders = await self._looked_up(connection, to)
        partition = to.partition % len(leaders)
        leader = leaders[partition]
        subject = f"topic {to.name}, partition {partition}"
        place = (to.name, partition)
        request = write_request(None, DEADLINE_S, {place: [batch]})
        channel = f"dead letters {partition % CHANNELS}"
        try:
            response = await connection.exchange(leader.node, request, channel=channel)
            answer = answer_of(read_response(response), place)
        except ClientError:
            connection.refresh(to.name)
            raise
        if answer.code in _TOO_LARGE:
            raise LettersTooLargeError(
                f"{subject}: a dead letter of {len(batch)} bytes, with its headers, is larger than "
                f"its {_TOO_LARGE[answer.code]}: {describe(answer.code)}; raise it"
            )
        if answer.code in _REFUSED:
            raise LetterRefusedError(f"{subject}: {describe(answer.code)}{_said(answer.text)}")
        if answer.code:
            connection.refresh(to.name)
            raise response_error(answer.code, f"{subject}{_said(answer.text)}")
        self.stored += 1

    async def _looked_up(self, connection: Connection, to: DeadLetterTopic) -> Mapping[int, Leader]:
        """Return what `_look_up` returns; all letters that wait for a topic share a look-up."""
        looking = self._looking.get(to.name)
        if looking is None:
            looking = asyncio.ensure_future(self._look_up(connection, to))
            self._looking[to.name] = looking
            looking.add_done_callback(lambda done: self._end_look_up(to.name, done))
        # It goes on for the others when one letter has waited for too long.
        return await asyncio.shield(looking)

    def _end_look_up(self, topic: str, done: asyncio.Future[Mapping[int, Leader]]) -> None:
        del self._looking[topic]
        if not done.cancelled():
            done.exception()  # nobody may wait for it any more

    async def _look_up(self, connection: Connection, to: DeadLetterTopic) -> Mapping[int, Leader]:
        """Return the leaders of a dead letter topic, which is created where it is not there."""
        found = await _described(connection, to.name)
        if found.code == UNKNOWN_TOPIC_OR_PARTITION:
            async with self._creating:
                found = await _described(connection, to.name)
                if found.code == UNKNOWN_TOPIC_OR_PARTITION:
                    source = await _described(connection, to.source)
                    partitions = max(1, len(source.leaders)) if not source.code else 1
                    await asyncio.to_thread(self._create, to, partitions)
                    found = await _described(connection, to.name)
        if found.code or not found.leaders:
            raise response_error(found.code or UNKNOWN_TOPIC_OR_PARTITION, f"topic {to.name}")
        leaders = found.leaders
        if sorted(leaders) != list(range(len(leaders))) or any(
            leader.node == NO_NODE for leader in leaders.values()
        ):
            connection.refresh(to.name)
            raise response_error(LEADER_NOT_AVAILABLE, f"topic {to.name}")
        return leaders

    def _create(self, to: DeadLetterTopic, partitions: int) -> None:
        """Create a dead letter topic. Blocks."""
        try:
            admin = admin_client(client_settings(self._properties, self._file.parent))
            new = NewTopic(to.name, partitions, to.replicas, config=_limit(admin, to.source))
            create(admin, new, _CREATE_TIMEOUT_S)
        except KafkaException as error:
            reason = error.args[0]
            advice = (
                f"; {DEAD_LETTER_REPLICAS} is {to.replicas}: the cluster may have fewer brokers"
                if reason.code() == KafkaError.INVALID_REPLICATION_FACTOR
                else ""
            )
            text = f"the dead letter topic {to.name} cannot be created: {reason.str()}{advice}"
            if reason.retriable():
                raise BrokerUnreachableError(text) from None
            raise ClientError(text) from None
        log.info("a dead letter topic is created", topic=to.name, partitions=partitions,
                 replicas=to.replicas)  # fmt: skip

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


def _limit(admin: AdminClient, source: str) -> dict[str, str]:
    """Return the configs of a dead letter topic: its letters are larger than records were."""
    resource = ConfigResource(ResourceType.TOPIC, source)
    try:
        described = admin.describe_configs([resource], request_timeout=_CREATE_TIMEOUT_S)
        value = described[resource].result(_CREATE_TIMEOUT_S + 1)[_MAX_MESSAGE_BYTES].value
        # Many letters come in one batch, whatever the largest batch of the source may be.
        limit = max(int(value), LETTERS_BYTES) + _HEADERS_BYTES
        return {_MAX_MESSAGE_BYTES: str(min(limit, 2**31 - 1))}
    except (KafkaException, KeyError, TypeError, ValueError):
        return {}  # not allowed to know it: brokers have a default


async def _described(connection: Connection, topic: str) -> TopicLeaders:
    # In no thread of the event loop's pool: it has a few, which read the state of producers, too.
    found = (await asyncio.wrap_future(connection.begin_describe([topic]))).get(topic)
    if found is None:
        raise response_error(UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}")
    return found


def _halves(batch: Buffer) -> tuple[bytes, bytes]:
    read = read_stored_batch(batch, max_decompressed_bytes=2**31 - 1)
    count = len(read.records)
    return read.cut(range(count // 2)), read.cut(range(count // 2, count))


def _batches(letters: bytes) -> Iterator[memoryview]:
    view = memoryview(letters)
    while view:
        end = int.from_bytes(view[8:PREFIX_BYTES], "big") + PREFIX_BYTES
        yield view[:end]
        view = view[end:]


def _said(text: str) -> str:
    return f" ({text})" if text else ""
