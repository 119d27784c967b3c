"""Which letters of a place return: those of some topics; and what else is there.

Values only: what plans a job imports no library that reads records.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from penstock.configuration import ConfigurationError
from penstock.engine.modes.dead_letters import (
    FORMATS,
    NOWHERE,
    format_of,
    is_of_share_group,
    read_origin,
)
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.kafka.cluster.topic_names import means

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.policy import Header

TOPICS_MAX: Final = 10_000
"""So many of the most frequent are counted: anybody who writes letters chooses their names."""
_SHOWN: Final = 10
MORE: Final = "more topics"
"""Counts the letters of other topics beyond these."""


@dataclass(frozen=True)
class LetterTopics:
    """The topics whose letters return.

    Attributes:
        parts: Their names and globs; None for all topics.
    """

    parts: tuple[str, ...] | None = None
    _matches: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def __contains__(self, topic: str | None) -> bool:
        """Return whether letters of a topic return; a record of a file may have had none."""
        if self.parts is None or topic is None:
            return True
        is_match = self._matches.get(topic)
        if is_match is None:
            is_match = means(self.parts, topic)
            if len(self._matches) < TOPICS_MAX:
                self._matches[topic] = is_match
        return is_match


class FoundLetters(NamedTuple):
    """The records of a place of dead letters.

    Attributes:
        returning: How many letters are judged again.
        others: How many stay, by their topic.
        strangers: How many records are no letters.
        stranger: Where one of them is.
        without_record: How many of those that are judged have neither a key nor a value, because a
            share group has not copied them.
    """

    returning: int = 0
    others: Mapping[str, int] = {}
    strangers: int = 0
    stranger: str = ""
    without_record: int = 0

    def plus(self, other: Self) -> Self:
        """Return the sum of two."""
        return self._replace(
            returning=self.returning + other.returning,
            others=_most(_counter(self.others, other.others)),
            strangers=self.strangers + other.strangers,
            stranger=min(filter(None, (self.stranger, other.stranger)), default=""),
            without_record=self.without_record + other.without_record,
        )

    def encode(self) -> bytes:
        """Return it as bytes, which `decode` reads."""
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return what `encode` made bytes of."""
        return cls(*json.loads(data))

    @classmethod
    def sum_of(cls, results: Iterable[bytes]) -> Self:
        """Return the sum of what `encode` returned in several tasks."""
        total = cls()
        for result in map(cls.decode, results):
            total = total.plus(result)
        return total

    def check(self, letters: str, *, may_read: bool = True) -> None:
        """Check that all records are letters that can return.

        Args:
            letters: The place, such as `--from orders.dead`.
            may_read: Whether records are read that share groups have not copied.

        Raises:
            ConfigurationError: They are not.
        """
        if self.strangers:
            names = ", ".join(form.topic for form in FORMATS)
            raise ConfigurationError(
                f"{letters}: {self.strangers:,} records are not dead letters that name "
                f"their topic, such as {self.stranger}; nothing is written. Name a place where "
                f"every record has one of the headers {names} (Kafka Connect and Penstock write "
                "them unless errors.deadletterqueue.context.headers.enable is false)"
            )
        if self.without_record and not may_read:
            raise ConfigurationError(
                f"{letters}: {self.without_record:,} letters of share groups have no copy of "
                "their record, which is only read from topic to topic; nothing is written"
            )

    @property
    def stay(self) -> str:
        """How many letters stay, for a line to a user; empty without any."""
        if not self.others:
            return ""
        ordered = sorted(self.others.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{topic} {count:,}" for topic, count in ordered[:_SHOWN])
        more = len(ordered) - _SHOWN
        shown += f" and {more:,} more topics" if more > 0 else ""
        total = sum(self.others.values())
        return f"{total:,} letters of other topics stay: {shown} (--topic T returns those of T)"


class LetterCounter:
    """Counts the records of a place of dead letters."""

    def __init__(self, topics: LetterTopics) -> None:
        """Begin with none.

        Args:
            topics: Whose letters are judged again.
        """
        self._topics = topics
        self._returns = self._strangers = self._without_record = 0
        self._stranger = ""
        self._others = _counter()

    def add(self, headers: Sequence[Header], place: str, *, is_empty: bool) -> None:
        """Count a record.

        Args:
            place: Where it is, for an error.
            is_empty: Whether it has neither key nor value.
        """
        if format_of(headers) is None:
            self._strangers += 1
            self._stranger = self._stranger or place
            return
        topic = read_origin(headers, NOWHERE).topic
        if topic is None or topic in self._topics:
            self._returns += 1
            self._without_record += is_empty and is_of_share_group(headers)
            return
        self._others.add(topic)

    @property
    def found(self) -> FoundLetters:
        """The counts."""
        return FoundLetters(
            self._returns,
            _most(self._others),
            self._strangers,
            self._stranger,
            self._without_record,
        )


def _counter(*counts: Mapping[str, int]) -> BoundedCounter[str]:
    """Return a counter of topics, with the sum of counts."""
    counter = BoundedCounter[str](TOPICS_MAX)
    for topic_counts in counts:
        for topic, count in topic_counts.items():
            if topic == MORE:
                counter.left_out += count
            else:
                counter.add(topic, count)
    return counter


def _most(counter: BoundedCounter[str]) -> Mapping[str, int]:
    """Return the counts of the most frequent topics, and of all others together."""
    topics, rest = counter.most_common(TOPICS_MAX)
    return dict(topics) | ({MORE: rest} if rest else {})
