"""Which records of a producer count, where several gateways have written about it at the same time.

A gateway may decide about a batch while another gateway is still writing its decision about the
same batch, or about an earlier batch that the client has given up. Both cannot be right if their
interceptors differ, as while a configuration is rolled out, or if the broker does not object to a
gap. Then a gateway writes a record that fences, and the order of the topic counts.

- It is void if another gateway has written something that its writer had not read.
- Otherwise each record is void that another gateway writes after it without having read it.
- After a void record, records that its writer writes without having read it back are void, too.

All gateways read the same topic, and so agree. A decision that fences takes effect once its writer
has read it back.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_WRITERS_MAX: Final = 8


class Fence(NamedTuple):
    """A record that fences.

    Attributes:
        position: The position after it in the topic.
        writer: The gateway that wrote it.
    """

    position: int
    writer: str


class Head(NamedTuple):
    """The fields at the beginning of a record, which order it among others of its producer.

    Attributes:
        epoch: The producer epoch.
        writer: The gateway that wrote the record.
        revision: A number that increases with each record of this gateway; 0 for none.
        seen: Up to where the gateway had read the topic; None if the record does not say it.
        fence: The last fence that the gateway had read, if it does not fence itself.
        fences: Whether it does.
    """

    epoch: int
    writer: str
    revision: int = 0
    seen: int | None = None
    fence: Fence | None = None
    fences: bool = False


class Fences:
    """The last fence in the records of a producer's epoch, and how far each gateway has written.

    Attributes:
        last: The last fence; None if there is none.
    """

    __slots__ = ("_void", "_written", "last")

    def __init__(self) -> None:
        self.last: Fence | None = None
        self._written: dict[str, int] = {}
        self._void: dict[str, int] = {}

    @property
    def have_void(self) -> bool:
        """Whether a record did not count."""
        return bool(self._void)

    def is_void(self, head: Head) -> bool:
        """Whether the next record does not count."""
        seen_position = head.seen
        if seen_position is None:
            return False
        fence = self.last
        if fence is not None and fence.writer != head.writer and seen_position < fence.position:
            return True
        if seen_position < self._void.get(head.writer, 0):
            return True
        return head.fences and any(
            position > seen_position
            for writer, position in self._written.items()
            if writer != head.writer
        )

    def take(self, head: Head, position: int) -> None:
        """Take the next record, which counts.

        Args:
            position: The position after it.
        """
        fence = Fence(position, head.writer) if head.fences else head.fence
        if fence is not None and (self.last is None or fence.position > self.last.position):
            self.last = fence
        _put(self._written, head.writer, position)

    def leave_out(self, head: Head, position: int) -> None:
        """Take the next record, which does not count.

        Args:
            position: The position after it.
        """
        _put(self._void, head.writer, position)


def _put(positions: dict[str, int], writer: str, position: int) -> None:
    positions.pop(writer, None)
    positions[writer] = position
    if len(positions) > _WRITERS_MAX:
        del positions[next(iter(positions))]
