"""The dead letters of a partition: those that wait, and the batch of them that goes first.

At most one batch of a partition is on its way. As long as it is not known whether the broker has
it, the same bytes are sent again, and nothing else: the broker recognizes their sequence numbers.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from penstock.gateway.produce.dead_letters.numbers import LetterNumbers
from penstock.kafka.records.header import PREFIX_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic

    Buffer = bytes | memoryview

    Done = Callable[[str | None], None]
    """Called with None when letters are stored, or with an error message: with `LettersRefused`
    where a retry would not help."""

DEADLINE_S: Final = 10.0
"""Dead letters not stored by then have failed: clients wait half a minute for a response."""
RETRIED_S: Final = 600.0
"""How long a retry of a client finds its letters: as `producer_state` holds batches for retries."""
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
_SUSPECT_AFTER: Final = 3
_BLAMED_AFTER: Final = 6
"""With the pauses between them, these attempts take a second and a half."""
TOOK_TOO_LONG: Final = "it took too long"


class Waiter:
    """A request of a client that waits for letters.

    Attributes:
        done: See `Done`.
        timer: Lets it wait no longer.
    """

    __slots__ = ("done", "timer")

    def __init__(self, callback: Done) -> None:
        self.done = callback
        self.timer: asyncio.TimerHandle | None = None


class WaitingLetters:
    """The letters of a batch of a client, as long as they are not stored.

    Attributes:
        to: Where they go.
        key: Identifies the client's batch; None if its retries cannot be recognized.
        go_alone: Whether they are not joined with others any more.
        waiters: The requests that wait for them: more than one if the client retries early, none
            after their time is over.
        batches: Those that are left.
        is_begun: Whether a broker may have some of them, with numbers.
        is_partly_stored: Whether a broker has some of them.
        deadline: When they have failed.
        is_over: Whether they are stored or have failed.
        partition: Where they wait; None if they are in no partition, or in its batch.
        why: Why they are not stored yet.
    """

    __slots__ = ("_pause_s", "batches", "deadline", "go_alone", "is_begun", "is_over",
                 "is_partly_stored", "key", "partition", "size", "to", "waiters",
                 "why")  # fmt: skip

    def __init__(
        self, target: DeadLetterTopic, letters: bytes, deadline: float, key: Hashable = None
    ) -> None:
        self.to = target
        self.key = key
        self.size = len(letters)
        self.batches: deque[Buffer] = deque(_batches(letters))
        self.waiters: list[Waiter] = []
        self.deadline = deadline
        self.is_begun = False
        self.is_partly_stored = False
        self.is_over = False
        self.partition: PartitionLetters | None = None
        self.go_alone = False
        self.why = TOOK_TOO_LONG
        self._pause_s = _PAUSE_S

    @property
    def can_be_joined(self) -> bool:
        """Whether the first batch can be joined with other letters: it is the only batch."""
        return len(self.batches) == 1 and not self.go_alone

    @property
    def outlive_waiters(self) -> bool:
        """Whether they are stored even if nothing waits for them: a retry must find them."""
        return self.is_begun and self.key is not None

    def is_stored(self) -> bool:
        """Take out the first batch, which is stored; return whether it was the last."""
        self.batches.popleft()
        self.is_partly_stored = True
        self._pause_s = _PAUSE_S
        return not self.batches

    def pause_s(self) -> float:
        """Return how long to wait before another attempt: twice as long as before."""
        pause = self._pause_s
        self._pause_s = min(2 * pause, _PAUSE_MAX_S)
        return pause


class LetterBatch:
    """A batch for a partition, with the first batches of some letters.

    Attributes:
        data: Its bytes without numbers; None as long as they are not written.
        parts: The bytes that are sent.
        is_numbered: Whether these have sequence numbers.
        is_sent: Whether a broker may have it, or get it.
        may_be_stored: Whether a broker may have it from an earlier attempt.
        breaks: How often the broker could not handle its request: an unknown error, or the end of
            the connection.
    """

    __slots__ = ("breaks", "data", "is_numbered", "is_sent", "letters", "may_be_stored", "parts")

    def __init__(self, letters: Sequence[WaitingLetters]) -> None:
        self.letters = letters
        self.data: Buffer | None = None
        self.parts: Sequence[Buffer] = ()
        self.is_numbered = False
        self.is_sent = False
        self.may_be_stored = False
        self.breaks = 0

    @property
    def size(self) -> int:
        """The bytes of its letters."""
        return sum(len(letters.batches[0]) for letters in self.letters)

    @property
    def deadline(self) -> float:
        """When all of its letters have failed."""
        return max(letters.deadline for letters in self.letters)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits for it, and no retry would find its letters."""
        return all(letters.is_over for letters in self.letters)

    @property
    def is_suspect(self) -> bool:
        """Whether it goes in a separate request: it may be the cause of the errors."""
        return self.breaks >= _SUSPECT_AFTER

    @property
    def is_blamed(self) -> bool:
        """Whether it is given up where others wait behind it."""
        return self.breaks >= _BLAMED_AFTER

    def leave_out(self) -> None:
        """Leave out letters that are over, unless the bytes are written or all are over."""
        if self.data is None and not self.is_over:
            self.letters = [letters for letters in self.letters if not letters.is_over]

    def begin(self, deadline: float) -> None:
        """Record that a broker may have the letters from now on, with numbers.

        Args:
            deadline: When letters have failed that outlive the requests that wait for them.
        """
        for letters in self.letters:
            if not letters.is_begun:
                letters.is_begun = True
                if letters.outlive_waiters:
                    letters.deadline = deadline

    def be_numbered(self, numbers: LetterNumbers) -> None:
        """Take the next numbers of the partition."""
        assert self.data is not None
        self.parts = numbers.number(self.data)
        self.is_numbered = True

    def lose_numbers(self) -> None:
        """Have it sent with new numbers, or without."""
        self.is_numbered = False
        self.parts = () if self.data is None else [self.data]

    def postpone(self, why: str) -> None:
        """Record why it is not stored yet."""
        for letters in self.letters:
            letters.why = why

    def pause_s(self) -> float:
        """Return how long to wait before another attempt: twice as long as before."""
        return self.letters[0].pause_s()


class PartitionLetters:
    """The letters of a partition.

    Attributes:
        waiting: Those that are behind the batch; none of them is over.
        batch: The batch that goes first; None if there is none yet.
        is_busy: Whether the batch is on its way, or pauses before another attempt.
        numbers: The sequence numbers.
    """

    __slots__ = ("batch", "is_busy", "numbers", "waiting")

    def __init__(self) -> None:
        self.waiting: OrderedDict[WaitingLetters, None] = OrderedDict()
        self.batch: LetterBatch | None = None
        self.is_busy = False
        self.numbers = LetterNumbers()

    def add(self, letters: WaitingLetters) -> None:
        """Let letters wait behind the others."""
        self.waiting[letters] = None
        letters.partition = self

    def remove(self, letters: WaitingLetters) -> None:
        """Take out letters that wait."""
        del self.waiting[letters]
        letters.partition = None

    def is_ready(self) -> bool:
        """Return whether a batch can be sent now."""
        return not self.is_busy and (self.batch is not None or bool(self.waiting))

    @property
    def next_size(self) -> int:
        """The bytes of the next batch at least. It must be ready."""
        batch = self.batch
        return batch.size if batch is not None else len(next(iter(self.waiting)).batches[0])

    @property
    def goes_alone(self) -> bool:
        """Whether the next batch goes in a separate request."""
        return self.batch is not None and self.batch.is_suspect

    @property
    def is_held_up(self) -> bool:
        """Whether letters wait because of a batch that breaks its requests."""
        batch = self.batch
        return (
            batch is not None and batch.is_blamed and (bool(self.waiting) or len(batch.letters) > 1)
        )

    def take(self, room: int) -> LetterBatch:
        """Return the batch that is sent now. It must be ready.

        Args:
            room: The most bytes of joined letters.
        """
        self.is_busy = True
        if self.batch is None:
            self.batch = LetterBatch(self._first(room))
        return self.batch

    def end(self) -> None:
        """Let others be sent: it is known whether the batch is stored."""
        self.batch = None
        self.is_busy = False

    def undo(self) -> None:
        """Let the letters of the batch wait again: it was not sent."""
        if self.batch is not None:
            for letters in reversed(self.batch.letters):
                if not letters.is_over:
                    self.add(letters)
                    self.waiting.move_to_end(letters, last=False)
        self.end()

    def separate(self) -> None:
        """Let the letters of the batch wait again, without being joined any more.

        A broker refuses a batch as a whole, so its error code does not say for which of them.
        """
        assert self.batch is not None
        for letters in self.batch.letters:
            letters.go_alone = True
        self.undo()

    def withdraw(self) -> Sequence[WaitingLetters]:
        """Take all letters out."""
        self.undo()
        all_letters = list(self.waiting)
        for letters in all_letters:
            self.remove(letters)
        return all_letters

    def _first(self, room: int) -> list[WaitingLetters]:
        """Take the first letters out, and those behind them that can be joined with them."""
        group: list[WaitingLetters] = []
        for letters in self.waiting:
            room -= len(letters.batches[0])
            if group and (room < 0 or not letters.can_be_joined):
                break
            group.append(letters)
            if not letters.can_be_joined:
                break
        for letters in group:
            self.remove(letters)
        return group


def _batches(letters: bytes) -> Iterator[memoryview]:
    view = memoryview(letters)
    while view:
        end = int.from_bytes(view[8:PREFIX_BYTES], "big") + PREFIX_BYTES
        yield view[:end]
        view = view[end:]
