"""Announces a gateway to the other gateways that share the state of producers.

Each of them writes its name to the state topic every minute. It announces changes of its
interceptors, before it uses the new interceptors, with their topics: the others then write their
decisions about batches of these topics that the gateway may be deciding, too (see `fences`). Its
record has a digest of its interceptors, also after it has ended: a gateway that starts with the
same interceptors as all others announces nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.gateway.produce.producer_state.changes import OwnChange, read_change
from penstock.gateway.produce.producer_state.last_interceptors import (
    OTHERS_MAX_AGE_S,
    Interceptors,
    KeptInterceptors,
    are_as_before,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.produce.producer_state.changes import Change
    from penstock.kafka.cluster.compacted_topic import LogRecord
    from penstock.kafka.cluster.compacted_topic_follower import LogFollower

HEARTBEAT_S: Final = 60.0
_PREFIX: Final = b"gateway:"
_VERSION: Final = 1


class Announcement(NamedTuple):
    """The last announcement of a gateway.

    Attributes:
        interceptors: Its interceptors; None if it did not say.
        at_ms: When, by the clock of a broker.
        process: Differs for each process of a gateway; empty if it did not say.
        change: The last change of its interceptors; None if it has none.
    """

    interceptors: Interceptors | None
    at_ms: int
    process: str
    change: Change | None


class Presence:
    """The announcements of a gateway about itself, and those of others.

    Attributes:
        own: The change of this gateway's interceptors.
        on_change: Called when another gateway's interceptors change, with a function that returns
            whether a topic is affected; not before `begin`.
        on_topic: Called with each topic whose own settings have changed for another gateway.
        interceptors: Returns those of this gateway now; without it, they are not announced.
        before: The announcement of an earlier process of this gateway; None if it is not known.
    """

    def __init__(self, gateway: str, *, now: Callable[[], float] = time.monotonic) -> None:
        """Announce nothing yet.

        Args:
            gateway: The name of this gateway.
            now: Returns the monotonic time in seconds.
        """
        self._gateway = gateway
        self.own = OwnChange(now)
        self._changes: dict[str, tuple[Change, int]] = {}
        self.on_change: Callable[[Callable[[str], bool]], None] = lambda _: None
        self.on_topic: Callable[[str], None] = lambda _: None
        self.interceptors: Callable[[], Interceptors] | None = None
        self.before: Announcement | None = None
        self._process = uuid.uuid4().hex
        self._announcements: dict[str, Announcement] = {}
        self._has_begun = False
        self._is_compared = False
        self._is_name_shared = False

    @property
    def key(self) -> bytes:
        """The key of this gateway's record."""
        return _PREFIX + self._gateway.encode()

    @property
    def value(self) -> bytes:
        """The value of this gateway's record."""
        # An older gateway with state of its own warns of those that share theirs.
        return json.dumps({"version": _VERSION, "shares": True, **self._fields}).encode()

    @property
    def last_value(self) -> bytes | None:
        """The value of the record when this gateway ends; None if nothing is to stay of it."""
        if self.interceptors is None:
            return None
        return json.dumps({"version": _VERSION, **self._fields}).encode()

    @property
    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if (change := self.own.current) is not None:
            fields |= change.fields
        if self.interceptors is not None:
            digest, in_doubt = self.interceptors()
            # Until it has been compared, and where two gateways have a name, it is in doubt.
            in_doubt |= self._is_name_shared or not self._is_compared
            fields |= {"interceptors": [digest, in_doubt], "process": self._process}
        return fields

    def begin(self) -> None:
        """Keep the last announcement as that of an earlier process."""
        self.before = self._announcements.get(self._gateway)
        if self.before is not None and self.before.change is not None:
            self.own.continue_from(self.before.change)
        self._has_begun = True

    def may_be_as_before(self, digest: str) -> bool:
        """Whether the interceptors may be as before, whenever that was."""
        previous_interceptors = self.before.interceptors if self.before is not None else None
        return (
            bool(digest)
            and previous_interceptors is not None
            and previous_interceptors == Interceptors(digest, False)
        )

    def compare(self, digest: str | None) -> bool:
        """Return whether the interceptors are as before, here and at other gateways.

        If not, the changes of other gateways are reported that were read until now.

        Args:
            digest: Of the interceptors here; None if they have changed. The record of this gateway
                has been written and read since `begin`: it is from now.
        """
        now, previous_announcement = self._announcements.get(self._gateway), self.before
        are_equal = False
        is_now = now is not None and now.process == self._process
        if previous_announcement is not None and now is not None and is_now:
            self._leave_long_past(previous_announcement, now.at_ms)
        if digest is not None and previous_announcement is not None and now is not None and is_now:
            kept_interceptors = {
                name: KeptInterceptors(
                    announcement.interceptors, (now.at_ms - announcement.at_ms) / 1000
                )
                for name, announcement in {
                    **self._announcements,
                    self._gateway: previous_announcement,
                }.items()
            }
            own = kept_interceptors.pop(self._gateway)
            are_equal = not self._is_name_shared and are_as_before(
                digest, own, kept_interceptors.values()
            )
        self._is_compared = True
        if not are_equal:
            for change, at_ms in self._changes.values():
                if not (is_now and now is not None and _is_long_past(at_ms, now.at_ms)):
                    self.on_change(change.affects)
        return are_equal

    def _leave_long_past(self, announcement: Announcement, now_ms: int) -> None:
        """Leave out the change of an earlier process that ended long ago."""
        if _is_long_past(announcement.at_ms, now_ms):
            self.before = announcement._replace(change=None)
            self.own.withdraw()

    @staticmethod
    def is_about(key: bytes | None) -> bool:
        """Whether a record of the topic is about a gateway."""
        return key is not None and key.startswith(_PREFIX)

    def read(self, record: LogRecord) -> None:
        """Take a record about a gateway; its time is that of the broker."""
        assert record.key is not None
        name = record.key[len(_PREFIX) :].decode(errors="replace")
        announcement = self._announcements[name] = _announcement(record)
        if name == self._gateway:
            if self._has_begun and announcement.process != self._process:
                self._is_name_shared = True
                self._read_change_of_namesake(announcement.change, record.timestamp_ms)
            return
        if announcement.change is not None:
            self._read_change(name, announcement.change, record.timestamp_ms)

    def _read_change_of_namesake(self, change: Change | None, at_ms: int) -> None:
        own = self.own.current
        if change is None:
            return
        if own is not None and own.id == change.id:
            self._changes.setdefault(self._gateway, (own, at_ms))
        self._read_change(self._gateway, change, at_ms)

    def _read_change(self, name: str, change: Change, at_ms: int) -> None:
        previous_change, previous_ms = self._changes.get(name, (None, at_ms))
        self._changes[name] = change, at_ms
        if not self._is_compared:
            return  # `compare` finds it
        if previous_change is None or _is_long_past(previous_ms, at_ms):
            self.on_change(change.affects)
        elif previous_change.id != change.id:
            self.on_change(lambda topic: change.affects(topic) or previous_change.affects(topic))
        else:
            for topic in change.new_settings(previous_change):
                self.on_topic(topic)


def _is_long_past(at_ms: int, now_ms: int) -> bool:
    """Return whether no batch is retried that was decided at a time, by the clocks of brokers."""
    return now_ms - at_ms > OTHERS_MAX_AGE_S * 1000


def _fields(value: bytes | None) -> dict[str, Any]:
    """Return the fields of an announcement; empty if the record cannot be read."""
    try:
        fields = json.loads(value or b"")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _announcement(record: LogRecord) -> Announcement:
    fields = _fields(record.value)
    process = fields.get("process")
    interceptors = None
    match fields.get("interceptors"):
        case [str(digest), bool(in_doubt)]:
            interceptors = Interceptors(digest, in_doubt)
    return Announcement(interceptors, record.timestamp_ms, str(process or ""), read_change(fields))


async def announce(follower: LogFollower, presence: Presence) -> None:
    """Announce every minute that a gateway is running, until the task is cancelled."""
    while True:
        follower.write([(presence.key, presence.value)], lambda *_: None)
        await asyncio.sleep(HEARTBEAT_S)


def withdraw(follower: LogFollower, presence: Presence) -> None:
    """Announce that a gateway ends; it is written when the follower is closed."""
    follower.write([(presence.key, presence.last_value)], lambda *_: None)
