"""A topic of partitions that several gateways use."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.gateway.produce.producer_state.all_producers import Decided, Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

KEY, ARRIVAL = ProducerKey("t", 0, 7), Arrival("t", 0, 7)
TIMED_OUT, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, UNKNOWN_PRODUCER = 7, 19, 45, 59


class Topic:
    """The records of all gateways, in order; each gateway reads them when the test says so."""

    def __init__(self) -> None:
        self.records = []

    def gateway(self, **options: Any) -> "Gateway":
        return Gateway(self, **options)

    def compact(self) -> None:
        """Keep the last record of each key, at its position."""
        last = {key: at for at, (key, *_) in enumerate(self.records)}
        self.records = [
            record if last[record[0]] == at else None for at, record in enumerate(self.records)
        ]


class Gateway:
    def __init__(self, topic: Topic, **options: Any) -> None:
        self.topic, self.now, self.read_to = topic, 1.0, 0
        self.writes_late = False
        self.late = []
        self.producers = Producers(now=lambda: self.now, keep=self._keep, is_shared=True, **options)

    def _keep(self, key: ProducerKey, record: Any, done: Callable[[str | None], None]) -> None:
        if self.writes_late:
            self.late.append((key, record, self.now))
            done("not in time")
            return
        self.topic.records.append((key, record, self.now))
        self.read()
        done(None)

    def write_late(self) -> None:
        """Write the records whose writes timed out, but which arrived at the topic late."""
        self.topic.records += self.late
        self.late.clear()

    def read(self) -> "Gateway":
        while self.read_to < len(self.topic.records):
            record = self.topic.records[self.read_to]
            self.read_to += 1
            if record is not None:
                key, value, used = record
                self.producers.restore(key, value, used, self.read_to)
        return self

    def decide(
        self,
        first: int,
        count: int,
        dropped: Sequence[int] = (),
        *,
        producer: int = 7,
        epoch: int = 0,
    ) -> Any:
        failures = []
        decided = self.producers.decide(
            KEY._replace(producer_id=producer), ARRIVAL._replace(producer_id=producer), epoch,
            Range(first, count), dropped, b"x", connection=1, callback=failures.append,
        )  # fmt: skip
        if not isinstance(decided, Decided):
            return decided
        if failures[0] is not None:
            self.producers.not_kept(KEY, epoch, decided.batch)
        return decided.batch

    def store(
        self, first: int, count: int, dropped: Sequence[int] = (), *, producer: int = 7
    ) -> Any:
        key = KEY._replace(producer_id=producer)
        batch = self.decide(first, count, dropped, producer=producer)
        assert self.producers.send(key, 0, batch) == 0
        assert self.producers.on_response(key, 0, batch, 0, Stored(9)) == 0
        return batch

    def needs_last_sequence(self, first: int, count: int) -> bool:
        numbers = Range(first, count)
        return self.producers.queries.is_needed(KEY, 0, numbers, (), connection=1)

    def find_last_sequence(self, first: int, count: int, *, last: int | None) -> None:
        self.producers.queries.on_last_sequence(
            KEY, ARRIVAL, 0, Range(first, count), last, connection=1
        )

    def defer(self, first: int, count: int) -> None:
        self.producers.defer(KEY, ARRIVAL, 0, Range(first, count))
