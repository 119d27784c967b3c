"""Dead letters that wait for a broker, and what of them goes into its next request.

A request has one batch for a partition (KIP-98), and a broker handles one request of a connection
at a time. So letters that arrive while a request is pending go together into the next request, from
all connections of clients; those of a partition are joined to one batch. A slow request does not
delay others: they overtake it on other connections, without the partitions that it is about.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.records.header import PREFIX_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.gateway.produce.dead_letters.letter_topics import DeadLetterTopic

    Buffer = bytes | memoryview

    Done = Callable[[str | None], None]
    """Called with None when letters are stored, or with an error message: with `LettersRefused`
    where a retry would not help."""

    Place = tuple[str, int]

CHANNELS: Final = 4
"""The most requests to a broker on their way at once."""
REQUEST_BYTES: Final = 2**20
"""A request takes no more letters when it has so many: Kafka's default of `max.request.size`."""
JOINED_BYTES: Final = 2**18
"""The most bytes of joined letters: less than almost any topic's `max.message.bytes`."""
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
TOOK_TOO_LONG: Final = "it took too long"


class WaitingLetters:
    """Letters that are not stored yet.

    Attributes:
        to: Where they go.
        size: Their bytes.
        go_alone: Whether they are not joined with others any more.
        timer: Gives them up at their deadline.
        batches: Those that are left.
        done: See `Done`.
        deadline: When they have failed.
        is_over: Whether they are stored or have failed.
        why: Why they are not stored yet.
    """

    __slots__ = ("_pause_s", "batches", "deadline", "done", "go_alone", "is_over", "size", "timer",
                 "to", "why")  # fmt: skip

    def __init__(self, to: DeadLetterTopic, letters: bytes, done: Done, deadline: float) -> None:
        self.to = to
        self.size = len(letters)
        self.batches: deque[Buffer] = deque(_batches(letters))
        self.done = done
        self.deadline = deadline
        self.is_over = False
        self.go_alone = False
        self.timer: asyncio.TimerHandle | None = None
        self.why = TOOK_TOO_LONG
        self._pause_s = _PAUSE_S

    @property
    def can_be_joined(self) -> bool:
        """Whether the first batch can be joined with other letters: it is the only batch."""
        return len(self.batches) == 1 and not self.go_alone

    def is_stored(self) -> bool:
        """Take out the first batch, which is stored; return whether it was the last."""
        self.batches.popleft()
        self._pause_s = _PAUSE_S
        return not self.batches

    def pause_s(self) -> float:
        """Return how long to wait before another attempt: twice as long as before."""
        pause = self._pause_s
        self._pause_s = min(2 * pause, _PAUSE_MAX_S)
        return pause


class LetterQueue:
    """The letters that wait for a broker: partitions take turns, and each keeps its order."""

    def __init__(self) -> None:
        self._waiting: dict[Place, deque[WaitingLetters]] = {}
        self._behind: dict[Place, deque[WaitingLetters]] = {}
        self._free = list(range(CHANNELS - 1, -1, -1))
        self._prompt: set[int] = set()

    def append(self, place: Place, letters: WaitingLetters) -> None:
        """Take letters of a partition."""
        behind = self._behind.get(place)
        if behind is None:
            behind = self._waiting.setdefault(place, deque())
        behind.append(letters)

    def begin(self) -> int | None:
        """Return a channel for a request now; None if the letters go into a later request."""
        if not self._waiting or self._prompt or not self._free:
            return None
        channel = self._free.pop()
        self._prompt.add(channel)
        return channel

    def take(self) -> dict[Place, Sequence[WaitingLetters]]:
        """Return the content of a request: by partition, letters whose first batches are sent.

        Those of a partition are joined to a batch. Letters that are over are left out.

        `release` must be called with the result.
        """
        taken: dict[Place, Sequence[WaitingLetters]] = {}
        room = REQUEST_BYTES
        for place, waiting in list(self._waiting.items()):
            while waiting and waiting[0].is_over:
                waiting.popleft()
            if not waiting:
                del self._waiting[place]
                continue
            if taken and len(waiting[0].batches[0]) > room:
                break
            group = _first(waiting, min(room, JOINED_BYTES))
            room -= sum(len(letters.batches[0]) for letters in group)
            taken[place] = group
            self._behind[place] = self._waiting.pop(place)
        return taken

    def release(self, taken: Mapping[Place, Sequence[WaitingLetters]]) -> None:
        """Let other letters of the same partitions be sent: no response is awaited any more."""
        for place in taken:
            behind = self._behind.pop(place)
            if behind:
                self._waiting[place] = behind

    def separate(self, place: Place, group: Sequence[WaitingLetters]) -> None:
        """Let released letters be sent again, before others of the partition, without joining them.

        A broker refuses a batch as a whole, so its error code does not say for which of them.
        """
        waiting = self._waiting.setdefault(place, deque())
        for letters in reversed(group):
            letters.go_alone = True
            waiting.appendleft(letters)

    def be_slow(self, channel: int) -> None:
        """Let other channels overtake a channel whose request takes long."""
        self._prompt.discard(channel)

    def goes_on(self, channel: int) -> bool:
        """Return whether a channel sends the next request; a prompt channel is preferred."""
        if not self._prompt:
            self._prompt.add(channel)
        return channel in self._prompt

    def end(self, channel: int) -> None:
        """Take a channel back."""
        self._prompt.discard(channel)
        self._free.append(channel)


def _first(waiting: deque[WaitingLetters], room: int) -> list[WaitingLetters]:
    """Take the first letters out, and those behind them that can be joined with them.

    Args:
        waiting: The letters of a partition; the first are not over.
        room: The most bytes of joined letters.
    """
    group = [waiting.popleft()]
    room -= len(group[0].batches[0])
    while group[0].can_be_joined and waiting:
        following = waiting[0]
        if not following.is_over:
            room -= len(following.batches[0])
            if room < 0 or not following.can_be_joined:
                break
            group.append(following)
        waiting.popleft()
    return group


def _batches(letters: bytes) -> Iterator[memoryview]:
    view = memoryview(letters)
    while view:
        end = int.from_bytes(view[8:PREFIX_BYTES], "big") + PREFIX_BYTES
        yield view[:end]
        view = view[end:]
