"""A broker's own check of sequence numbers, and an idempotent producer, both as models."""

import json
from collections import deque
from dataclasses import dataclass, field

NUMBERS = 2**31


class BrokerModel:
    """One partition: what ProducerAppendInfo.java and ProducerStateEntry.java do."""

    def __init__(self):
        self.log: list[int] = []
        self._state: dict[int, tuple[int, deque]] = {}

    def has_stored(self, producer_id: int, number: int) -> None:
        """Begin with a record of a producer already stored, outside of this model's log."""
        self._state[producer_id] = (0, deque([(number, number)], maxlen=5))

    def knows(self, producer_id: int) -> bool:
        """Whether a producer's numbers are checked: a first batch may have any."""
        return producer_id in self._state

    def append(self, producer_id: int, epoch: int, first: int, data: bytes) -> int:
        """Append a batch; `data` is a JSON list of record numbers. Gives the error code."""
        records = json.loads(data)
        last = (first + len(records) - 1) % NUMBERS
        known = self._state.get(producer_id)
        if known is None:
            batches = deque(maxlen=5)
        else:
            known_epoch, batches = known
            if epoch < known_epoch:
                return 47
            if epoch == known_epoch and (first, last) in batches:
                return 0
            if epoch > known_epoch:
                if first != 0:
                    return 45
                batches = deque(maxlen=5)
            elif batches and first != (batches[-1][1] + 1) % NUMBERS:
                return 45
        batches.append((first, last))
        self._state[producer_id] = (epoch, batches)
        self.log += records
        return 0


@dataclass(eq=False)
class ClientBatch:
    """One batch of a producer, as long as it is not answered for good."""

    records: list[int]
    first: int
    epoch: int
    tries: int = 0


@dataclass
class ProducerModel:
    """An idempotent producer with five requests in flight, as librdkafka and Java are.

    After a refusal it takes a new epoch as soon as nothing is left unanswered that may have
    been stored: so nothing it does by itself stores a record twice.
    """

    producer_id: int
    next: int = 0
    epoch: int = 0
    waiting: deque = field(default_factory=deque)
    in_flight: deque = field(default_factory=deque)
    acknowledged: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    bump: bool = False
    fatal: str = ""

    def make(self, records: list[int]) -> None:
        """Queue a batch."""
        self.waiting.append(ClientBatch(records, -1, -1))

    def to_send(self) -> ClientBatch | None:
        """Give the batch that is sent next, if one may be sent."""
        if self.bump and not (self.waiting and self.waiting[0].tries):
            # What is first in line is not stored, so nothing behind it is.
            if self.in_flight:
                return None
            self.epoch, self.next, self.bump = self.epoch + 1, 0, False
            for batch in self.waiting:
                batch.first, batch.tries = -1, 0
        if not self.waiting or len(self.in_flight) == 5:
            return None
        batch = self.waiting[0]
        if batch.first < 0:
            batch.first, batch.epoch = self.next, self.epoch
            self.next = (self.next + len(batch.records)) % NUMBERS
        self.waiting.popleft()
        self.in_flight.append(batch)
        return batch

    def answered(self, batch: ClientBatch, code: int) -> None:
        """Take the answer to a batch in flight."""
        self.in_flight.remove(batch)
        if code in {0, 46}:
            self.acknowledged.append(batch)
        elif code in {6, 7}:
            self._again([batch])
        elif code == 45:
            if not self.bump and not self._older_comes_again(batch):
                self.fatal = f"45 for the first of those not answered: {batch}"
            batch.tries = 0  # it says that nothing is stored
            self._again([batch])
        elif code == 59:
            batch.tries = 0
            self.bump = True
            self._again([batch])
        elif code == 87:
            self.bump = True
            self.refused.append(batch)
        else:
            self.fatal = f"{code} for {batch}"

    def disconnected(self) -> None:
        """Everything in flight is sent again, in its order."""
        for batch in self.in_flight:
            batch.tries += 1
        lost = list(self.in_flight)
        self.in_flight.clear()
        self._again(lost)

    def _older_comes_again(self, batch: ClientBatch) -> bool:
        return any(
            0 <= other.first and other.epoch == batch.epoch
            and 0 < (batch.first - other.first) % NUMBERS < NUMBERS // 2
            for other in (*self.waiting, *self.in_flight)
        )  # fmt: skip

    def _again(self, batches: list[ClientBatch]) -> None:
        self.waiting = deque(sorted([*batches, *self.waiting], key=lambda batch: batch.records[0]))
