"""Gateways of a history: the real `Producers`, with a simulated environment.

Connections, workers and answers are played as `session` and
`gateway.produce.intercepted.batches` play them.
"""

import random
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock.gateway.produce.producer_state.all_producers import Decided, Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.held_batches import HELD_MAX_BYTES
from penstock.gateway.produce.producer_state.known_producers import PRODUCERS_MAX
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.produce.producer_state.records.kept import KEPT_MAX_BYTES
from tests.gateway.model.broker_model import Append
from tests.gateway.model.history_features import PLAIN, Features
from tests.gateway.model.producer_model import Attempt, after

FEW_PRODUCERS = 5
FEW_RECORD_BYTES = 2_000
FEW_BYTES = 40


def packed(records: Sequence[int]) -> bytes:
    """Return the bytes of a batch."""
    return array("q", records).tobytes()


def unpacked(data: bytes | memoryview) -> list[int]:
    """Return the records of a batch."""
    return array("q", bytes(data)).tolist()


@dataclass(eq=False)
class Request:
    """One attempt on its way through a gateway."""

    attempt: Attempt
    key: ProducerKey
    has_checksum: bool = False
    is_forged: bool = False
    verdict: int = 0
    judged: bool = True
    passes: bool = False
    dropped: tuple = ()
    quarantined: tuple = ()
    is_changed: bool = False
    can_store_letters: bool = False
    made: object = None
    outgoing: bytes | memoryview | None = None
    is_whole: bool = False
    decided: bool = False
    kept: bool = True
    sent: bool = False
    append: Append | None = None
    was_early: bool = False
    """Whether an earlier batch was missing when the broker refused it."""
    code: int | None = None
    due: bool = False

    @property
    def numbers(self):
        records = self.attempt.records
        summed = self.attempt.batch.records if self.is_forged else records
        checksum = zlib.crc32(packed(summed)) if self.has_checksum else 0
        return Range(self.attempt.first, len(records), checksum)

    @property
    def letters(self) -> bytes:
        """The dead letters, each with the parts of its id (`engine.quarantine`)."""
        attempt = self.attempt
        return packed(
            [
                number
                for i in self.quarantined
                for number in (
                    attempt.records[i], self.key.producer_id, attempt.epoch,
                    after(attempt.first, i),
                )
            ]
        )  # fmt: skip

    @property
    def arrival(self):
        return Arrival(*self.key)


@dataclass(eq=False)
class Connection:
    """One connection of a producer, through one gateway to one broker."""

    gateway: "Gateway"
    leader: int
    number: int
    arrived: deque = field(default_factory=deque)
    replies: deque = field(default_factory=deque)


class DeadLetters:
    """A dead letter topic.

    Attributes:
        ids: The ids of the letters that were stored of each record.
    """

    def __init__(self):
        self.ids: dict[int, set[tuple[int, ...]]] = {}

    def append(self, letters: bytes) -> None:
        """Store letters."""
        numbers = unpacked(letters)
        for place in range(0, len(numbers), 4):
            record, *letter_id = numbers[place : place + 4]
            self.ids.setdefault(record, set()).add(tuple(letter_id))


class KeptLog:
    """The state that outlives a gateway, or is shared by several: records of producers, in order."""

    def __init__(self):
        self.records: list[tuple[ProducerKey, bytes, float] | None] = []
        self._rolled = 0

    def compact(self) -> None:
        """Keep only the last record of each key; offsets stay.

        As Kafka's log cleaner does, which never cleans the active segment: the next one begins now.
        """
        kept: set[ProducerKey] = set()
        end, self._rolled = self._rolled, len(self.records)
        for place in range(end - 1, -1, -1):
            record = self.records[place]
            if record is None:
                continue
            if record[0] in kept:
                self.records[place] = None
            kept.add(record[0])

    def last(self, key: ProducerKey) -> tuple[bytes, float] | None:
        """Return the last record of a key, and when it was written."""
        return next(
            (record[1:] for record in reversed(self.records) if record and record[0] == key), None
        )


class Gateway:
    """A process, and the part of the log that it has read.

    Attributes:
        unwritten: Writes that the cluster has not accepted, in order; None instead of the function
            of a write that has timed out.
        is_cut_off: Whether writes are impossible for a while.
        has_interceptors: Whether its interceptors are enabled.
        version: The version of its interceptors.
        unstored: Dead letters that are not stored yet, and the function that is to be called.
        is_cut_off_from_letters: Whether none can be stored for a while.
    """

    def __init__(
        self,
        log: KeptLog,
        *,
        shared: bool,
        chance: random.Random,
        now: Callable[[], float],
        features: Features = PLAIN,
        dead: DeadLetters | None = None,
    ):
        self._log = log
        self._dead = dead or DeadLetters()
        self.unstored: list = []
        self.is_cut_off_from_letters = False
        self._shared = shared
        self._chance = chance
        self._now = now
        self._read = 0
        self._others = 0
        self.is_cut_off = False
        self.has_interceptors = True
        self.version = 0
        self.unwritten: list = []
        self.producers = Producers(
            now=now,
            keep=self._keep,
            is_shared=shared,
            look_up=None if shared or not features.evicts else log.last,
            producers_max=FEW_PRODUCERS if features.evicts else PRODUCERS_MAX,
            kept_max_bytes=FEW_RECORD_BYTES if features.forgets else KEPT_MAX_BYTES,
            held_max_bytes=FEW_BYTES if features.little_memory else HELD_MAX_BYTES,
        )
        if not shared:
            self.read()

    def _keep(self, key, record, done):
        if self._shared:
            done = partial(self._read_back, done)
        if self._shared and (self.unwritten or self.is_cut_off or self._chance.random() < 0.5):
            self.unwritten.append((key, record, done))  # in sequence
            return
        self._append(key, record)
        done(None)

    def _read_back(self, done, failure):
        if failure is None:
            self.read()
        done(failure)

    def _append(self, key, record):
        self._log.records.append((key, record, self._now()))

    def write(self) -> None:
        """Let the cluster accept the writes; sometimes it does not."""
        if self.is_cut_off:
            return
        unwritten, self.unwritten = self.unwritten, []
        for key, record, done in unwritten:
            if done is None:
                self._append(key, record)
            elif self._chance.random() < 0.1:
                if self._chance.random() < 0.5:
                    self._append(key, record)
                done("not written")
            else:
                self._append(key, record)
                done(None)

    def time_out(self) -> None:
        """Report that nothing was written, which may be done later nevertheless."""
        waiting = self.unwritten
        self.unwritten = [(key, record, None) for key, record, _ in waiting]
        for _, _, done in waiting:
            if done is not None:
                done("timed out")

    def store_letters(
        self, letters: bytes, _: Sequence[int], done: Callable[[str | None], None]
    ) -> None:
        """Store dead letters, now or later."""
        if self.is_cut_off_from_letters or self._chance.random() < 0.5:
            self.unstored.append((letters, done))
            return
        self._dead.append(letters)
        done(None)

    def end_letters(self, *, fails: float) -> None:
        """Store or fail all letters; some failed letters are stored nevertheless.

        Args:
            fails: The probability that this gateway gets an error.
        """
        unstored, self.unstored = self.unstored, []
        for letters, done in unstored:
            if self._chance.random() >= fails:
                self._dead.append(letters)
                done(None)
                continue
            if self._chance.random() < 0.5:
                self._dead.append(letters)
            done("not stored")

    def end(self) -> None:
        """Be killed: pending writes may succeed, without a result."""
        for letters, _ in self.unstored:
            if self._chance.random() < 0.5:
                self._dead.append(letters)
        self.unstored.clear()

    def read(self, to: int | None = None) -> None:
        """Read the log to its end, or to an earlier end."""
        while self._read < (len(self._log.records) if to is None else to):
            record = self._log.records[self._read]
            self._read += 1
            if record is not None:
                self.producers.restore(*record, self._read)

    def meets(self, request: Request) -> None:
        """Read the records of others, if necessary or by chance."""
        if self._shared and (
            self._chance.random() < 0.2
            or self.producers.needs_reading(request.key, request.attempt.epoch, request.numbers)
        ):
            self.read()

    def serve_another(self, *, drops: bool) -> None:
        """Store a batch of a producer that occurs only once."""
        self._others += 1
        key = ProducerKey("t", 0, 5_000 + self._others)
        decided = self.producers.decide(
            key, Arrival(*key), 0, Range(0, 2), (0,) if drops else (), b"x",
            connection=0, callback=lambda _: None,
        )  # fmt: skip
        if isinstance(decided, Decided):
            self.producers.send(key, 0, decided.batch)
            self.producers.on_response(key, 0, decided.batch, 0, Stored(1))
