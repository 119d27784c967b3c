"""ShareFetch (API key 78), versions 1 and 2: streams a response, without the addresses in it.

KIP-932. Behind the records a response may name the addresses of new leaders. They are taken out,
since the length of the response has been sent by then: in their place there is an empty array and
a tagged field of the same size, which clients ignore as they ignore every tag that they do not know
(KIP-482). Clients keep the ids of the leaders, and know the addresses of brokers from Metadata.
"""

from __future__ import annotations

from struct import error
from typing import TYPE_CHECKING, Final, Protocol

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import INT32, read_varint, skip_string, skip_tags, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.kafka.wire.slices import Slices

_TAGS: Final = (127, 16383)
"""Tags that Kafka does not use; with one of them every size from 3 bytes is possible."""
_ACQUIRED_BYTES: Final = 8 + 8 + 2
_ACQUIRED_AT_ONCE: Final = 200
"""So many entries are one step if none has tagged fields, as is true of all that brokers send."""
_PART_MAX_BYTES: Final = 2**18
"""The maximum of parts that are read at once: texts, and unknown tagged fields."""
SLICE_STEPS: Final = 500


class Rewriter(Protocol):
    """Changes a response that is streamed, and not its length."""

    def rewrite(self, piece: bytes) -> Slices[Sequence[bytes | memoryview]]:
        """Return the replacement of the next bytes, which has the same length.

        Raises:
            WireError: They cannot be read.
        """


class ShareFetchRewriter:
    """Takes the addresses out of a response."""

    def __init__(self) -> None:
        self._step: Callable[[bytes, int], int] = self._head
        self._remaining_bytes = -1
        self._carry = b""
        self._skip = 0
        self._topics = self._partitions = self._acquired_length = 0
        self._are_found = self._has_ended = False
        self._instead = b""

    def rewrite(self, piece: bytes) -> Slices[Sequence[bytes | memoryview]]:
        """Return the replacement of the next bytes, which has the same length.

        Yields:
            After each slice.

        Raises:
            WireError: They cannot be read.
        """
        if self._remaining_bytes < 0:
            self._remaining_bytes = 4 + INT32.unpack_from(piece)[0]  # the head comes in one piece
        self._remaining_bytes -= len(piece)
        if self._are_found:
            return [self._filler(len(piece))]
        if self._has_ended:
            return [piece]
        data, carried = self._carry + piece, len(self._carry)
        position, are_found = yield from self._walk(data)
        prefix_size = position - carried
        if are_found:
            self._instead = _instead_of(self._remaining_bytes + len(piece) - prefix_size)
            return [memoryview(piece)[:prefix_size], self._filler(len(piece) - prefix_size)]
        self._carry = data[position:]
        if not self._has_ended and (
            not self._remaining_bytes or len(self._carry) > _PART_MAX_BYTES
        ):
            raise WireError("a response to ShareFetch that cannot be read")
        return [piece]

    def _filler(self, size: int) -> bytes:
        part, self._instead = self._instead[:size], self._instead[size:]
        return part.ljust(size, b"\0")

    def _walk(self, data: bytes) -> Slices[tuple[int, bool]]:
        """Walk to the addresses; return the position, and whether they are complete."""
        position = steps = 0
        while not self._are_found and not self._has_ended:
            skipped = min(self._skip, len(data) - position)
            position += skipped
            self._skip -= skipped
            try:
                position = self._step(data, position)
            except (IndexError, error):
                break
            steps += 1
            if steps % SLICE_STEPS == 0:
                yield
        return position, self._are_found

    # Each of these reads a small part. It raises IndexError, and has changed nothing, if the part
    # is not complete; then it is called again with more data.

    def _head(self, data: bytes, position: int) -> int:
        position = skip_tags(data, position + 8) + 4 + 2  # throttle time, error code
        self._topics, position = read_varint(data, skip_string(data, position, flexible=True) + 4)
        self._step = self._topic
        return position

    def _topic(self, data: bytes, position: int) -> int:
        if self._topics <= 1:
            self._step = self._nodes
            return position
        self._partitions, position = read_varint(data, position + 16)
        self._topics -= 1
        self._step = self._partition
        return position

    def _partition(self, data: bytes, position: int) -> int:
        if self._partitions <= 1:
            position = _within(data, skip_tags(data, position))
            self._step = self._topic
            return position
        position = skip_string(data, position + 4 + 2, flexible=True)
        position = skip_string(data, position + 2, flexible=True)
        size, position = read_varint(data, skip_tags(data, position + 4 + 4))
        self._skip = max(0, size - 1)
        self._partitions -= 1
        self._step = self._acquired_count
        return position

    def _acquired_count(self, data: bytes, position: int) -> int:
        self._acquired_length, position = read_varint(data, position)
        self._step = self._acquired_records
        return position

    def _acquired_records(self, data: bytes, position: int) -> int:
        if self._acquired_length <= 1:
            position = _within(data, skip_tags(data, position))
            self._step = self._partition
            return position
        there = (len(data) - position) // (_ACQUIRED_BYTES + 1)
        there = min(self._acquired_length - 1, there, _ACQUIRED_AT_ONCE)
        end = position + there * (_ACQUIRED_BYTES + 1)
        if there and not any(data[position + _ACQUIRED_BYTES : end : _ACQUIRED_BYTES + 1]):
            self._acquired_length -= there
            return end
        position = _within(data, skip_tags(data, position + _ACQUIRED_BYTES))
        self._acquired_length -= 1
        return position

    def _nodes(self, data: bytes, position: int) -> int:
        self._are_found = data[position] > 1
        self._has_ended = not self._are_found
        return position


def _within(data: bytes, position: int) -> int:
    if position > len(data):
        raise IndexError
    return position


def _instead_of(size: int) -> bytes:
    """Return the end of a response whose last bytes, so many, are to be without addresses.

    After that there are zeros: the content of a tagged field.
    """
    for tag in _TAGS:
        head = b"\x01\x01" + varint(tag)  # an empty array, one tagged field
        for width in range(1, 6):
            content = size - len(head) - width
            if content >= 0 and len(varint(content)) == width:
                return head + varint(content)
    raise WireError("a response to ShareFetch that cannot be read")
