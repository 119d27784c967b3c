"""A gateway in front of a partition, as sequence numbers see it."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.gateway.produce.producer_state.all_producers import Decided, Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.kafka.wire.requests.leaders import Leader

KEY = ProducerKey("t", 0, 7)
ARRIVAL = Arrival("t", 0, 7)
TIMED_OUT, TOO_LARGE, NOT_LEADER, OUT_OF_ORDER, UNKNOWN_PRODUCER = 7, 10, 6, 45, 59


class Gateway:
    """`Producers` of which only a single partition and a single producer are used."""

    def __init__(self, *, is_shared: bool = False, **options: Any) -> None:
        self.now = 0.0
        self.records = []
        self.is_kept = True
        self.is_shared = is_shared
        self.whole = None  # the batch that the client's bytes are sent of, as its leader has it
        self.producers = Producers(
            now=lambda: self.now, keep=self._keep, is_shared=is_shared, **options
        )

    def _keep(self, key: ProducerKey, record: Any, done: Callable[[str | None], None]) -> None:
        self.records.append((key, record))
        if self.is_shared and self.is_kept:
            self.producers.restore(key, record, self.now)
        done(None if self.is_kept else "full")

    def decide(
        self,
        first: int,
        count: int,
        dropped: Sequence[int] = (),
        *,
        epoch: int = 0,
        connection: int = 1,
        data: bytes = b"data",
    ) -> Any:
        """Return the batch, or the code."""
        failures = []
        decided = self.producers.decide(
            KEY, ARRIVAL, epoch, Range(first, count), dropped, data,
            connection=connection, callback=failures.append,
        )  # fmt: skip
        if not isinstance(decided, Decided):
            return decided
        self.whole = decided.batch if decided.is_whole else None
        for failure in failures:
            if failure is not None:
                self.producers.not_kept(KEY, epoch, decided.batch)
        return decided.batch

    def send(self, batch: Any, *, epoch: int = 0) -> int:
        return self.producers.send(KEY, epoch, batch)

    def answered(self, batch: Any, code: int, *, epoch: int = 0) -> int:
        return self.producers.on_response(KEY, epoch, batch, code, Stored())

    def acknowledge(self, batch: Any, *, epoch: int = 0) -> Any:
        return self.producers.acknowledge(KEY, epoch, batch)

    def store(self, first: int, count: int, dropped: Sequence[int] = (), *, epoch: int = 0) -> Any:
        """Let a batch go all the way."""
        batch = self.decide(first, count, dropped, epoch=epoch)
        assert self.send(batch, epoch=epoch) == 0
        assert self.answered(batch, 0, epoch=epoch) == 0
        return batch

    def needs_last_sequence(
        self,
        first: int,
        count: int,
        dropped: Sequence[int] = (),
        *,
        epoch: int = 0,
        connection: int = 1,
    ) -> bool:
        return self.producers.queries.is_needed(
            KEY, epoch, Range(first, count), dropped, connection=connection
        )

    def learn_last_sequence(
        self,
        first: int,
        count: int,
        last: int | None,
        dropped: Sequence[int] = (),
        *,
        epoch: int = 0,
        connection: int = 1,
        leader: Leader | None = None,
    ) -> bool:
        """Let the broker return the producer's last sequence; return whether it can be decided."""
        return self.producers.queries.on_last_sequence(
            KEY, ARRIVAL, epoch, Range(first, count), last, dropped, connection=connection,
            leader=leader,
        )  # fmt: skip

    def reads(self, other: "Gateway") -> None:
        """Read all records that another gateway has stored."""
        for key, record in other.records:
            self.producers.restore(key, record, self.now)
