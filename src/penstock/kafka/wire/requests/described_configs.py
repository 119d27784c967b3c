"""DescribeConfigs (API key 32), versions 1 to 4: adds configs to a response, in slices.

A response names a topic as often as its request does, with all configs each time. So neither is
parsed into objects: additions are put between the bytes of the broker.
"""

from __future__ import annotations

from collections import defaultdict, deque
from struct import error
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.wire.errors import NONE, WireError
from penstock.kafka.wire.frames import THROTTLE_TIME_BYTES, body_of_response
from penstock.kafka.wire.primitives import (
    INT16,
    array_length,
    read_length,
    read_long_length,
    read_varint,
    skip_string,
    skip_tags,
)
from penstock.kafka.wire.requests.produce import ENTRIES_MAX
from penstock.kafka.wire.spliced import SplicedFrame, framed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.kafka.wire.slices import Slices

    Keys = tuple[str, ...]

TOPIC: Final = 2
"""The type of resource (ConfigResource.java)."""
TYPES_FROM: Final = 3
"""The version from which types and documentation are described."""
_FLEXIBLE_FROM: Final = 4
_SLICE_STEPS: Final = 1000
_STEPS_OF_SAME: Final = 10
"""The steps of comparing configs with those that were walked last."""


class Requested(NamedTuple):
    """The content of a request.

    Attributes:
        keys: The keys of ours that are requested, by topic; a topic may be named several times.
        include_synonyms: Whether synonyms are requested.
        include_documentation: Whether documentation is requested.
    """

    keys: dict[str, deque[Keys]]
    include_synonyms: bool
    include_documentation: bool


def read_requested(
    frame: bytes, position: int, version: int, key_names: Collection[str]
) -> Slices[Requested]:
    """Return the resources and keys of a request.

    Args:
        frame: The request, length included.
        position: Where its body begins.
        key_names: The names of the keys to look for.

    Yields:
        After each slice.

    Raises:
        WireError: It cannot be read, or has too many entries.
    """
    try:
        return (yield from _DescribeConfigsRequest(frame, position, version, key_names).read())
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a DescribeConfigs request that cannot be read") from None


class _DescribeConfigsRequest:
    def __init__(
        self, frame: bytes, position: int, version: int, key_names: Collection[str]
    ) -> None:
        self._frame = frame
        self._position = position
        self._version = version
        self._flexible = version >= _FLEXIBLE_FROM
        self._all = tuple(key_names)
        self._names = {name.encode(): name for name in key_names}
        self._same: dict[Keys, Keys] = {}
        self._entries = self._steps = 0

    def read(self) -> Slices[Requested]:
        keys_by_topic: dict[str, deque[Keys]] = defaultdict(deque)
        for _ in range(self._count()):
            kind = self._frame[self._position]
            self._position += 1
            name = self._text().decode()
            own = yield from self._keys()
            self._skip_tags()
            if kind == TOPIC:
                keys_by_topic[name].append(self._same.setdefault(own, own))
        flags = self._frame[self._position : self._position + 2]
        self._position += 2 if self._version >= TYPES_FROM else 1
        self._skip_tags()
        if self._position != len(self._frame):
            raise IndexError
        return Requested(
            keys_by_topic, flags[0] != 0, self._version >= TYPES_FROM and flags[1] != 0
        )

    def _keys(self) -> Slices[Keys]:
        """Read the keys of a resource; none means all."""
        count = self._count()
        named = set()
        for _ in range(count):
            name = self._names.get(self._text())
            if name is not None:
                named.add(name)
            self._steps += 1
            if self._steps % _SLICE_STEPS == 0:
                yield
        self._steps += 1
        if self._steps % _SLICE_STEPS == 0:
            yield
        return tuple(name for name in self._all if name in named) if count > 0 else self._all

    def _count(self) -> int:
        count, self._position = read_long_length(
            self._frame, self._position, flexible=self._flexible
        )
        self._take(count)
        return count

    def _take(self, entries: int) -> None:
        self._entries += max(0, entries)
        if self._entries > ENTRIES_MAX:
            raise WireError("a request with too many entries")

    def _text(self) -> bytes:
        size, start = read_length(self._frame, self._position, flexible=self._flexible)
        self._position = start + size
        if size < 0 or self._position > len(self._frame):
            raise IndexError
        return self._frame[start : self._position]

    def _skip_tags(self) -> None:
        if self._flexible:
            self._take(read_varint(self._frame, self._position)[0])
            self._position = skip_tags(self._frame, self._position)


def with_added(
    frame: bytes, version: int, added: Callable[[str], tuple[int, bytes]]
) -> Slices[list[bytes | memoryview]]:
    """Add configs to the topics of a response.

    Args:
        frame: The response, length included.
        added: Called for each topic that is described, in their order; returns how many configs
            are to be added, and their bytes.

    Yields:
        After each slice.

    Returns:
        Buffers that together are the new frame.

    Raises:
        WireError: It cannot be read.
    """
    try:
        return (yield from _DescribeConfigsResponse(frame, version).with_added(added))
    except (IndexError, error, UnicodeDecodeError):
        raise WireError("a response to DescribeConfigs that cannot be read") from None


class _DescribeConfigsResponse:
    def __init__(self, frame: bytes, version: int) -> None:
        self._frame = frame
        self._version = version
        self._flexible = version >= _FLEXIBLE_FROM
        self._steps = 0
        self._last = (0, b"")
        """The configs that were walked last. A topic that is named again has the same."""

    def with_added(
        self, added: Callable[[str], tuple[int, bytes]]
    ) -> Slices[list[bytes | memoryview]]:
        frame, flexible = self._frame, self._flexible
        spliced = SplicedFrame(frame, 4)
        position = body_of_response(frame, flexible=flexible) + THROTTLE_TIME_BYTES
        results, position = read_long_length(frame, position, flexible=flexible)
        for _ in range(results):
            (code,) = INT16.unpack_from(frame, position)
            position = self._after_text(position + 2)
            kind = frame[position]
            size, start = read_length(frame, position + 1, flexible=flexible)
            name_end = start + max(0, size)
            configs, position = read_long_length(frame, name_end, flexible=flexible)
            behind_count = position
            position = yield from self._after_configs(position, configs)
            more = 0
            if kind == TOPIC and code == NONE:
                more, content = added(frame[start:name_end].decode())
            if more:
                count = array_length(max(0, configs) + more, flexible=flexible)
                spliced.replace(name_end, behind_count, count)
                spliced.replace(position, position, content)
            position = self._after_tags(position)
            if position > len(frame):
                raise IndexError
        return framed(spliced.finish(len(frame))) if spliced.is_changed else [frame]

    def _after_configs(self, position: int, count: int) -> Slices[int]:
        start = position
        last_count, last = self._last
        if count == last_count and self._frame.startswith(last, start):
            self._steps += _STEPS_OF_SAME
            if self._steps >= _SLICE_STEPS:
                self._steps = 0
                yield
            return start + len(last)
        for _ in range(count):
            position = self._after_text(self._after_text(position)) + 3
            synonyms, position = read_long_length(self._frame, position, flexible=self._flexible)
            for _ in range(synonyms):
                position = self._after_text(self._after_text(position)) + 1
                position = self._after_tags(position)
                self._steps += 1
                if self._steps >= _SLICE_STEPS:
                    self._steps = 0
                    yield
            if self._version >= TYPES_FROM:
                position = self._after_text(position + 1)
            position = self._after_tags(position)
            self._steps += 1
            if self._steps >= _SLICE_STEPS:
                self._steps = 0
                yield
        self._last = count, self._frame[start:position]
        return position

    def _after_text(self, position: int) -> int:
        return skip_string(self._frame, position, flexible=self._flexible)

    def _after_tags(self, position: int) -> int:
        return skip_tags(self._frame, position) if self._flexible else position
