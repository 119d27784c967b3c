"""What gateways announce about changes of their interceptors, and of topics' own settings.

A change of interceptors may be about all topics whose records the gateway may drop; a change of a
topic's own settings is about this topic. For ten minutes the gateway also announces the topics
whose records it dropped until then.
"""

from __future__ import annotations

import re
import uuid
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.gateway.produce.producer_state.doubts import DOUBTED_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

NAMES_MAX: Final = 1_000
"""The most topics that are named one by one: each name is compared with each topic's name."""
_NAMES_CHARACTERS_MAX: Final = 30_000
"""The most characters of these names: the event loop of each gateway compiles their pattern."""
_FORMER_CHARACTERS_MAX: Final = 200_000
"""The most characters of patterns of before; of more, every topic is announced."""
EVERY_TOPIC: Final = ""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Change(NamedTuple):
    """A change of a gateway's interceptors, and later changes of topics' own settings.

    Attributes:
        id: Differs from that of each other change of interceptors.
        topics: Patterns (`re.search`) of the topics whose records they may drop from then on.
        former: Patterns of those whose records it may have dropped in the minutes before.
        settings: The topics whose own settings have changed in the last minutes, and may lose other
            records since; with an id that differs for each change.
    """

    id: str
    topics: Sequence[str]
    former: Sequence[str] = ()
    settings: Mapping[str, str] = _NONE

    def affects(self, topic: str) -> bool:
        """Whether it is about a topic; an invalid pattern is about every topic."""
        if topic in self.settings:
            return True
        try:
            return any(re.search(pattern, topic) for pattern in (*self.topics, *self.former))
        except (re.error, OverflowError, RecursionError):
            return True

    @property
    def is_about_topics(self) -> bool:
        """Whether it is about any topic."""
        return bool(self.topics or self.former or self.settings)

    def new_settings(self, earlier_change: Change) -> list[str]:
        """Return the topics whose own settings have changed since an announcement."""
        return [
            topic
            for topic, number in self.settings.items()
            if earlier_change.settings.get(topic) != number
        ]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an announcement, which `read_change` reads."""
        fields: dict[str, Any] = {"change": [self.id, self.topics]}
        if self.former:
            fields["former"] = self.former
        if self.settings:
            fields["settings"] = dict(self.settings)
        return fields


def read_change(fields: Mapping[str, Any]) -> Change | None:
    """Return the change of an announcement; None if it has none."""
    match fields.get("change"):
        case [str(number), list(topics)] if _are_texts(topics):
            former, settings = fields.get("former"), fields.get("settings")
            return Change(
                number,
                topics,
                former if isinstance(former, list) and _are_texts(former) else (),
                settings if isinstance(settings, dict) and _are_texts(settings.values()) else _NONE,
            )
    return None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(text, str) for text in values)


def are_too_many(topics: Collection[str]) -> bool:
    """Return whether topics are too many, or their names too long, to name them one by one."""
    return len(topics) > NAMES_MAX or sum(map(len, topics)) > _NAMES_CHARACTERS_MAX


def pattern_of(topics: Collection[str]) -> str:
    """Return the pattern of topics by their names; that of every topic if they are too many."""
    if are_too_many(topics):
        return EVERY_TOPIC
    return rf"\A(?:{'|'.join(map(re.escape, topics))})\Z"


class OwnChange:
    """The change that this gateway announces."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Announce none yet.

        Args:
            now: Returns the monotonic time in seconds.
        """
        self._now = now
        self._change: Change | None = None
        self._own: dict[str, None] = {}
        self._former: list[tuple[float, Sequence[str]]] = []
        self._settings: dict[str, tuple[float, str]] = {}

    @property
    def current(self) -> Change | None:
        """The change to announce now; None if there is none."""
        if self._change is None:
            return None
        now = self._now()
        self._former = [entry for entry in self._former if entry[0] > now]
        self._settings = {topic: entry for topic, entry in self._settings.items() if entry[0] > now}
        topics = [*self._change.topics, *([pattern_of(self._own)] if self._own else [])]
        former = dict.fromkeys(pattern for _, patterns in self._former for pattern in patterns)
        if sum(map(len, former)) > _FORMER_CHARACTERS_MAX:
            self._former = [(max(expiry for expiry, _ in self._former), [EVERY_TOPIC])]
            former = dict.fromkeys([EVERY_TOPIC])
        return self._change._replace(
            topics=topics,
            former=[pattern for pattern in former if pattern not in topics],
            settings={topic: number for topic, (_, number) in self._settings.items()},
        )

    def continue_from(self, earlier_change: Change) -> None:
        """Go on with the change that an earlier process has announced."""
        expiry = self._now() + DOUBTED_S
        if self._change is None:
            self._change = Change(earlier_change.id, earlier_change.topics)
        self._former.append((expiry, earlier_change.former))
        self._settings |= {
            topic: (expiry, number) for topic, number in earlier_change.settings.items()
        }

    def withdraw(self) -> None:
        """Announce no change any more."""
        self._change = None
        self._own.clear()
        self._former.clear()
        self._settings.clear()

    def put(self, topics: Sequence[str]) -> None:
        """Announce from now on that the interceptors have changed.

        Args:
            topics: See `Change`.
        """
        current_change = self.current
        if current_change is not None:
            self._former.append((self._now() + DOUBTED_S, current_change.topics))
        self._own.clear()
        self._change = Change(uuid.uuid4().hex, topics)

    def put_topic(self, topic: str, *, loses_records: bool) -> None:
        """Announce that a topic's own settings have changed.

        Args:
            loses_records: Whether it may lose records with them.
        """
        if self._change is None:
            self._change = Change(uuid.uuid4().hex, [])
        if loses_records and EVERY_TOPIC not in self._change.topics:
            self._own[topic] = None
            if are_too_many(self._own):
                self.put([EVERY_TOPIC])
        expiry = self._now() + DOUBTED_S
        if are_too_many([*self._settings, topic]):
            self._former.append((expiry, [pattern_of(self._settings)]))
            self._settings.clear()
            self._change = self._change._replace(id=uuid.uuid4().hex)
        self._settings[topic] = expiry, uuid.uuid4().hex
