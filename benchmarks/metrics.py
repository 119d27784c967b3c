"""Measures counting and exposing metrics: `make bench-metrics`.

In one process, without a network: microseconds of an increment and of an observed time, next to
those of Prometheus' client library; of a Produce request without policies in a session, with and
without `metrics.listener`; milliseconds to write a thousand series. The least of many short
measurements, so that other work of the machine does not count. Half a minute.
"""

import asyncio
import logging
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace

import prometheus_client
import structlog
from rich.console import Console
from rich.table import Table

from penstock.gateway.observing.metrics.cells import Histogram, MetricCounter
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.gateway.sessions.routes import route
from penstock.gateway.sessions.session import Session

SERIES = 1000


def least(work: Callable[[], object], times: int = 20, slices: int = 3000) -> float:
    """Microseconds of one call: the least of many slices."""
    best = float("inf")
    for _ in range(slices):
        began = time.perf_counter_ns()
        for _ in range(times):
            work()
        best = min(best, (time.perf_counter_ns() - began) / times)
    return best / 1000


class Nowhere:
    """A connection on which nothing is sent."""

    def write(self, data: bytes) -> None:
        """Do nothing."""

    def writelines(self, data: object) -> None:
        """Do nothing."""


def request_of(counts: GatewayCounts | None) -> Callable[[], None]:
    """A Produce request of 300 bytes and its response, through a session of a gateway."""
    gateway = SimpleNamespace(
        requires_sasl=False,
        sasl_max_bytes=1000,
        clock=time.monotonic,
        counts=counts,
        producers=(),
        transactions=(),
        policies=SimpleNamespace(plan=SimpleNamespace(is_empty=True)),
        topic_configs=SimpleNamespace(are_stored=False),
        audit_topic="",
        shared_producers=None,
    )
    session = Session(
        gateway,
        route,
        client=Nowhere(),
        upstream=Nowhere(),
        request_max_bytes=10**6,
        on_done=lambda: None,
        on_progress=lambda: None,
    )
    head = struct.pack(">hhihcbbhi", 0, 9, 5, 1, b"c", 0, 0, 1, 1000)
    request = struct.pack(">i", len(head) + 300) + head + bytes(300)
    response = struct.pack(">ii", 64, 5) + bytes(60)

    def once() -> None:
        session.client_data(request)
        session.upstream_data(response)

    return once


def write(counter: MetricCounter) -> float:
    """Milliseconds to write all series of a counter."""

    async def measure() -> float:
        best = float("inf")
        for _ in range(50):
            began = time.perf_counter()
            await render([counter])
            best = min(best, time.perf_counter() - began)
        return best * 1000

    return asyncio.run(measure())


def main() -> None:
    """Measure, and print a table."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    labels = ("topic", "policy", "outcome")
    counter = MetricCounter("a_total", "A.", labels, series_max=2 * SERIES)
    histogram = Histogram("b_seconds", "B.", "api")
    registry = prometheus_client.CollectorRegistry()
    its_counter = prometheus_client.Counter("a", "A.", labels, registry=registry)
    its_histogram = prometheus_client.Histogram("b_seconds", "B.", ["api"], registry=registry)
    for number in range(SERIES):
        counter.add((f"topic-{number}", "some.Policy", "accepted"))
        its_counter.labels(f"topic-{number}", "some.Policy", "accepted").inc()
    values = ("topic-1", "some.Policy", "accepted")
    table = Table("what", "Penstock", "prometheus_client")
    nothing = least(lambda: None)
    for what, own, its in (
        ("count, by three labels, us", lambda: counter.add(values),
         lambda: its_counter.labels(*values).inc()),
        ("observe a time, by one label, us", lambda: histogram.observe("Produce", 0.003),
         lambda: its_histogram.labels("Produce").observe(0.003)),
    ):  # fmt: skip
        table.add_row(what, f"{least(own) - nothing:.2f}", f"{least(its) - nothing:.2f}")
    its_ms = least(lambda: prometheus_client.generate_latest(registry), 1, 20) / 1000
    table.add_row(f"write {SERIES} series, ms", f"{write(counter):.2f}", f"{its_ms:.2f}")
    counted, uncounted = request_of(GatewayCounts(records_max=1000)), request_of(None)
    table.add_row("a request in the session, not counted, us", f"{least(uncounted):.2f}", "")
    table.add_row("the same, counted, us", f"{least(counted):.2f}", "")
    Console(width=110, highlight=False).print(table)


if __name__ == "__main__":
    main()
