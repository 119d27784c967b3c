"""Sequence numbers of idempotent producers whose records are dropped on the way (KIP-905).

A broker takes a producer's batch only where its first sequence number follows the last one it
stored (ProducerAppendInfo.java), and knows a retry by its exact range of numbers. A dropped
record leaves a hole there. So, for each producer and partition, the numbers of later batches
are lowered by as many records as have been dropped before them, and what was made of the last
batches is remembered: a retry goes to the broker as what it was the first time, whatever an
interceptor would say now.

What is promised, and why it holds:

- With this state, each kept record is stored once, in order: the broker sees one producer
  that never dropped anything.
- State that is older than the truth, or missing, counts too few records as dropped. Then a
  number is too high, never too low: the broker refuses the batch with
  OUT_OF_ORDER_SEQUENCE_NUMBER and nothing is stored twice or left out unseen. The client is
  told UNKNOWN_PRODUCER_ID, on which it takes a new epoch and numbers from 0.
- Whatever the broker says it has not stored is taken back, with all that came after it.
- While a batch that will come again is missing, those behind it are told to come again, too:
  a broker that knows nothing of the producer yet would take them, and refuse the missing one.

No I/O here, and no clock of its own. Rules for the next editor: `decide` is called in the
order in which batches go to the broker, and what it returns is final.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Buffer = bytes | memoryview

NUMBERS: Final = 2**31
"""Sequence numbers start again at 0 after the largest int32 (DefaultRecordBatch.java)."""
REMEMBERED: Final = 10
"""Twice as many batches of a producer as a broker knows again (ProducerStateEntry.java)."""
_DROPPED_WHOLE_MAX, _FINAL_MAX = 64, 64

REQUEST_TIMED_OUT: Final = 7
OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID = 45, 46, 59
RETRIED: Final = frozenset(
    # Clients send the same batch again after these; some of them leave open whether it is
    # stored (Errors.java, RetriableException).
    {2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 51, 56, 74, 75, 89, 100, 103}
)


class Producer(NamedTuple):
    """One producer at one partition."""

    topic: str
    partition: int
    producer_id: int


class Stored(NamedTuple):
    """Where a broker said it put a batch; -1 where nothing is known."""

    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1


NOT_STORED: Final = Stored()


@dataclass(slots=True, eq=False)
class Batch:
    """What was made of one of the client's batches.

    Attributes:
        first: The client's first number.
        count: How many records the client sent.
        broker_first: The first number the broker is given.
        dropped: Positions of the records that the broker is not given.
        data: What goes to the broker but for its numbers, as long as it may go there again;
            None after a restart, or where memory was short.
        settled: Whether the broker has it, or nothing of it was left to send.
        stored: Where it is.
        removed_before: The state before it.
        next_before: The state before it.
    """

    first: int
    count: int
    broker_first: int
    dropped: Sequence[int]
    data: Buffer | None = None
    settled: bool = False
    stored: Stored = NOT_STORED
    removed_before: int = 0
    next_before: int = 0

    @property
    def kept(self) -> int:
        """How many records the broker is given."""
        return self.count - len(self.dropped)


@dataclass(slots=True, eq=False)
class Entry:
    """What is known of one producer at one partition.

    Attributes:
        epoch: The producer's epoch.
        removed: How many records have been dropped, modulo `NUMBERS`.
        next: The client's number that comes next.
        doubtful: Whether more may have been dropped than is known here: until the broker
            has taken a batch.
        acknowledged: Whether the broker has taken a batch of this epoch.
        refused: The client's number up to which batches were refused or came too early; what
            follows them comes too early until those have come again.
        final: The first numbers of those among them that do not come again.
        held: The first number of a remembered batch that was refused when it came again:
            nothing behind it may go before it.
        batches: The last ones, oldest first.
        ahead: Batches of which nothing was left to send, behind one that has to come again:
            the client was told that they are done, and does not send them again.
        used: When it was last of use, in seconds since the epoch.
        worth_keeping: Whether records of this epoch have been dropped.
    """

    epoch: int
    removed: int = 0
    next: int = 0
    doubtful: bool = False
    acknowledged: bool = False
    refused: int = 0
    final: list[int] = field(default_factory=list)
    held: int | None = None
    batches: deque[Batch] = field(default_factory=deque)
    ahead: list[Batch] = field(default_factory=list)
    used: float = 0.0
    worth_keeping: bool = False

    @property
    def has_gap(self) -> bool:
        """Whether batches are missing that were refused."""
        return 0 < (self.refused - self.next) % NUMBERS < NUMBERS // 2

    def is_behind_held(self, first: int) -> bool:
        """Whether a number comes after a batch that has to come again first."""
        return self.held is not None and 0 < (first - self.held) % NUMBERS < NUMBERS // 2

    @property
    def gap_code(self) -> int:
        """What to answer to a batch behind a gap.

        It is out of order, as a broker says; but where the missing one comes again, so shall
        this one.
        """
        return OUT_OF_ORDER_SEQUENCE_NUMBER if self.next in self.final else REQUEST_TIMED_OUT

    def refuse(self, end: int) -> None:
        """Remember that what comes before a number was refused."""
        if not self.has_gap or 0 < (end - self.refused) % NUMBERS < NUMBERS // 2:
            self.refused = end

    def find(self, first: int, count: int) -> Batch | None:
        """Give the remembered batch with exactly this range."""
        for batch in (*self.batches, *self.ahead):
            if batch.first == first and batch.count == count:
                return batch
        return None

    def append(self, batch: Batch) -> None:
        """Count on by a batch, and by those that were done before it."""
        batch.removed_before, batch.next_before = self.removed, self.next
        self.removed = (self.removed + len(batch.dropped)) % NUMBERS
        self.next = (batch.first + batch.count) % NUMBERS
        self.batches.append(batch)
        following = [one for one in self.ahead if one.first == self.next]
        if following:
            self.ahead.remove(following[0])
            self.append(following[0])


class Sequences:
    """The numbers of all producers of whom records were dropped, or might be."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        expiration_s: float = 86_400.0,
        entries_max: int = 100_000,
        bytes_max: int = 256 * 2**20,
        keep: Callable[[Producer, Entry | None], None] = lambda *_: None,
        entries: Iterable[tuple[Producer, Entry]] = (),
    ) -> None:
        """Begin.

        Args:
            now: Seconds since the epoch.
            expiration_s: What has been of no use for so long is forgotten; brokers do after
                `producer.id.expiration.ms`, a day unless set.
            entries_max: So many producers' partitions are remembered at most.
            bytes_max: So much of batches that may come again is kept at most.
            keep: Called with what has to outlive this process, before it is acted on; None
                in place of an entry forgets it.
            entries: What an earlier process kept.
        """
        self._now = now
        self._expiration_s = expiration_s
        self._entries_max = entries_max
        self._bytes_left = bytes_max
        self._keep = keep
        self._entries: OrderedDict[Producer, Entry] = OrderedDict(
            sorted(entries, key=lambda pair: pair[1].used)
        )
        self._topics: dict[str, int] = {}
        self._arrived: dict[Producer, list[tuple[int, int]]] = {}
        for producer in self._entries:
            self._topics[producer.topic] = self._topics.get(producer.topic, 0) + 1

    def __bool__(self) -> bool:
        return bool(self._entries)

    def has_topic(self, topic: str) -> bool:
        """Whether numbers of some producer of a topic may have to be changed."""
        return topic in self._topics

    def find(self, producer: Producer, epoch: int, first: int, count: int) -> Batch | None:
        """Give what was made of a batch when it came before; None if it is not remembered."""
        entry = self._entries.get(producer)
        if entry is None or entry.epoch != epoch:
            return None
        return entry.find(first, count)

    def arrived(self, producer: Producer, epoch: int, first: int) -> None:
        """Learn that a batch has come: it will be decided, and not before those it follows.

        What has come and is not decided yet may be overtaken on another connection, when the
        partition's leader moves.
        """
        self._arrived.setdefault(producer, []).append((epoch, first))

    def departed(self, producer: Producer, epoch: int, first: int) -> None:
        """Learn that a batch that has come is decided next, or never will be."""
        waiting = self._arrived[producer]
        waiting.remove((epoch, first))
        if not waiting:
            del self._arrived[producer]

    def decide(
        self,
        producer: Producer,
        epoch: int,
        first: int,
        count: int,
        dropped: Sequence[int],
        data: Buffer,
    ) -> tuple[Batch, Buffer | None] | int:
        """Say what becomes of a batch that is to go to the broker now.

        Args:
            producer: Who sends it, where to.
            epoch: The producer's.
            first: The first sequence number.
            count: How many records the client sent.
            dropped: Positions of those that interceptors dropped now.
            data: The batch without them.

        Returns:
            What goes to the broker, this batch or what it was the first time it came, and
            its bytes but for the numbers; None in place of them where they are not known
            any more and the interceptors did not drop the same records again. An error code
            where it cannot go to the broker now.
        """
        now = self._now()
        entry = self._entries.get(producer)
        if entry is None or epoch > entry.epoch:
            entry = self._begin(producer, epoch, first, now)
        elif epoch < entry.epoch:
            whole = len(dropped) == count
            return Batch(first, count, first, dropped, settled=whole), data  # it is fenced
        entry.used = now
        self._entries.move_to_end(producer)
        known = entry.find(first, count)
        if first == entry.held:
            entry.held = None
        if entry.is_behind_held(first) and not (known and known.settled):
            if not known:
                entry.refuse((first + count) % NUMBERS)
            return REQUEST_TIMED_OUT  # nobody knows here whether the broker has it
        if known is not None:
            if known.data is not None or known.settled:
                return known, known.data
            return known, data if list(known.dropped) == list(dropped) else None
        self._rewind(producer, entry, first)
        ahead = (first - entry.next) % NUMBERS
        if ahead >= NUMBERS // 2:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        if ahead and (entry.has_gap or self._is_overtaking(producer, entry, ahead)):
            entry.refuse((first + count) % NUMBERS)
            return entry.gap_code
        if ahead:
            entry.doubtful = True  # some of its batches took another way
        batch = Batch(
            first,
            count,
            (first - entry.removed) % NUMBERS,
            dropped,
            settled=len(dropped) == count,
        )
        if not batch.settled:
            self._hold(batch, data)
        entry.append(batch)
        if first in entry.final:
            entry.final.remove(first)
        self._trim(entry)
        # As long as nothing was dropped, a later process finds out by itself that nothing was.
        entry.worth_keeping = entry.worth_keeping or bool(dropped)
        if entry.worth_keeping:
            self._keep(producer, entry)
        return batch, data

    def refused(
        self, producer: Producer, epoch: int, first: int, count: int, *, retried: bool
    ) -> None:
        """Learn that a batch was refused before it came to a decision.

        Args:
            producer: Who sent it, where to.
            epoch: The producer's.
            first: The first sequence number.
            count: How many records the client sent.
            retried: Whether the client sends it again under the same numbers.
        """
        entry = self._entries.get(producer)
        if entry is None or epoch > entry.epoch:
            entry = self._begin(producer, epoch, first, self._now())
        if entry.epoch != epoch:
            return
        if entry.find(first, count):
            if entry.held is None or (entry.held - first) % NUMBERS < NUMBERS // 2:
                entry.held = first
            return
        entry.final = [one for one in entry.final if one != first]
        if not retried:
            entry.final = [*entry.final, first][-_FINAL_MAX:]
        ahead = (first - entry.next) % NUMBERS
        in_a_gap = entry.has_gap or self._is_overtaking(producer, entry, ahead)
        if ahead == 0 or (ahead < NUMBERS // 2 and in_a_gap):
            entry.refuse((first + count) % NUMBERS)
            if entry.worth_keeping:
                self._keep(producer, entry)

    def answered(
        self, producer: Producer, epoch: int, batch: Batch, code: int, stored: Stored
    ) -> int:
        """Take the broker's answer to a batch that `decide` gave.

        Returns:
            The error code for the client: the broker's, or UNKNOWN_PRODUCER_ID where the
            broker's only shows that what is known here is too old.
        """
        entry = self._entries.get(producer)
        if entry is None or entry.epoch != epoch or batch not in entry.batches:
            return code
        if code in {0, DUPLICATE_SEQUENCE_NUMBER}:
            batch.stored = stored
            if self._settle(entry, batch) and entry.worth_keeping:
                self._keep(producer, entry)
            entry.doubtful = False
            entry.acknowledged = True
            return code
        if code in RETRIED:
            return code
        oldest = next(one for one in entry.batches if not one.settled or one is batch)
        if code == OUT_OF_ORDER_SEQUENCE_NUMBER and entry.doubtful and batch is oldest:
            self._forget(producer)
            return UNKNOWN_PRODUCER_ID
        if code == -1:
            entry.doubtful = True  # it may have been stored after all
        final = code != OUT_OF_ORDER_SEQUENCE_NUMBER
        self._take_back(producer, entry, batch, final=final)
        return code

    def forget(self, producer: Producer) -> None:
        """Know nothing of a producer any more; it is told UNKNOWN_PRODUCER_ID."""
        if producer in self._entries:
            self._forget(producer)

    def expire(self) -> None:
        """Forget what has been of no use for long. To be called now and then."""
        limit = self._now() - self._expiration_s
        while self._entries and next(iter(self._entries.values())).used < limit:
            self._forget(next(iter(self._entries)))

    def _begin(self, producer: Producer, epoch: int, first: int, now: float) -> Entry:
        known = self._entries.get(producer)
        if known is not None:
            for batch in known.batches:
                self._release(batch)
            if known.worth_keeping:
                self._keep(producer, None)
        else:
            self._topics[producer.topic] = self._topics.get(producer.topic, 0) + 1
        # What has come before this one, and waits on another connection, is the beginning.
        waiting = (n for e, n in self._arrived.get(producer, ()) if e == epoch)
        first = (first - max(_before(n, first) for n in (first, *waiting))) % NUMBERS
        entry = Entry(epoch, next=first, doubtful=first != 0, refused=first, used=now)
        self._entries[producer] = entry
        self._entries.move_to_end(producer)
        while len(self._entries) > self._entries_max:
            self._forget(next(iter(self._entries)))
        return entry

    def _settle(self, entry: Entry, batch: Batch) -> bool:
        """Take note that the broker has a batch, and those that it follows without a gap.

        Returns:
            Whether that is news about any of those.
        """
        batch.settled = True
        self._release(batch)
        news = False
        if not entry.acknowledged:
            return news  # it takes any number from a producer it does not know
        place = entry.batches.index(batch)
        while place and batch.next_before == batch.first:
            place -= 1
            batch = entry.batches[place]
            news = news or not batch.settled
            batch.settled = True
            self._release(batch)
            if entry.held == batch.first:
                entry.held = None
        return news

    def _is_overtaking(self, producer: Producer, entry: Entry, ahead: int) -> bool:
        """Whether a batch that comes before has come, and is not decided yet."""
        return any(
            epoch == entry.epoch and (first - entry.next) % NUMBERS < ahead
            for epoch, first in self._arrived.get(producer, ())
        )

    def _rewind(self, producer: Producer, entry: Entry, first: int) -> None:
        """Let a batch come after all, behind which others were let through too early."""
        for batch in entry.batches:
            if batch.next_before == first != batch.first:
                self._take_back(producer, entry, batch, final=False)
                return

    def _take_back(self, producer: Producer, entry: Entry, batch: Batch, *, final: bool) -> None:
        """Undo a batch that the broker has not stored, and those behind it.

        `final`: the client does not send it again.
        """
        place = entry.batches.index(batch)
        behind = [entry.batches[i] for i in range(place, len(entry.batches))]
        if any(one.settled and one.kept for one in behind):
            return  # the broker has later ones: this was no batch it could have taken
        for one in behind:
            self._release(one)
            entry.batches.remove(one)
            if not one.kept:
                entry.ahead = [*entry.ahead, one][-_DROPPED_WHOLE_MAX:]
        if entry.held is not None and entry.held in {one.first for one in behind}:
            entry.held = None
        entry.removed, entry.next = batch.removed_before, batch.next_before
        entry.refuse((behind[-1].first + behind[-1].count) % NUMBERS)
        if final:
            entry.final = [*entry.final, batch.first][-_FINAL_MAX:]
        if entry.worth_keeping:
            self._keep(producer, entry)

    def _trim(self, entry: Entry) -> None:
        """Remember so many batches that were sent, and what was dropped between them."""
        sent = sum(1 for batch in entry.batches if batch.kept)
        while sent > REMEMBERED or len(entry.batches) - sent > _DROPPED_WHOLE_MAX:
            oldest = entry.batches.popleft()
            self._release(oldest)
            sent -= 1 if oldest.kept else 0

    def _hold(self, batch: Batch, data: Buffer) -> None:
        if len(data) <= self._bytes_left:
            self._bytes_left -= len(data)
            batch.data = data

    def _release(self, batch: Batch) -> None:
        if batch.data is not None:
            self._bytes_left += len(batch.data)
            batch.data = None

    def _forget(self, producer: Producer) -> None:
        entry = self._entries.pop(producer)
        for batch in entry.batches:
            self._release(batch)
        left = self._topics[producer.topic] - 1
        if left:
            self._topics[producer.topic] = left
        else:
            del self._topics[producer.topic]
        if entry.worth_keeping:
            self._keep(producer, None)


def _before(number: int, other: int) -> int:
    """Tell how far a number comes before another; 0 if it does not."""
    distance = (other - number) % NUMBERS
    return distance if distance < NUMBERS // 2 else 0
