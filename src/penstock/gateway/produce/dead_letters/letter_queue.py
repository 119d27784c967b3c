"""Dead letters that wait for a broker, and what of them goes into its next request.

A request has one batch for a partition (KIP-98), and a broker handles one request of a connection
at a time. So letters that arrive while a request is pending go together into the next request, from
all connections of clients. A slow request does not delay others: they overtake it
on other connections, without the partitions that it is about.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.records.header import PREFIX_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

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
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
TOOK_TOO_LONG: Final = "it took too long"


class WaitingLetters:
    """Letters that are not stored yet.

    Attributes:
        to: Where they go.
        size: Their bytes.
        timer: Gives them up at their deadline.
        batches: Those that are left.
        done: See `Done`.
        deadline: When they have failed.
        is_over: Whether they are stored or have failed.
        why: Why they are not stored yet.
    """

    __slots__ = ("_pause_s", "batches", "deadline", "done", "is_over", "size", "timer", "to",
                 "why")  # fmt: skip

    def __init__(self, to: DeadLetterTopic, letters: bytes, done: Done, deadline: float) -> None:
        self.to = to
        self.size = len(letters)
        self.batches: deque[Buffer] = deque(_batches(letters))
        self.done = done
        self.deadline = deadline
        self.is_over = False
        self.timer: asyncio.TimerHandle | None = None
        self.why = TOOK_TOO_LONG
        self._pause_s = _PAUSE_S

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

    def take(self) -> dict[Place, WaitingLetters]:
        """Return the content of a request: by partition, letters whose first batch is sent.

        Letters that are over are left out.

        `release` must be called with the result.
        """
        taken: dict[Place, WaitingLetters] = {}
        over: list[Place] = []
        size = 0
        for place, waiting in self._waiting.items():
            while waiting and waiting[0].is_over:
                waiting.popleft()
            if not waiting:
                over.append(place)
                continue
            size += len(waiting[0].batches[0])
            if taken and size > REQUEST_BYTES:
                break
            taken[place] = waiting[0]
        for place in over:
            del self._waiting[place]
        for place in taken:
            behind = self._behind[place] = self._waiting.pop(place)
            behind.popleft()
        return taken

    def release(self, taken: Mapping[Place, WaitingLetters]) -> None:
        """Let other letters of the same partitions be sent: no response is awaited any more."""
        for place in taken:
            behind = self._behind.pop(place)
            if behind:
                self._waiting[place] = behind

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


def _batches(letters: bytes) -> Iterator[memoryview]:
    view = memoryview(letters)
    while view:
        end = int.from_bytes(view[8:PREFIX_BYTES], "big") + PREFIX_BYTES
        yield view[:end]
        view = view[end:]
