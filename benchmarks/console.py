"""What the console costs the event loop: part of `make bench-metrics`.

Microseconds of a refusal, and the longest times in milliseconds for which the event loop is kept
while a page opens, while topics are read, and at each tick of a flood. The least of some rounds,
so that other work of the machine does not count. Ten seconds.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console as Terminal
from rich.table import Table

from penstock.configuration import Address, load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import RecordError, refused, refused_records
from penstock.engine.workers.processes.worker import Worker, WorkerState
from penstock.gateway.observing.console.console import Console
from penstock.gateway.observing.console.recent_refusals import NEW_MAX, ROWS_MAX, RecentRefusals
from penstock.gateway.observing.metrics.broker_checks import Reached
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState
from penstock.gateway.refusal_log import Refused

TOPICS = 1000
ROUNDS = 15
FILE = """
upstream.bootstrap.servers=kafka:9092
record.validator.classes=a.One,a.Two
topics.t-1*.penstock.mode=observe
topics.*.records.policy.class.name=a.Batch
topics.*.records.policy.enabled=true
"""
VERDICT = refused_records([RecordError(0, "an order's amount must be above zero", "a.V")])


def refusal(number: int = 0) -> Refused:
    """A refusal as a request makes it: its texts are new objects."""
    client, topic = b"app-1".decode(), b"orders".decode()
    verdict = refused(87, f"amount {number}", "a.V") if number else VERDICT
    return Refused(topic, 3, client, verdict, address="10.0.0.1", records=5)


def put_us(refusals: list[Refused], *, look: bool) -> float:
    """Microseconds of a refusal."""
    best = float("inf")
    for _ in range(200):
        recent = RecentRefusals()
        recent.put(refusals[0])
        began = time.perf_counter_ns()
        for refusal in refusals:
            recent.put(refusal)
        if look:
            recent.look()
        best = min(best, (time.perf_counter_ns() - began) / len(refusals))
    return best / 1000


def gateway(folder: Path) -> Any:
    """As much of a gateway as the console looks at, with a thousand topics."""
    file = folder / "penstock.properties"
    file.write_text(FILE)
    configuration = load_configuration(file)
    worker = Worker(1)
    worker.state = WorkerState.READY
    pool = SimpleNamespace(alive=[worker] * 8, limit=9)
    schedule = SimpleNamespace(pool=pool, waiting=1, sent=2, judging=[1])

    async def topics() -> dict[str, tuple[int, int]]:
        return {f"t-{number}": (3, 3) for number in range(TOPICS)}

    return SimpleNamespace(
        configuration=configuration,
        plan_digests={},
        connections=[SimpleNamespace(state=ConnectionState.OPEN)] * 10_000,
        connections_max=100_000,
        budget=SimpleNamespace(used_bytes=7, max_bytes=70),
        producers=SimpleNamespace(count=3, translated=4),
        schedules=[schedule],
        all_schedules=[schedule],
        state_writes={},
        settings_position=5,
        settings_are_missing=False,
        audit_trail=None,
        is_loaded=True,
        is_listening=True,
        brokers_out_of_reach=(),
        is_ending=False,
        policies=SimpleNamespace(
            plan=Plan(configuration.policies),
            topics=SimpleNamespace(create_topic=None, alter_config=None),
        ),
        topic_configs=SimpleNamespace(names=lambda _: False),
        cluster=SimpleNamespace(topics=topics, ids=lambda _: {}),
    )


async def kept_ms(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """The longest time for which the event loop was kept by some work, and how long that took."""
    longest = whole = float("inf")
    for _ in range(ROUNDS):
        held = 0.0

        async def watch() -> None:
            nonlocal held
            while True:
                began = time.perf_counter()
                await asyncio.sleep(0)
                held = max(held, time.perf_counter() - began)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        began = time.perf_counter()
        await work()
        took = time.perf_counter() - began
        await asyncio.sleep(0)
        watching.cancel()
        longest, whole = min(longest, held), min(whole, took)
    return longest * 1000, whole * 1000


async def main() -> None:
    """Measure, and print a table."""
    table = Table("what", "us")
    same = [refusal() for _ in range(1000)]
    others = [refusal(number) for number in range(1, 1001)]
    table.add_row("a refusal for a known reason", f"{put_us(same, look=True):.2f}")
    table.add_row(
        f"a new reason, {NEW_MAX} of 1,000 get a row", f"{put_us(others, look=False):.2f}"
    )
    Terminal(width=90, highlight=False).print(table)

    counts = GatewayCounts(records_max=1000)
    for number in range(TOPICS):
        counts._records.add((f"t-{number}", "a.V", "refused"), number)  # noqa: SLF001
    checks: Any = SimpleNamespace(brokers={1: Reached(Address("kafka", 9092), "", 0.0)})
    with tempfile.TemporaryDirectory() as folder:
        console = Console(gateway(Path(folder)), counts, checks)
    for number in range(ROWS_MAX):
        console.refused(refusal(number + 1))
        console._refusals.look()  # noqa: SLF001
    for number in range(3601):
        console._history.sample(counts.totals(), float(number), float(number))  # noqa: SLF001
    watching = console._subscribers.subscribe(console._state, lambda: True)  # noqa: SLF001
    await anext(watching)

    async def topics() -> None:
        console._plans.forget()  # noqa: SLF001
        await console._plans.read()  # noqa: SLF001

    async def flood() -> None:
        for number in range(ROWS_MAX):
            console.refused(refusal(number + 1))
        await console._tick(8)  # noqa: SLF001

    table = Table("what", "longest hold, ms", "whole, ms")
    for what, work in (
        (f"the state: {ROWS_MAX} reasons, an hour, {TOPICS} series, 10,000 connections",
         console._state),  # noqa: SLF001
        (f"the plans of {TOPICS} topics, from nothing", topics),
        (f"a tick with figures, {ROWS_MAX} reasons changed", flood),
    ):  # fmt: skip
        longest, whole = await kept_ms(work)
        table.add_row(what, f"{longest:.2f}", f"{whole:.2f}")
    Terminal(width=110, highlight=False).print(table)
    await watching.aclose()


if __name__ == "__main__":
    asyncio.run(main())
