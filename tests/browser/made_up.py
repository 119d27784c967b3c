"""A simulated gateway with an hour of history: for screenshots, and for slow events."""

import asyncio
import math
import random
import socket
import threading
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.configuration import Address, load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import RecordError, refused_records
from penstock.engine.workers.processes.worker import WorkerState
from penstock.gateway.observing.console import state
from penstock.gateway.observing.console.console import Console
from penstock.gateway.observing.metrics.access import Access
from penstock.gateway.observing.metrics.broker_checks import Reached
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.observing.metrics.counts import CountedTotals, GatewayCounts
from penstock.gateway.observing.metrics.http_server import HttpServer
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState, ProducerFigures
from penstock.gateway.refusal_log import Refused
from tests.gateway.observing.metrics.schedules import schedule

FILE = """
upstream.bootstrap.servers=kafka-1:9092,kafka-2:9092,kafka-3:9092
listeners=PLAINTEXT://0.0.0.0:9192
advertised.host=gateway-1
record.validator.classes=company.NoEmptyRecords
record.validation.policy.class.name=penstock.policies.SchemaPolicy
schema.registry.url=http://registry:8081
create.topic.policy.class.name=penstock.policies.TopicRules
topics.orders*.confluent.value.schema.validation=true
topics.payments.confluent.value.schema.validation=true
topics.pii-*.records.policy.class.name=company.Consent
topics.pii-*.records.policy.enabled=true
topics.pii-*.penstock.mode=observe
"""
START = 1_769_961_600.0  # 2026-02-01 16:00 UTC
SCHEMA = "penstock.policies.SchemaPolicy"
REASONS = (
    (
        "orders",
        SCHEMA,
        "value: /amount: must be above 0",
        "checkout-7",
        "User:checkout",
        "10.1.4.17",
        811,
    ),
    (
        "orders",
        SCHEMA,
        "value: /currency: is required",
        "checkout-7",
        "User:checkout",
        "10.1.4.17",
        292,
    ),
    (
        "orders.returns",
        SCHEMA,
        "value: no schema id before the payload",
        "legacy-importer",
        "User:importer",
        "10.1.9.3",
        147,
    ),
    (
        "payments",
        SCHEMA,
        "value: schema id 412 is not registered for payments-value",
        "billing-2",
        "User:billing",
        "10.1.4.40",
        63,
    ),
    (
        "clicks",
        "company.NoEmptyRecords",
        "a record must have a value",
        "web-tracker",
        None,
        "10.1.7.21",
        38,
    ),
    (
        "payments",
        SCHEMA,
        "key: bytes follow the payload",
        "billing-canary",
        "User:billing",
        "10.1.4.41",
        9,
    ),
)
OBSERVED = (
    ("pii-customers", "company.Consent", "consent is missing", "crm-sync", 420),
    ("pii-customers", "company.Consent", "consent has been withdrawn", "crm-sync", 77),
    ("pii-addresses", "company.Consent", "consent is missing", "address-cleaner", 12),
)
TOPICS = (
    "orders",
    "orders.returns",
    "payments",
    "clicks",
    "pii-customers",
    "pii-addresses",
    "audit-log",
)
OWN = {
    "payments": {"schema.validation.level": "payload"},
    "audit-log": {"penstock.mode": "observe"},
}


class Gateway:
    """The parts of a gateway that its console reads."""

    def __init__(self, folder: Any, topics: tuple[str, ...] = TOPICS) -> None:
        file = folder / "penstock.properties"
        file.write_text(FILE)
        self.configuration = load_configuration(file)
        self.configuration = self.configuration.model_copy(
            update={"path": "/etc/penstock/penstock.properties"}
        )
        records = schedule(
            WorkerState.READY,
            WorkerState.READY,
            WorkerState.READY,
            WorkerState.SPARE,
            limit=7,
            waiting=2,
            outstanding=9,
        )
        records.judging = [1]
        self.schedules = self.all_schedules = [records]
        states = (
            [ConnectionState.OPEN] * 214 + [ConnectionState.PAUSED] * 2 + [ConnectionState.CLOSING]
        )
        self.connections = [SimpleNamespace(state=state) for state in states]
        self.connections_max = 2**31 - 1
        self.budget = SimpleNamespace(used_bytes=38_400_000, max_bytes=2**30)
        self.producers = ProducerFigures(0, topics=0, kept_bytes=0, evicted=0, translated=0)
        self.audit_trail = SimpleNamespace(written=1360, left_out=0, held_bytes=0)
        self.settings_position = 57
        self.plan_digests = {"orders": "0123456789ab"}
        self.settings_are_missing = self.is_ending = False
        self.state_writes = {}
        self.is_loaded = self.is_listening = True
        self.brokers_out_of_reach = ()
        self.topic_configs = SimpleNamespace(names=OWN.__contains__, of=lambda name, _: OWN[name])
        self.cluster = SimpleNamespace(
            topics=self._topics, ids=lambda names: {name: UUID(int=1) for name in names}
        )
        self._names = topics
        plan = Plan(self.configuration.policies)
        named = SimpleNamespace(create_topic="penstock.policies.TopicRules", alter_config=None)
        self.policies = SimpleNamespace(plan=plan, topics=named)

    async def _topics(self) -> dict[str, tuple[int, int]]:
        return dict.fromkeys(self._names, (6, 3))


def buckets(times: int, middle_s: float, chance: random.Random) -> list[int]:
    """Return a number of times around a middle, in buckets."""
    counts = [0] * (len(BOUNDS) + 1)
    for _ in range(times):
        seconds = middle_s * math.exp(chance.gauss(0, 0.7))
        counts[next((i for i, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))] += 1
    return counts


def an_hour(console: Console, chance: random.Random) -> None:
    """Let a console sample an hour, with a wave of refusals and a slow quarter of an hour."""
    totals = console._counts.totals()
    for second in range(1, 3601):
        phase = second / 3600
        rate = int(1500 + 400 * math.sin(phase * 7) + chance.gauss(0, 60))
        wave = 45 * math.exp(-(((phase - 0.62) / 0.05) ** 2)) + 1.2
        slow = 1 + 3 * math.exp(-(((phase - 0.3) / 0.06) ** 2))
        records = dict(totals.records)
        for outcome, count in (
            ("accepted", rate),
            ("refused", chance.expovariate(1 / wave)),
            ("would_refuse", chance.expovariate(1 / 6)),
        ):
            records[outcome] = records.get(outcome, 0) + int(count)
        totals = CountedTotals(
            totals.requests + rate // 12,
            records,
            totals.client_bytes + rate * 640,
            totals.broker_bytes + rate * 470,
            *(
                tuple(a + b for a, b in zip(before, buckets(8, middle * slow, chance), strict=True))
                for before, middle in (
                    (totals.produce, 0.004),
                    (totals.waiting, 0.0004),
                    (totals.judging, 0.0011),
                    (totals.broker, 0.0021),
                )
            ),
        )
        console._history.sample(totals, float(second), START + second)
    console._counts.totals = lambda: totals


class MadeUp:
    """Serves the console of a simulated gateway from a thread."""

    def __init__(
        self, folder: Any, topics: tuple[str, ...] = TOPICS, *, at: float = START + 3600
    ) -> None:
        self.gateway = Gateway(folder, topics)
        counts = GatewayCounts(records_max=1000)
        addresses = {node: Address(f"kafka-{node}.internal", 9092) for node in (1, 2, 3)}
        brokers = {node: Reached(address, "", 1e12) for node, address in addresses.items()}
        self.console = Console(
            self.gateway,
            counts,
            SimpleNamespace(brokers=brokers),
            now=lambda: at,
            clock=lambda: 0.0,
        )
        an_hour(self.console, random.Random(7))  # the same hour each time
        self.console._tick = self._tick
        self.console._counts.records_by_topic = self._by_topic
        self.console._counts.restarts = lambda: {"deadline": 1, "crashed": 0}
        self._fill()
        self._loop = asyncio.new_event_loop()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    async def _tick(self, _: int) -> None:
        """Do nothing: the hour is over."""
        self.console._publish_refusals()

    def _fill(self) -> None:
        for topic, policy, message, client, principal, address, times in reversed(REASONS):
            verdict = refused_records([RecordError(0, message, policy)])
            for _ in range(times):
                self.put(
                    Refused(
                        topic, 2, client, verdict, principal=principal, address=address, records=4
                    )
                )
            self.console._refusals.look()
        for topic, policy, message, client, times in reversed(OBSERVED):
            verdict = refused_records([RecordError(0, message, policy)])
            for _ in range(times):
                self.put(Refused(topic, 0, client, verdict, is_observed=True))
            self.console._refusals.look()
        self.console.reloaded(worked=True)
        for back, row in enumerate(self.console._refusals.rows()):
            row.last_at -= 0.7 * back**1.6

    def put(self, refused: Refused) -> None:
        self.console.refused(refused)

    @staticmethod
    def _by_topic() -> dict[str, dict[str, int]]:
        return {
            "orders": {"accepted": 2_811_420, "refused": 4412},
            "orders.returns": {"accepted": 40_113, "refused": 588},
            "payments": {"accepted": 1_220_511, "refused": 288},
            "clicks": {"accepted": 9_420_008, "refused": 152, "failed": 3},
            "pii-customers": {"accepted": 118_220, "would_refuse": 1988, "not_observed": 40},
            "pii-addresses": {"accepted": 20_406, "would_refuse": 48, "would_fail": 2},
        }

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        access = Access(None)
        server = HttpServer(self._listening, self.console.paths(access), refuse=access.refuse)
        running = self._loop.create_task(self.console.run())
        self._loop.run_until_complete(server.start())
        self._loop.run_forever()
        running.cancel()
        self._loop.run_until_complete(server.close())
        self._loop.run_until_complete(asyncio.gather(running, return_exceptions=True))
        self._loop.close()

    def soon(self, call: Any, *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(call, *arguments)

    def close(self) -> None:
        self.soon(self._loop.stop)
        self._thread.join(60)


def about(monkeypatch: Any) -> None:
    """Make screenshots the same on every machine."""
    described = {"host": "gateway-1", "listener": "PLAINTEXT://0.0.0.0:9192",
            "upstream": "kafka-1:9092,kafka-2:9092,kafka-3:9092",
            "file": "/etc/penstock/penstock.properties", "version": "0.1.0", "python": "3.13.5",
            "started": START - 8 * 86400, "mode_of_file": "enforce"}  # fmt: skip
    monkeypatch.setattr(state, "about", lambda _: described)
