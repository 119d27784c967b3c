"""The record format of a producer's state."""

from __future__ import annotations

import json
import re
import zlib
from array import array
from base64 import b64decode, b64encode
from sys import intern
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from penstock.gateway.produce.producer_state.producer.batch import Batch, State, WrittenPositions
from penstock.gateway.produce.producer_state.producer.numbering import Beginning
from penstock.gateway.produce.producer_state.producer.numbers import distance
from penstock.gateway.produce.producer_state.producer.state_machine import Producer
from penstock.gateway.produce.producer_state.records.fences import Fence, Head

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.produce.producer_state.producer.history import History

_VERSION: Final = 2
_POSITION: Final = "I"
_ALL: Final = "a"
"""All records that were dropped, where positions would stand."""
_COMPRESSED_FROM_BYTES: Final = 256
_AGE_S: Final = 60
"""If no batch of a record was received so long before it, or after it, it has no ages."""
_HEAD: Final = re.compile(
    rb'\{"version":%d,"writer":"(\w+)","epoch":(\d+),"revision":(\d+),"seen":(\d+),'
    rb'(?:"fence":(true|null|\[(\d+),"(\w+)"\]),)?' % _VERSION
)


class ProducerKey(NamedTuple):
    """A producer at one partition.

    Attributes:
        topic: The name of the topic.
        principal: The principal of the client, if it is known: producer ids are easily guessed,
            and the broker's ACLs are not applied to dropped records.
    """

    topic: str
    partition: int
    producer_id: int
    principal: str = ""

    def encode(self) -> bytes:
        """Write it as a record's key."""
        if self.principal:
            return json.dumps(self, separators=(",", ":")).encode()
        return f"{self.producer_id}/{self.partition}/{self.topic}".encode()

    @classmethod
    def decode(cls, key: bytes | None) -> ProducerKey:
        """Read a record's key.

        Raises:
            ValueError: It is invalid.
        """
        if key is not None and key.startswith(b"["):
            topic, partition, producer_id, principal = json.loads(key)
            return cls(intern(topic), int(partition), int(producer_id), str(principal))
        producer_id, partition, topic = (key or b"").decode().split("/", 2)
        return cls(intern(topic), int(partition), int(producer_id))


def encode(
    producer: Producer,
    writer: str,
    *,
    revision: int = 0,
    last_position: int = 0,
    fences: bool = False,
) -> bytes:
    """Write a producer as a record's value.

    Args:
        writer: See `Head`.
        revision: See `Head`.
        last_position: See `Head.seen`.
        fences: See `Head`.
    """
    batches = [batch for batch in producer.batches if batch.state is not State.REFUSED]
    first = producer.batches[0] if producer.batches else None
    following, removed = producer.numbering.written_end
    value = {
        # First, and in this order, for `read_head`.
        "version": _VERSION,
        "writer": writer,
        "epoch": producer.epoch,
        "revision": revision,
        "seen": last_position,
        "fence": True if fences else producer.record.fences.last,
        "first": [first.first, first.removed] if first is not None else None,
        "next": following,
        "removed": removed,
        "topic_id": str(producer.topic_id) if producer.topic_id else None,
        "batches": [_fields(batch) for batch in batches],
    }
    if changed_numbers := [batch.first for batch in batches if batch.is_changed]:
        value["changed"] = changed_numbers
    # Of a batch that was decided without a record, after the last record, it is negative.
    ages = [round(producer.record.written - batch.received) for batch in batches]
    if any(abs(age_s) >= _AGE_S for age_s in ages):
        value["ages"] = ages
    return json.dumps(value, separators=(",", ":")).encode()


def is_ahead(producer: Producer, theirs: Producer) -> bool:
    """Whether a producer's state is ahead of the state that another gateway has written.

    Refused batches are not written, and so not compared: two gateways would write forever.
    """
    following, removed = producer.numbering.written_end
    ahead = distance(theirs.numbering.next, following)
    return ahead > 0 or (ahead == 0 and distance(theirs.numbering.removed, removed) > 0)


def read_head(record: bytes) -> Head:
    """Read the head of a record; do not read the rest if `encode` wrote it.

    Raises:
        ValueError: It is not what `encode` writes.
    """
    match = _HEAD.match(record)
    if match is not None:
        writer, epoch, revision, seen_position, kind, position, fence_writer = match.groups()
        fence = Fence(int(position), intern(fence_writer.decode())) if position else None
        return Head(
            int(epoch),
            intern(writer.decode()),
            int(revision),
            int(seen_position),
            fence,
            kind == b"true",
        )
    fields = _read(record)
    fence = fields.get("fence")
    try:
        head = Head(
            fields["epoch"],
            fields["writer"],
            fields.get("revision", 0),
            fields.get("seen"),
            Fence(*fence) if isinstance(fence, list) else None,
            fence is True,
        )
    except TypeError:
        raise ValueError("not the state of a producer") from None
    numbers = (head.epoch, head.revision, head.seen or 0, head.fence.position if head.fence else 0)
    if not isinstance(head.writer, str) or not all(isinstance(number, int) for number in numbers):
        raise ValueError("not the state of a producer")
    return head


def decode(
    record: bytes, history: History, write_time: float, release: Callable[[Batch], None]
) -> Producer:
    """Read a record's value.

    Args:
        history: The known facts about earlier batches.
        write_time: When the record was written, in seconds since the epoch.
        release: See `Producer`.

    Raises:
        ValueError: It was not written by `encode`.
    """
    fields = _read(record)
    try:
        batches = [_batch(*fields_of_batch) for fields_of_batch in fields["batches"]]
        changed_numbers = frozenset(fields.get("changed", ()))
        ages = fields.get("ages") or [0] * len(batches)
        for batch, age_s in zip(batches, ages, strict=True):
            batch.is_changed = batch.first in changed_numbers
            batch.received = write_time - age_s
        return Producer(
            fields["epoch"],
            fields["next"],
            release=release,
            removed=fields["removed"],
            history=history,
            batches=batches,
            beginning=Beginning(*fields["first"]) if fields.get("first") else None,
            topic_id=UUID(fields["topic_id"]) if fields["topic_id"] else None,
            last_use=write_time,
            last_write=write_time,
        )
    except (KeyError, TypeError) as error:
        raise ValueError("not the state of a producer") from error


def _read(record: bytes) -> dict[str, Any]:
    fields = json.loads(record)
    if not isinstance(fields, dict) or fields.get("version") != _VERSION:
        raise ValueError("not the state of a producer, or of another version")
    if not {"epoch", "next", "writer"} <= fields.keys():
        raise ValueError("not the state of a producer")
    return fields


def _fields(batch: Batch) -> list[Any]:
    positions = batch.written
    if (
        positions is None
        or positions.dropped is not batch.dropped
        or positions.quarantined is not batch.quarantined
    ):
        positions = batch.written = _written(batch)
    fields = [
        batch.first,
        batch.count,
        batch.broker_first,
        batch.dropped_count,
        positions.texts[0],
        batch.is_lettered if batch.loses_all else batch.state is State.STORED,
        batch.checksum,
    ]
    if batch.quarantined:
        fields.append(positions.texts[1])
    return fields


def _written(batch: Batch) -> WrittenPositions:
    """Encode positions; they are written again with each of the batches that follow."""
    is_all = len(batch.quarantined) == batch.dropped_count
    letters = _ALL if is_all else _encode_positions(batch.quarantined)
    texts = _encode_positions(batch.dropped), letters
    return WrittenPositions(batch.dropped, batch.quarantined, texts)


def _batch(
    first: int,
    count: int,
    broker_first: int,
    dropped_count: int,
    dropped: str | None,
    is_stored: bool = False,
    checksum: int = 0,
    quarantined: str | None = None,
) -> Batch:
    # The record does not say whether the client got its response.
    if dropped_count == count:
        state = State.DROPPED
    else:
        state = State.STORED if is_stored else State.PRESUMED
    positions = _decode_positions(dropped)
    all_dropped = positions or range(count)
    letters = all_dropped if quarantined == _ALL else _decode_positions(quarantined)
    return Batch(
        first,
        count,
        broker_first,
        positions,
        dropped_count,
        state,
        checksum=checksum,
        quarantined=letters,
        # They are stored before the rest is. Where there is no rest, the record says it.
        is_lettered=is_stored,
    )


def _encode_positions(positions: Sequence[int]) -> str | None:
    if not positions:
        return None
    data = array(_POSITION, positions).tobytes()
    if len(data) >= _COMPRESSED_FROM_BYTES:
        return "z" + b64encode(zlib.compress(data, 1)).decode()
    return "p" + b64encode(data).decode()


def _decode_positions(text: str | None) -> Sequence[int]:
    if not text:
        return ()
    data = b64decode(text[1:])
    return array(_POSITION, zlib.decompress(data) if text[0] == "z" else data)
