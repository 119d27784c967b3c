"""The headers of dead letters: added by `split` and gateways, read and removed by `redrive`.

Names of place and text are Kafka's own for share groups' dead letters (KIP-1191); the others
begin with `__penstock.`. All values are texts in UTF-8. `redrive` also reads the letters of others
(`penstock.engine.modes.letter_formats`).

A gateway's dead letters also have an id, which is the same if their batch is retried,
through any gateway: so the same letter may be there twice, and is taken once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from penstock.engine.modes.letter_formats import (
    INT32,
    INT64,
    OTHERS,
    LetterFormat,
    number_of,
)
from penstock.engine.verdict import Outcome
from penstock.policy import Header

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.verdict import PolicyVerdict

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
PLAN: Final = "__dlq.plan"
"""The digest of the plan that refused it (`penstock.engine.plans.plan_digest`)."""
PREFIXES: Final = ("__dlq.", "__penstock.")
PARKED_SUFFIX: Final = ".parked"
"""The suffix of topics and folders for dead letters that failed too often."""
GROUP: Final = "__dlq.errors.group"
"""Of a dead letter of a share group, which has not the headers of its record, and perhaps neither
its key nor its value."""
OWN: Final = LetterFormat(TOPIC, PARTITION, OFFSET, TIMESTAMP, PREFIXES)
FORMATS: Final = (OWN, *OTHERS)
_BY_TOPIC: Final = {form.topic: form for form in FORMATS}
_TOPIC_NAME: Final = re.compile(rb"[a-zA-Z0-9._-]{1,249}")
_KNOWN_MAX: Final = 1000
"""How many verdicts' texts are kept encoded."""


class Origin(NamedTuple):
    """Where a record first was.

    Attributes:
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


NOWHERE: Final = PartialOrigin(None, None, None, None)
"""Where a record first was that says nothing about it."""
_Origin = TypeVar("_Origin", Origin, PartialOrigin)


def is_dead_letter(headers: Sequence[Header]) -> bool:
    """Return whether headers say where a record was before it became a dead letter."""
    return dict(headers).get(TOPIC) is not None


def format_of(headers: Sequence[Header]) -> LetterFormat | None:
    """Return the format of a dead letter; None for a record that is none.

    Of several, the last counts: its writer has seen the others as headers of the record. Only a
    record of a file may have had no topic.
    """
    format_and_topic = _last_topic(headers)
    return None if format_and_topic is None else format_and_topic[0]


def _last_topic(headers: Sequence[Header]) -> tuple[LetterFormat, bytes | None] | None:
    for key, value in reversed(headers):
        form = _BY_TOPIC.get(key)
        if form is None:
            continue
        if form is OWN if value is None else _TOPIC_NAME.fullmatch(value):
            return form, value
    return None


def is_letter(headers: Sequence[Header]) -> bool:
    """Return whether a record is a dead letter, of whoever writes them, that names its topic."""
    return format_of(headers) is not None


def is_of_share_group(headers: Sequence[Header]) -> bool:
    """Return whether a dead letter is one of a share group, whose record is read elsewhere."""
    return GROUP in dict(headers) and format_of(headers) is OWN


def read_origin(headers: Sequence[Header], here: _Origin) -> _Origin:
    """Return where a dead letter comes from, as far as its headers say.

    Of several headers with one name the last counts, as `Headers.lastHeader` of Java's clients.

    Args:
        headers: Of the dead letter.
        here: The values of headers that are missing, or are not valid numbers.
    """
    header_values = dict(headers)
    form, topic = _last_topic(headers) or (OWN, header_values.get(TOPIC))
    partition = form.number(header_values.get(form.partition), INT32)
    offset = form.number(header_values.get(form.offset), INT64)
    timestamp = _first_timestamp(form, header_values)
    replays = number_of(header_values.get(REPLAYS), INT32)
    return here._replace(
        topic=here.topic if topic is None else topic.decode(errors="replace"),
        partition=here.partition if partition is None or partition < 0 else partition,
        offset=here.offset if offset is None else offset,
        timestamp=here.timestamp if timestamp is None else timestamp,
        replays=here.replays if replays is None else max(0, replays),
    )


def _first_timestamp(form: LetterFormat, header_values: Mapping[str, bytes | None]) -> int | None:
    """Return the timestamp in headers; one of a record that was returned before is there still."""
    if form is not OWN and form.timestamp is not None:
        timestamp = form.number(header_values.get(form.timestamp), INT64)
        if timestamp is not None and timestamp >= 0:
            return timestamp
    return number_of(header_values.get(TIMESTAMP), INT64)


def read_timestamp(headers: Sequence[Header]) -> int | None:
    """Return the timestamp in the headers of a dead letter; None where they do not say it."""
    return number_of(dict(headers).get(TIMESTAMP), INT64)


def read_replays(headers: Sequence[Header]) -> int:
    """Return how often a record has been redriven; 0 where its headers do not say it."""
    return max(0, number_of(dict(headers).get(REPLAYS), INT32) or 0)


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


def of_plan(digest: str) -> Headers:
    """Return the header of a dead letter with its topic's plan; none if its digest is unknown."""
    return ((PLAN, digest.encode()),) if digest else ()


def read_id(headers: Sequence[Header]) -> bytes | None:
    """Return the id of a dead letter that a gateway wrote; None without one."""
    return dict(headers).get(ID)


def next_id(letter_id: bytes, replays: int) -> bytes:
    """Return the id of a dead letter that is written again after an attempt to return it."""
    return b"%s/%d" % (letter_id.partition(b"/")[0], replays)


def prefixes_of(form: LetterFormat | None) -> tuple[str, ...]:
    """Return how the names of headers begin that a letter has, and its record has not."""
    return PREFIXES if form is None or form is OWN else (*PREFIXES, *form.prefixes)


def own_headers(
    headers: Sequence[Header], prefixes: tuple[str, ...] = PREFIXES
) -> tuple[Header, ...]:
    """Return the headers that are not of a dead letter. Those of files may have no key.

    Args:
        prefixes: From `prefixes_of`.
    """
    return tuple(header for header in headers if not (header[0] or "").startswith(prefixes))


class LetterHeaders:
    """Writes the headers of dead letters; the texts of one verdict are encoded once."""

    def __init__(self) -> None:
        self._cache: dict[tuple[object, ...], tuple[tuple[str, bytes | None], ...]] = {}

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

    def with_own(
        self, verdict: PolicyVerdict, headers: Sequence[Header], here: _Origin
    ) -> tuple[Header, ...]:
        """Return its own headers, and those of `of_record`, which has the same arguments."""
        reasons: Sequence[tuple[str, bytes | None]] = self.of_record(verdict, headers, here)
        return (*own_headers(headers), *(Header(*reason) for reason in reasons))

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
        headers = self._cache.get(key)
        if headers is None:
            if len(self._cache) >= _KNOWN_MAX:
                self._cache.clear()
            text = (verdict.message or "").encode(errors="replace")
            headers = self._cache[key] = (
                (MESSAGE, text),
                (OUTCOME, verdict.outcome.value.encode()),
                (POLICY, None if verdict.outcome is Outcome.ACCEPTED else verdict.policy.encode()),
                (CODE, b"%d" % verdict.code),
                (REASON, text),
            )
        return headers


def returning_headers(origin: Origin | PartialOrigin) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that a letter's record has, besides its own, when it returns.

    Args:
        origin: Where the record first was, with the number of its earlier returns.
    """
    return (REPLAYS, b"%d" % (origin.replays + 1)), (TIMESTAMP, _text(origin.timestamp))


def _text(number: int | None) -> bytes | None:
    return None if number is None else b"%d" % number
