"""Idempotent producers and the broker that they write to, as models.

What they do is what librdkafka (rdkafka_request.c, rdkafka_broker.c, rdkafka_idempotence.c),
the Java client (Sender.java, TransactionManager.java) and Kafka (ProducerAppendInfo.java,
ProducerStateEntry.java) do with one partition, in as far as it matters for what is stored,
and for what an application is told.
"""

from collections import deque
from dataclasses import dataclass, field

NUMBERS = 2**31
IN_FLIGHT = 5
RETRIABLE = frozenset({2, 3, 5, 6, 7, 13, 19, 20, 56, 100})
NOT_STORED = frozenset({3, 6, 10, 19, 45, 59, 87})
"""After these an attempt is known to have stored nothing."""


def after(number: int, count: int) -> int:
    return (number + count) % NUMBERS


def distance(number: int, other: int) -> int:
    ahead = (other - number) % NUMBERS
    return ahead if ahead < NUMBERS // 2 else ahead - NUMBERS


class Append:
    """One batch in a leader's log; its answer comes when the followers have it."""

    __slots__ = ("code", "records", "state_before")

    def __init__(self, records, state_before):
        self.records = records
        self.state_before = state_before
        self.code: int | None = None


class BrokerModel:
    """One partition, with leaders that change.

    What a leader has appended is answered when it is replicated; when another leader comes
    before that, it is gone, and the producer is told NOT_LEADER_OR_FOLLOWER.
    """

    def __init__(self):
        self.log: list[int] = []
        self.leader = 0
        self._state: dict[int, tuple[int, tuple]] = {}
        self._tail: list[tuple[int, Append]] = []

    def has_stored(self, producer_id: int, number: int) -> None:
        """Begin with a record of a producer already stored, outside of this model's log."""
        self._state[producer_id] = (0, ((number, number),))

    def knows(self, producer_id: int) -> bool:
        """Whether a producer's numbers are checked: a first batch may have any."""
        return producer_id in self._state

    def has_replicated(self, producer_id: int) -> bool:
        """Whether another leader would know a producer."""
        first = next((done for one, done in self._tail if one == producer_id), None)
        return self.knows(producer_id) and (first is None or first.state_before is not None)

    def all_records(self) -> set[int]:
        """What is in the leader's log."""
        return {*self.log, *(one for _, done in self._tail for one in done.records)}

    def last_sequence(self, producer_id: int, epoch: int) -> int | None:
        """What DescribeProducers tells."""
        known = self._state.get(producer_id)
        if known is None or known[0] != epoch or not known[1]:
            return None
        return known[1][-1][1]

    def is_before_last(self, producer_id: int, epoch: int, first: int, records: list[int]) -> bool:
        """Whether a batch is stored, and ends before the last ones that are known again."""
        known_epoch, batches = self._state.get(producer_id, (-1, ()))
        return (
            known_epoch == epoch
            and distance(after(first, len(records) - 1), batches[0][0]) > 0
            and set(records) <= self.all_records()
        )

    def forget(self, producer_id: int) -> None:
        """Expire what is known of a producer (producer.id.expiration.ms)."""
        self._state.pop(producer_id, None)

    def append(self, producer_id: int, epoch: int, first: int, records: list[int]) -> Append:
        """Append a batch; its code is there at once if nothing had to be replicated."""
        before = self._state.get(producer_id)
        done = Append(records, before)
        last = after(first, len(records) - 1)
        known_epoch, batches = before or (-1, ())
        if epoch < known_epoch:
            done.code = 47
        elif epoch == known_epoch and (first, last) in batches:
            # A retry is answered when what it repeats is.
            self._tail.append((producer_id, done))
            done.records = []
        elif before is not None and first != (
            after(batches[-1][1], 1) if epoch == known_epoch else 0
        ):
            done.code = 45
        else:
            kept = batches if epoch == known_epoch else ()
            self._state[producer_id] = (epoch, (*kept, (first, last))[-5:])
            self._tail.append((producer_id, done))
        return done

    def replicate(self, count: int) -> None:
        """Let the followers catch up by some batches, and answer those."""
        for _, done in self._tail[:count]:
            self.log += done.records
            done.code = 0
        del self._tail[:count]

    def move(self) -> None:
        """Another leader: what was not replicated is gone."""
        self.leader = 1 - self.leader
        while self._tail:
            producer_id, done = self._tail.pop()
            if done.records:
                if done.state_before is None:
                    self._state.pop(producer_id, None)
                else:
                    self._state[producer_id] = done.state_before
            done.code = 6


@dataclass(eq=False)
class Batch:
    """One batch of a producer, as long as it is not answered for good.

    `ambiguous`: an attempt may have stored it without the producer's knowledge. `doubled`: it
    was sent under another epoch after that: the producer's own fault if it is there twice.
    """

    records: list[int]
    first: int = -1
    epoch: int = -1
    tries: int = 0
    reset: bool = False
    ambiguous: bool = False
    may_be_doubled: bool = False

    def renumber(self, epoch: int, first: int) -> None:
        if self.ambiguous and epoch != self.epoch:
            self.may_be_doubled = True
        self.epoch, self.first = epoch, first

    @property
    def end(self) -> int:
        return after(self.first, len(self.records))


@dataclass(eq=False)
class Attempt:
    """A batch as it stands on the wire."""

    batch: Batch
    epoch: int
    first: int
    records: list[int]


@dataclass
class Producer:
    """What both models have.

    Its records have successive numbers from `base` on. `bumps` are the codes of the errors
    because of which it took a new epoch.
    """

    producer_id: int
    base: int = 0
    next: int = 0
    epoch: int = 0
    waiting: deque = field(default_factory=deque)
    in_flight: list = field(default_factory=list)
    acknowledged: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    bump: bool = False
    bumps: list = field(default_factory=list)
    fatal: str = ""
    is_lost = False

    def make(self, records: list[int]) -> None:
        """Queue a batch."""
        self.waiting.append(Batch(records))

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.in_flight

    def _send(self, batch: Batch) -> Attempt:
        attempt = Attempt(batch, batch.epoch, batch.first, list(batch.records))
        self.in_flight.append(attempt)
        return attempt

    def _take_epoch(self, code: int) -> None:
        if not self.bump:
            self.bump = True
            self.bumps.append(code)

    def _requeue(self, batch: Batch) -> None:
        at = 0
        while at < len(self.waiting) and self.waiting[at].records[0] < batch.records[0]:
            at += 1
        self.waiting.insert(at, batch)

    def answered(self, attempt: Attempt, code: int | None) -> None:
        """Take an answer; None for a connection that broke."""
        self.in_flight.remove(attempt)
        batch = attempt.batch
        if code is None or (code not in NOT_STORED and code not in {0, 46}):
            batch.ambiguous = True
            # It may have been renumbered while this attempt was on its way.
            batch.may_be_doubled = batch.may_be_doubled or attempt.epoch != batch.epoch
        self._answered(attempt, batch, code)

    def _answered(self, attempt, batch, code):
        raise NotImplementedError


@dataclass
class Librdkafka(Producer):
    """librdkafka: an acknowledgement is one for all before it (rd_kafka_dr_implicit_ack)."""

    next_ack: int = 0
    next_err: int = 0
    acked_record: int = -1
    drain: bool = False

    def __post_init__(self):
        self.next_ack = self.next_err = self.next
        self.acked_record = self.base - 1

    def leader_changed(self) -> None:
        self.drain = True

    def to_send(self) -> Attempt | None:
        """Give what is sent next, if anything may be sent."""
        if self.fatal or not self.waiting:
            return None
        if self.bump or self.drain:
            if self.in_flight:
                return None
            self.drain = False
        if self.bump:
            self.epoch, self.next, self.bump = self.epoch + 1, 0, False
            self.next_ack = self.next_err = 0
            for batch in self.waiting:
                batch.renumber(self.epoch, -1)
                batch.tries = 0
        if len(self.in_flight) >= IN_FLIGHT:
            return None
        batch = self.waiting.popleft()
        if batch.first < 0:
            batch.renumber(self.epoch, self.next)
            self.next = batch.end
        return self._send(batch)

    def _answered(self, attempt, batch, code):
        if code in {0, 46}:
            self._acknowledged(batch)
            return
        if code is None or code in RETRIABLE:
            self.drain = True
            if code is None or code not in NOT_STORED:
                batch.tries += 1
            self._requeue(batch)
        elif code == 45:
            ahead = distance(self.next_ack, batch.first)
            if ahead > 0:
                self._take_epoch(code)
                self._requeue(batch)
            else:
                self.fatal = f"45 for {batch}, next to be acknowledged is {self.next_ack}"
        elif code == 59:
            if batch.tries or self.next_err != batch.first:
                self.fatal = f"59 for {batch}, next error at {self.next_err}"
            else:
                self._take_epoch(code)
                self._requeue(batch)
        else:
            self.refused.append((batch, code))
            self._take_epoch(code)
        self.next_err = batch.end

    def _acknowledged(self, batch):
        if self.acked_record < batch.records[0] - 1:
            for earlier in [one for one in self.waiting if one.records[0] < batch.records[0]]:
                self.waiting.remove(earlier)
                self.acknowledged.append(earlier)
        elif batch.first != self.next_ack and batch.first == self.next_err:
            self.fatal = f"success of {batch} when an error was expected"
        if self.next_err == self.next_ack:
            self.next_err = batch.end
        self.next_ack = batch.end
        self.acked_record = batch.records[-1]
        self.acknowledged.append(batch)


@dataclass
class Java(Producer):
    """The Java client: batches in flight are known by their sequence numbers.

    `tracked` are those that have numbers and no final answer, on the wire or waiting.
    `is_lost`: a batch was acknowledged under an epoch that it had been renumbered from; the
    numbers of the new epoch begin behind it then, and no broker ever takes them.
    """

    last_acked: int = -1
    tracked: list = field(default_factory=list)
    is_lost: bool = False

    def __post_init__(self):
        self.last_acked = after(self.next, -1) if self.next else -1

    def leader_changed(self) -> None:
        """It sends to the new leader at once, whatever is in flight at the old one."""

    def to_send(self) -> Attempt | None:
        """Give what is sent next, if anything may be sent."""
        if self.bump:
            self._begin_epoch()
        if not self.waiting or len(self.in_flight) >= IN_FLIGHT:
            return None
        batch = self.waiting[0]
        if batch.first < 0:
            if any(one.epoch != self.epoch for one in self.tracked):
                return None
            batch.renumber(self.epoch, self.next)
            self.next = batch.end
            self.tracked.append(batch)
        elif min(self.tracked, key=lambda one: distance(batch.first, one.first)) is not batch:
            return None
        self.waiting.popleft()
        return self._send(batch)

    def _begin_epoch(self):
        self.epoch, self.next, self.bump, self.last_acked = self.epoch + 1, 0, False, -1
        self.tracked.sort(key=lambda one: one.records[0])
        for batch in self.tracked:
            batch.renumber(self.epoch, self.next)
            batch.reset = True
            self.next = batch.end

    def _answered(self, attempt, batch, code):
        if batch not in self.tracked:
            return
        if code == 10 and len(batch.records) > 1:
            self._split(batch)
        elif code in {0, 46}:
            self.is_lost = self.is_lost or attempt.epoch != batch.epoch
            self.tracked.remove(batch)
            last = after(batch.end, -1)
            if self.last_acked < 0 or distance(self.last_acked, last) > 0:
                self.last_acked = last
            self.acknowledged.append(batch)
        elif code is None or code in RETRIABLE:
            batch.tries += 1
            self._requeue(batch)
        elif code in {45, 59}:
            is_next = batch.first == (after(self.last_acked, 1) if self.last_acked >= 0 else 0)
            if not batch.reset and (code == 59 or is_next):
                self._take_epoch(code)
            self._requeue(batch)
        elif code == 47 and attempt.epoch != batch.epoch:
            self._requeue(batch)
        else:
            self.tracked.remove(batch)
            self.refused.append((batch, code))
            self._take_epoch(code)

    def _split(self, batch):
        self.tracked.remove(batch)
        middle = len(batch.records) // 2
        for records, first in (
            (batch.records[:middle], batch.first),
            (batch.records[middle:], after(batch.first, middle)),
        ):
            part = Batch(records, first, batch.epoch)
            part.reset, part.ambiguous = batch.reset, batch.ambiguous
            part.may_be_doubled = batch.may_be_doubled
            self.tracked.append(part)
            self._requeue(part)
