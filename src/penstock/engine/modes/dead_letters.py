"""The headers of dead letters: added by `split` and gateways, read and removed by `redrive`.

Names of place and text are Kafka's own for share groups' dead letters (KIP-1191); the others
begin with `__penstock.`. All values are texts in UTF-8.

A gateway's dead letters also have an id, which is the same if their batch is retried,
through any gateway: so the same letter may be there twice, and is taken once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from penstock.engine.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.policy import Header

    Headers = Sequence[tuple[str, bytes | None]]

TOPIC, PARTITION, OFFSET, MESSAGE = (
    "__dlq.errors.topic",
    "__dlq.errors.partition",
    "__dlq.errors.offset",
    "__dlq.errors.message",
)
POLICY, CODE, REASON, OUTCOME, TIMESTAMP, REPLAYS = (
    "__penstock.policy",
    "__penstock.code",
    "__penstock.message",
    "__penstock.outcome",
    "__penstock.timestamp",
    "__penstock.replays",
)
ID: Final = "__dlq.id"
"""Of a dead letter that a gateway wrote."""
PREFIXES: Final = ("__dlq.", "__penstock.")
PARKED_SUFFIX: Final = ".parked"
"""The suffix of topics and folders for dead letters that failed too often."""
_NUMBER: Final = re.compile(rb"\s*([+-]?[0-9]{1,20})\s*")
_INT32, _INT64 = 2**31, 2**63
_KNOWN_MAX: Final = 1000
"""How many verdicts' texts are kept encoded."""


class Origin(NamedTuple):
    """Where a record first was.

    Attributes:
        topic: Its topic.
        partition: Its partition there.
        offset: Its offset there.
        timestamp: Its timestamp there, in ms.
        replays: How often it has been redriven.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    replays: int = 0


class PartialOrigin(NamedTuple):
    """Where a record of a file first was; None for what is not known. See `Origin`."""

    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    replays: int = 0


_Origin = TypeVar("_Origin", Origin, PartialOrigin)


def is_dead_letter(headers: Sequence[Header]) -> bool:
    """Return whether headers say where a record was before it became a dead letter."""
    return dict(headers).get(TOPIC) is not None


def read_origin(headers: Sequence[Header], here: _Origin) -> _Origin:
    """Return where a dead letter comes from, as far as its headers say.

    Of several headers with one name the last counts, as `Headers.lastHeader` of Java's clients.

    Args:
        headers: Of the dead letter.
        here: The values of headers that are missing, or are not valid numbers.
    """
    found = dict(headers)
    topic = found.get(TOPIC)
    partition = _number(found.get(PARTITION), _INT32)
    offset = _number(found.get(OFFSET), _INT64)
    timestamp = _number(found.get(TIMESTAMP), _INT64)
    replays = _number(found.get(REPLAYS), _INT32)
    return here._replace(
        topic=here.topic if topic is None else topic.decode(errors="replace"),
        partition=here.partition if partition is None or partition < 0 else partition,
        offset=here.offset if offset is None else offset,
        timestamp=here.timestamp if timestamp is None else timestamp,
        replays=here.replays if replays is None else max(0, replays),
    )


def read_timestamp(headers: Sequence[Header]) -> int | None:
    """Return the timestamp in the headers of a dead letter; None where they do not say it."""
    return _number(dict(headers).get(TIMESTAMP), _INT64)


def read_replays(headers: Sequence[Header]) -> int:
    """Return how often a record has been redriven; 0 where its headers do not say it."""
    return max(0, _number(dict(headers).get(REPLAYS), _INT32) or 0)


class Attempts(NamedTuple):
    """How often dead letters are judged again.

    In a parking topic they have as many attempts again; and a record that is accepted there
    returns, regardless of its number.

    Attributes:
        maximum: A record that has failed so often is parked.
        is_parked: Whether the dead letters have been parked.
    """

    maximum: int
    is_parked: bool = False

    @classmethod
    def of(cls, place: str, replays_max: int) -> Self:
        """Return the attempts in a place.

        Args:
            place: The topic or folder of dead letters.
            replays_max: How many there are in a place where nothing is parked.
        """
        name, rounds = place.rstrip("/"), 1
        while name.endswith(PARKED_SUFFIX):
            name, rounds = name.removesuffix(PARKED_SUFFIX), rounds + 1
        return cls(replays_max * rounds, rounds > 1)


def read_id(headers: Sequence[Header]) -> bytes | None:
    """Return the id of a dead letter that a gateway wrote; None without one."""
    return dict(headers).get(ID)


def next_id(letter_id: bytes, replays: int) -> bytes:
    """Return the id of a dead letter that is written again after an attempt to return it."""
    return b"%s/%d" % (letter_id.partition(b"/")[0], replays)


def own_headers(headers: Sequence[Header]) -> tuple[Header, ...]:
    """Return the headers that are not of a dead letter. Those of files may have no key."""
    return tuple(header for header in headers if not (header[0] or "").startswith(PREFIXES))


class ReasonHeaders:
    """Writes the headers of dead letters; the texts of one verdict are encoded once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[tuple[str, bytes | None], ...]] = {}

    def headers(
        self, verdict: PolicyVerdict, origin: Origin | PartialOrigin, *, replays: int
    ) -> list[tuple[str, bytes | None]]:
        """Return the headers that a dead letter has besides its own.

        Args:
            verdict: On the record.
            origin: Where it first was.
            replays: How often it has been redriven.
        """
        topic, partition, offset, timestamp, _ = origin
        return [
            *self.of_place(verdict, topic, partition, offset),
            (TIMESTAMP, _text(timestamp)),
            (REPLAYS, b"%d" % replays),
        ]

    def of_record(
        self, verdict: PolicyVerdict, headers: Sequence[Header], here: _Origin
    ) -> list[tuple[str, bytes | None]]:
        """Return the headers that a stored record gets as a dead letter, besides its own.

        A record that is a dead letter already keeps the place that it first came from.

        Args:
            verdict: On the record.
            headers: Of the record.
            here: Where it is.
        """
        origin = read_origin(headers, here) if is_dead_letter(headers) else here
        return self.headers(verdict, origin, replays=read_replays(headers))

    def of_place(
        self, verdict: PolicyVerdict, topic: str | None, partition: int | None, offset: int | None
    ) -> Headers:
        """Return those of the headers that say where a record was, and why it became a letter."""
        return (
            (TOPIC, None if topic is None else topic.encode()),
            (PARTITION, _text(partition)),
            (OFFSET, _text(offset)),
            *self._of(verdict),
        )

    def _of(self, verdict: PolicyVerdict) -> tuple[tuple[str, bytes | None], ...]:
        key = (verdict.outcome, verdict.policy, verdict.code, verdict.message)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            text = (verdict.message or "").encode(errors="replace")
            found = self._known[key] = (
                (MESSAGE, text),
                (OUTCOME, verdict.outcome.value.encode()),
                (POLICY, None if verdict.outcome is Outcome.ACCEPTED else verdict.policy.encode()),
                (CODE, b"%d" % verdict.code),
                (REASON, text),
            )
        return found


def _text(number: int | None) -> bytes | None:
    return None if number is None else b"%d" % number


def _number(text: bytes | None, limit: int) -> int | None:
    found = _NUMBER.fullmatch(text) if text is not None else None
    if found is None:
        return None
    number = int(found[1])
    return number if -limit <= number < limit else None
