"""The dead letters of a producer's batch: its bad records, with an id that stays the same.

An idempotent producer's record is identified by its producer's id, epoch and sequence number. They
are the same when it is sent again, to any gateway. So they are the id of its dead letter, with
topic, partition and timestamp. Nothing identifies a record of another producer: if it is retried,
brokers store it again, and it becomes another dead letter, with another id. An id that is made of
the content would not distinguish two equal records.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.modes.dead_letters import (
    ID,
    PREFIXES,
    REPLAYS,
    TIMESTAMP,
    LetterHeaders,
    of_plan,
    read_replays,
)
from penstock.engine.modes.marks import PREFIX as MARKS
from penstock.engine.verdict import Outcome, PolicyVerdict
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.records.encoder import NewHeader, encode
from penstock.kafka.records.header import CODEC
from penstock.kafka.records.sequences import add

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.engine.modes.dead_letters import Headers
    from penstock.engine.verdict import RecordError
    from penstock.kafka.records.batch import RecordBatch

LETTERS_BYTES: Final = 900_000
"""Brokers take a slightly larger batch, unless `max.message.bytes` is lower."""
_NO_OFFSET: Final = -1


class Place(NamedTuple):
    """Where a batch was going.

    Attributes:
        with_context: Whether dead letters say where they come from and why.
        plan: The digest of the topic's plan, which they always say; empty if it is unknown.
    """

    topic: str
    partition: int
    with_context: bool = True
    plan: str = ""


class Blame(NamedTuple):
    """Why records become dead letters; those of a batch for the same reason share it.

    Attributes:
        message: Its text, or None.
        code: Kafka's error code that the client would have been answered.
    """

    policy: str
    message: str | None
    code: int = INVALID_RECORD


def blame(errors: Iterable[RecordError], code: int) -> dict[int, Blame]:
    """Return why records become dead letters, by position.

    Args:
        errors: The policies, and their texts.
        code: Kafka's error code that the client would have been answered.
    """
    reason_cache: dict[tuple[str, str | None], Blame] = {}
    reasons_by_position = {}
    for error in errors:
        key = error.policy, error.message
        reason = reason_cache.get(key)
        if reason is None:
            reason = reason_cache[key] = Blame(*key, code)
        reasons_by_position[error.index] = reason
    return reasons_by_position


def write_letters(
    batch: RecordBatch,
    blamed: Mapping[int, Blame],
    place: Place,
    *,
    clock: Callable[[], float] = time.time,
) -> bytes:
    """Return dead letters as batches, one behind the other.

    Key, value and headers are as the producer sent them, but for headers that only gateways write.

    Args:
        batch: As the client sent it.
        blamed: Why, by position.
        place: Where it was going.
        clock: Returns seconds since the epoch, for the timestamps of letters: with the
            timestamps of old records, retention would soon remove them.
    """
    now = int(clock() * 1000)
    positions = sorted(blamed)
    appended = _headers(batch, blamed, place, positions)
    header = NewHeader(batch.attributes & CODEC, now, now)
    without = (*PREFIXES, MARKS)

    def cut(start: int, end: int) -> bytes:
        some = positions[start:end]
        section, _ = batch.records.cut(some, None, appended[start:end], without, True)
        return encode(header, section, len(some), fast=True)

    batches: list[bytes] = []
    ranges = [(0, len(positions))]
    while ranges:
        start, end = ranges.pop()
        letters = cut(start, end)
        if len(letters) <= LETTERS_BYTES or end - start == 1:
            batches.append(letters)
            continue
        middle = (start + end) // 2
        ranges += [(middle, end), (start, middle)]
    return b"".join(batches)


def _headers(
    batch: RecordBatch, blamed: Mapping[int, Blame], place: Place, positions: Sequence[int]
) -> list[list[tuple[str, bytes | None]]]:
    ids = _ids(batch, place, positions)
    plan = of_plan(place.plan)
    if not place.with_context:
        return [[(ID, letter_id), *plan] for letter_id in ids]
    records, reasons = batch.records, LetterHeaders()
    timestamps = records.timestamps
    returned = records.headers if records.has_header(REPLAYS) else None
    header_cache: dict[Blame, Headers] = {}  # most letters of a batch say the same
    replays: tuple[str, bytes | None] = (REPLAYS, b"0")
    appended = []
    for position, letter_id in zip(positions, ids, strict=True):
        why = blamed[position]
        same = header_cache.get(why)
        if same is None:
            policy, message, code = why
            verdict = PolicyVerdict(
                outcome=Outcome.REFUSED, code=code, message=message, policy=policy
            )
            same = reasons.of_place(verdict, place.topic, place.partition, _NO_OFFSET)
            header_cache[why] = same
        if returned is not None:
            replays = (REPLAYS, b"%d" % read_replays(returned[position]))
        time_sent = (TIMESTAMP, b"%d" % timestamps[position])
        appended.append([*same, time_sent, replays, (ID, letter_id), *plan])
    return appended


def _ids(batch: RecordBatch, place: Place, positions: Sequence[int]) -> list[bytes]:
    if batch.producer_id < 0:
        unique = uuid.uuid4().hex.encode()
        return [b"%s:%d" % (unique, position) for position in positions]
    start = f"{place.topic}-{place.partition}:{batch.producer_id}:{batch.producer_epoch}"
    prefix, timestamps = start.encode(), batch.records.timestamps
    return [
        b"%s:%d:%d" % (prefix, add(batch.base_sequence, position), timestamps[position])
        for position in positions
    ]
