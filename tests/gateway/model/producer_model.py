"""Idempotent producers, as models.

What they do is what librdkafka (rdkafka_request.c, rdkafka_broker.c, rdkafka_idempotence.c) and
the Java client (Sender.java, TransactionManager.java) do with one partition, as far as it
affects stored records, and the results of an application.
"""

from collections import deque
from dataclasses import dataclass, field

NUMBERS = 2**31
IN_FLIGHT = 5
RETRIABLE = frozenset({2, 3, 5, 6, 7, 13, 19, 20, 56, 100})
NOT_STORED = frozenset({3, 6, 10, 19, 45, 59, 87})
"""After these errors, it is known that the attempt has stored nothing."""
NOT_LEADER = 6
TIMED_OUT = -192
"""A client's own error: it has given up a batch (`message.timeout.ms`, `delivery.timeout.ms`)."""


def after(number: int, count: int) -> int:
    return (number + count) % NUMBERS


def distance(number: int, other: int) -> int:
    ahead = (other - number) % NUMBERS
    return ahead if ahead < NUMBERS // 2 else ahead - NUMBERS


@dataclass(eq=False)
class Batch:
    """One batch of a producer, as long as it is not answered for good.

    `is_part`: it was a part of a larger batch. `ambiguous`: an attempt may have stored it without the producer's knowledge. `doubled`: it
    was sent under another epoch after that: the producer's own fault if it is there twice.
    """

    records: list[int]
    first: int = -1
    epoch: int = -1
    tries: int = 0
    reset: bool = False
    ambiguous: bool = False
    may_be_doubled: bool = False
    is_part: bool = False

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
    """The common part of both models.

    Its records have successive numbers from `base` on. `bumps` are the codes of the errors
    because of which it took a new epoch. `leaders_return`: records that a leader had appended when
    it answered 6 may be stored in the end.
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
    forges = False
    leaders_return: bool = False

    def make(self, records: list[int]) -> None:
        """Queue a batch."""
        self.waiting.append(Batch(records))

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.in_flight

    def give_up(self) -> bool:
        """Give up the oldest batch that has been sent; return whether there is one.

        The application gets an error, though the batch may be stored.
        """
        batch = self._oldest_sent()
        if batch is None:
            return False
        if any(attempt.batch is batch for attempt in self.in_flight):
            batch.ambiguous = True
        self.refused.append((batch, TIMED_OUT))
        self._given_up(batch)
        return True

    def _oldest_sent(self) -> Batch | None:
        raise NotImplementedError

    def _given_up(self, batch: Batch) -> None:
        raise NotImplementedError

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
        may_return = self.leaders_return and code == NOT_LEADER
        if code is None or may_return or (code not in NOT_STORED and code not in {0, 46}):
            batch.ambiguous = True
            # It may have been renumbered while this attempt was on its way.
            batch.may_be_doubled = batch.may_be_doubled or attempt.epoch != batch.epoch
        self._answered(attempt, batch, code)

    def _answered(self, attempt, batch, code):
        raise NotImplementedError


@dataclass
class Librdkafka(Producer):
    """librdkafka: an acknowledgement includes all batches before it (rd_kafka_dr_implicit_ack)."""

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
        """Return the next request, if anything may be sent."""
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

    def _oldest_sent(self):
        """Only batches in its queue expire: a request in flight has a separate time limit."""
        return self.waiting[0] if self.waiting and self.waiting[0].first >= 0 else None

    def _given_up(self, batch):
        self.waiting.remove(batch)
        self._take_epoch(TIMED_OUT)  # once nothing is in flight (rd_kafka_idemp_drain_epoch_bump)

    def _acknowledged(self, batch):
        if self.acked_record < batch.records[0] - 1:
            for earlier in [
                waiting for waiting in self.waiting if waiting.records[0] < batch.records[0]
            ]:
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
    `unresolved`: the number after a batch that was given up when it was being sent again; no new
    batch is sent until it is known what became of those before it (`maybeResolveSequences`).
    `is_lost`: a batch was acknowledged under an epoch that it had been renumbered from; the
    numbers of the new epoch begin behind it then, and no broker ever takes them.
    """

    last_acked: int = -1
    tracked: list = field(default_factory=list)
    is_lost: bool = False
    unresolved: int | None = None

    def __post_init__(self):
        self.last_acked = after(self.next, -1) if self.next else -1

    def leader_changed(self) -> None:
        """It sends to the new leader at once, also with requests in flight at the old leader."""

    def to_send(self) -> Attempt | None:
        """Return the next request, if anything may be sent."""
        if self.unresolved is not None and not self.tracked:
            if not self._is_next(self.next):
                self._take_epoch(TIMED_OUT)
            self.unresolved = None
        if self.bump:
            self._begin_epoch()
        if not self.waiting or len(self.in_flight) >= IN_FLIGHT:
            return None
        batch = self.waiting[0]
        if batch.first < 0:
            if self.unresolved is not None or any(
                producer.epoch != self.epoch for producer in self.tracked
            ):
                return None
            batch.renumber(self.epoch, self.next)
            self.next = batch.end
            self.tracked.append(batch)
        elif (
            min(self.tracked, key=lambda tracked: distance(batch.first, tracked.first)) is not batch
        ):
            return None
        self.waiting.popleft()
        return self._send(batch)

    def _begin_epoch(self):
        self.epoch, self.next, self.bump, self.last_acked = self.epoch + 1, 0, False, -1
        self.unresolved = None
        self.tracked.sort(key=lambda tracked: tracked.records[0])
        for batch in self.tracked:
            batch.renumber(self.epoch, self.next)
            batch.reset = True
            self.next = batch.end

    def _answered(self, attempt, batch, code):
        if batch not in self.tracked:
            if code in {0, 46} and attempt.epoch == self.epoch:  # given up, and stored
                self._acked(after(batch.end, -1))
            return
        if code == 10 and len(batch.records) > 1:
            self._split(batch)
        elif code in {0, 46}:
            self.is_lost = self.is_lost or attempt.epoch != batch.epoch
            self.tracked.remove(batch)
            self._acked(after(batch.end, -1))
            self.acknowledged.append(batch)
        elif code is None or code in RETRIABLE:
            batch.tries += 1
            self._requeue(batch)
        elif code in {45, 59}:
            if self._shows_a_gap(batch, code):
                self._take_epoch(code)
            self._requeue(batch)
        elif code == 47 and attempt.epoch != batch.epoch:
            self._requeue(batch)
        else:
            self.tracked.remove(batch)
            self.refused.append((batch, code))
            self._take_epoch(code)

    def _acked(self, last):
        if self.last_acked < 0 or distance(self.last_acked, last) > 0:
            self.last_acked = last

    def _is_next(self, first):
        return first == (after(self.last_acked, 1) if self.last_acked >= 0 else 0)

    def _shows_a_gap(self, batch, code):
        """Whether a batch would be refused permanently (`canRetry`)."""
        if code == 45 and self.unresolved is not None:
            return batch.first == self.unresolved
        return not batch.reset and (code == 59 or self._is_next(batch.first))

    def _oldest_sent(self):
        return min(self.tracked, key=lambda tracked: tracked.records[0], default=None)

    def _given_up(self, batch):
        """Continue; new batches wait only for batches queued for a retry."""
        self.tracked.remove(batch)
        if batch.tries:
            ahead = self.unresolved is None or distance(self.unresolved, batch.end) > 0
            self.unresolved = batch.end if ahead else self.unresolved
        if batch in self.waiting:
            self.waiting.remove(batch)

    def _split(self, batch):
        self.tracked.remove(batch)
        middle = len(batch.records) // 2
        for records, first in (
            (batch.records[:middle], batch.first),
            (batch.records[middle:], after(batch.first, middle)),
        ):
            part = Batch(records, first, batch.epoch, is_part=True)
            part.reset, part.ambiguous = batch.reset, batch.ambiguous
            part.may_be_doubled = batch.may_be_doubled
            self.tracked.append(part)
            self._requeue(part)


@dataclass
class Transactional(Librdkafka):
    """librdkafka with transactions; its knowledge of their ends.

    `closing`: it sends queued batches, and then ends the transaction. `ending`: whether it commits
    (True) or aborts, from its first EndTxn request on. `open` are the batches of the transaction.
    """

    closing: bool = False
    ending: bool | None = None
    open: list = field(default_factory=list)
    committed: list = field(default_factory=list)
    aborted: list = field(default_factory=list)

    def make(self, records: list[int]) -> None:
        """Queue a batch, if the transaction is not about to end."""
        if not self.closing and not self.bump and not self.fatal:
            super().make(records)
            self.open.append(self.waiting[-1])

    def to_send(self) -> Attempt | None:
        """Return the next request; after an error only the end of the transaction."""
        return None if self.bump else super().to_send()

    def _answered(self, attempt, batch, code):
        if code in {47, 90}:
            self.fatal = f"{code} for {batch}"
            return
        super()._answered(attempt, batch, code)
        if self.fatal:  # with transactions it may be aborted
            self.fatal = ""
            self._take_epoch(code)

    def wants_to_end(self) -> bool:
        """Return whether only the end of the transaction is pending."""
        return self.closing and not self.in_flight and (self.bump or not self.waiting)

    def ended(self, epoch: int) -> None:
        """Continue after the end of a transaction."""
        (self.committed if self.ending else self.aborted).append(self.open)
        if epoch != self.epoch:
            self.epoch, self.next, self.next_ack, self.next_err = epoch, 0, 0, 0
            self.drain = False
        self.open, self.ending = [], None
        self.closing = self.bump = False
        self.waiting.clear()
