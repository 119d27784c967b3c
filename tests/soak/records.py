"""The content of a record's value: its letter, its producer, and its number.

The letters are those of `policies.py`, which the gateways run.
"""

import json
import struct
from typing import Final, NamedTuple

from confluent_kafka import Message

from tests.soak.topic_names import QUARANTINED

GOOD: Final = "g"
BAD: Final = "b"
"""A validator refuses it with 87."""
NOT_TODAY: Final = "n"
"""A records policy refuses its batch with 44."""
DROPPED: Final = "d"
CHANGED: Final = "c"
CHANGED_NOW: Final = "C"
"""The value to which the interceptor changes `CHANGED`."""
SLOW: Final = "s"

REFUSED: Final = frozenset({BAD, NOT_TODAY})
LETTERS: Final = frozenset({GOOD, BAD, NOT_TODAY, DROPPED, CHANGED, CHANGED_NOW, SLOW})
DEAD_PARTITIONS: Final = 1000
_MAGIC: Final = 0
_MARKS: Final = ("__mark.errors.policy", "__mark.errors.code", "__mark.errors.message")


class Stored(NamedTuple):
    """A record as it is stored.

    Attributes:
        run: The number of times that its producer had been created.
        number: Set by the producer, never twice.
        sent_at: The time at which it was passed to its producer, in seconds since 1970: its timestamp.
        epoch: Producer id and epoch of its batch; None for dead letters, and if the producer is not
            idempotent.
    """

    partition: int
    letter: str
    producer: str
    run: int
    number: int
    sent_at: float
    epoch: tuple[int, int] | None = None


def text_of(letter: str, producer: str, run: int, number: int) -> str:
    """Return a value, as every client's program writes it."""
    return f"{letter}:{producer}:{run}:{number}"


def with_schema(schema_id: int, text: str) -> bytes:
    """Return a value with a schema's id; a bad record does not match the schema."""
    is_bad = text.startswith(BAD)
    content = {"record": 17, "was": text} if is_bad else {"record": text}
    return struct.pack(">bi", _MAGIC, schema_id) + json.dumps(content).encode()


def read(partition: int, value: bytes, sent_at: float) -> Stored:
    """Return the content of a stored value.

    Raises:
        ValueError: No client of the soak has written it.
    """
    if value[:1] == b"\0":
        content = json.loads(value[5:])
        text = content.get("was") or content["record"]
    else:
        text = value.decode()
    letter, producer, run, number = text.split(":")
    if letter not in LETTERS:
        raise ValueError(f"unknown letter {letter!r}")
    return Stored(partition, letter, producer, int(run), int(number), sent_at)


def dead_letter(message: Message) -> tuple[bytes, Stored]:
    """Return the id of a dead letter that was read back, and its record as it was sent.

    Its partition is `DEAD_PARTITIONS` and more: each partition of the source has its own order
    there, too.

    Raises:
        ValueError: No gateway has written it, or no client of the soak has sent it.
        KeyError: It lacks a header.
    """
    headers = dict(message.headers() or [])
    source = int(headers["__dlq.errors.partition"])
    if headers["__dlq.errors.topic"] != QUARANTINED.encode() or not headers["__dlq.id"]:
        raise ValueError("not from here")
    if headers["__penstock.policy"] != b"policies.Bad":
        raise ValueError("for another reason")
    sent_at = int(headers["__penstock.timestamp"]) / 1000
    record = read(DEAD_PARTITIONS + source, message.value() or b"", sent_at)
    return headers["__dlq.id"], record


def has_right_marks(message: Message, letter: str) -> bool:
    """Return whether a record has the headers of `mark` if, and only if, it is bad."""
    names = [name for name, _ in message.headers() or []]
    return names == (list(_MARKS) if letter in REFUSED else [])


def stored(message: Message) -> Stored:
    """Return the record of a message that was read back.

    Raises:
        ValueError: No client of the soak has written it.
    """
    _, milliseconds = message.timestamp()
    return read(message.partition() or 0, message.value() or b"", milliseconds / 1000)
