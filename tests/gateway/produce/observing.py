"""A session whose batches are observed."""

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.gateway.produce.observed_batches import ObservedBatches
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch
from tests.metrics import Metrics

DATA = encode_batch([Record(0, None, b"x")] * 4)


class Pool:
    """A supervisor that starts when the test says so."""

    rings = None

    def __init__(self) -> None:
        self.opened, self.error = asyncio.Event(), None
        self.jobs, self.closed = [], []

    async def start(self) -> None:
        await self.opened.wait()
        if self.error is not None:
            raise self.error

    def submit(self, batch: Any, done: Callable[..., None]) -> None:
        self.jobs.append((batch.data, done))

    async def close(self, *, drain_s: float = 0.0, close_s: float = 30.0) -> None:
        assert close_s <= 5.0
        self.closed.append(drain_s)


class Observing:
    """Observed batches with pools, a clock and the reported outcomes."""

    def __init__(self, max_bytes: int = 10_000, ring_pool: Any = None) -> None:
        self.pools, self.refusals, self.tasks, self.now = [], [], [], 1000.0
        self.counts = GatewayCounts(records_max=1000)
        self.batches = ObservedBatches(
            self._pool,
            max_bytes=max_bytes,
            ring_pool=ring_pool,
            run=lambda work: self.tasks.append(asyncio.ensure_future(work)),
            refused=self.refusals.append,
            counts=self.counts,
            clock=lambda: self.now,
        )

    def _pool(self) -> Pool:
        self.pools.append(Pool())
        return self.pools[-1]

    async def opened(self, error: Exception | None = None) -> None:
        self.pools[-1].error = error
        self.pools[-1].opened.set()
        await asyncio.gather(*self.tasks)

    async def counted(self) -> dict[tuple[str, ...], float]:
        found = Metrics((await render(self.counts.families())).decode())
        return {
            key[1:]: value for key, value in found.of("penstock_records_total").items() if value
        }
