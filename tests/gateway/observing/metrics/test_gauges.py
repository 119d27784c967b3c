"""Gauges; and docs/monitoring.md, which lists all metrics."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from penstock.configuration import Address
from penstock.engine.workers.observer import WorkerEnd
from penstock.engine.workers.processes.worker import WorkerState
from penstock.gateway.observing.metrics import gauges
from penstock.gateway.observing.metrics.broker_checks import Reached
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState, ProducerFigures
from penstock.gateway.observing.metrics.process_usage import Usage
from penstock.kafka.cluster.state_writes import StateWrites
from tests.gateway.observing.metrics.schedules import schedule
from tests.metrics import Metrics

DOCUMENT = Path(__file__).parents[4] / "docs" / "monitoring.md"


def gateway(**attributes):
    return SimpleNamespace(
        **{
            "connections": [],
            "connections_max": 100,
            "certificate_expires_at": None,
            "budget": SimpleNamespace(used_bytes=7, max_bytes=70),
            "producers": ProducerFigures(count=3, topics=2, kept_bytes=5, evicted=6, translated=4),
            "all_schedules": [],
            "settings_position": 5,
            "plan_digests": {"orders": "0123456789ab"},
            "state_writes": {},
            "audit_trail": None,
            **attributes,
        }
    )


async def read(of, brokers=None):
    families = [
        await gauges.connections(of),
        *await gauges.tls_connections(of),
        *gauges.of_gateway(of, brokers or {}, is_ready=True),
    ]
    return Metrics((await render(families)).decode())


async def test_workers_of_all_policies_are_counted_together():
    found = await read(gateway(all_schedules=[
        schedule(WorkerState.READY, WorkerState.BLOCKED, WorkerState.SPARE, waiting=5, outstanding=9),
        schedule(WorkerState.READY, limit=2, outstanding=1),
    ]))  # fmt: skip

    states = {state: count for (state,), count in found.of("penstock_workers").items() if count}
    assert states == {"ready": 2, "blocked": 1, "spare": 1}
    assert found("penstock_workers", state="killed") == 0
    assert found("penstock_workers_limit") == 5
    assert found.of("penstock_batches") == {("waiting",): 5, ("sent",): 5}


async def test_connections_are_exposed_by_state():
    states = [ConnectionState.OPEN] * 1200 + [ConnectionState.PAUSED] * 2
    clients = [
        SimpleNamespace(state=state, tls_library="", broker_tls_library="") for state in states
    ]
    found = await read(gateway(connections=clients))

    counted = {state: count for (state,), count in found.of("penstock_connections").items()}
    assert counted == {"connecting": 0, "open": 1200, "paused": 2, "ending": 0, "closing": 0}


async def test_connections_with_tls_are_exposed_by_library():
    libraries = ["rustls"] * 600 + ["openssl"] * 3 + [""] * 9
    clients = [
        SimpleNamespace(
            state=ConnectionState.OPEN,
            tls_library=of,
            broker_tls_library="openssl" if of == "rustls" else of,
        )
        for of in libraries
    ]
    found = await read(gateway(connections=clients))

    assert found.of("penstock_tls_connections") == {("rustls",): 600, ("openssl",): 3}
    assert found.of("penstock_broker_tls_connections") == {("rustls",): 0, ("openssl",): 603}


async def test_brokers_are_exposed_by_node():
    here = Address("kafka", 9092)
    brokers = {1: Reached(here, "", 0.0), 2: Reached(here, "refused", 0.0)}
    found = await read(gateway(), brokers)

    assert found.of("penstock_broker_reachable") == {("1",): 1, ("2",): 0}


async def test_the_expiry_of_the_listeners_certificate_is_exposed():
    name = "penstock_listener_certificate_expiry_timestamp_seconds"

    assert (await read(gateway())).of(name) == {}
    assert (await read(gateway(certificate_expires_at=2e9)))(name) == 2e9


async def test_held_memory_and_producers_are_exposed():
    found = await read(gateway())

    assert found("penstock_held_bytes") == 7
    assert found("penstock_held_bytes_limit") == 70
    assert found("penstock_producers") == 3
    assert found("penstock_topics_with_producer_state") == 2
    assert found("penstock_sequence_translations_total") == 4
    assert found("penstock_producers_kept_bytes") == 5
    assert found("penstock_producers_evicted_total") == 6
    assert found("penstock_settings_generation") == 5
    assert found("penstock_plan_info", topic="orders", plan="0123456789ab") == 1
    assert found("process_resident_memory_bytes") > 2**20


async def all_families():
    return [
        *GatewayCounts(records_max=1).families(),
        await gauges.connections(gateway()),
        *await gauges.tls_connections(gateway()),
        *gauges.of_gateway(gateway(), {}, is_ready=True),
        *gauges.of_workers(Usage(1.5, 10), 0.25),
    ]


async def test_all_metrics_are_valid_openmetrics():
    text = (await render(await all_families(), is_openmetrics=True)).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    [cpu] = found["penstock_workers_cpu_seconds"].samples
    assert (cpu.name, cpu.value) == ("penstock_workers_cpu_seconds_total", 1.5)
    assert found["penstock_event_loop_lag_seconds"].samples[0].value == 0.25
    assert text.endswith("# EOF\n")


async def rows():
    families = await all_families()
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"


async def test_the_document_has_every_metric():
    written = re.findall(r"^\| `.*", DOCUMENT.read_text(), re.MULTILINE)
    written = [line for line in written if line.count(" | ") == 3]

    assert written == [row async for row in rows()]


async def test_names_follow_prometheus():
    async for row in rows():
        name, kind = re.match(r"\| `(\w+)` \| (\w+)", row).groups()
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith("_seconds")


@pytest.mark.parametrize("name", ["states of connections", "states of workers", "causes"])
def test_the_document_explains_each_value(name):
    text = DOCUMENT.read_text()
    values = {
        "states of connections": [state.value for state in ConnectionState],
        "states of workers": [state.name.lower() for state in WorkerState if state.name != "DEAD"],
        "causes": [end.value for end in WorkerEnd],
    }[name]
    for value in values:
        assert f"`{value}`" in text


async def test_writes_of_state_are_counted_by_result():
    writes = StateWrites("t")
    writes.ended(None)
    writes.ended("no leader")
    writes.ended("nothing came", is_late=True)
    settings = StateWrites("s")
    settings.ended("no leader")
    found = await read(gateway(state_writes={"producers": writes, "settings": settings}))

    assert found.of("penstock_state_writable") == {("producers",): 0, ("settings",): 1}
    counted = found.of("penstock_state_writes_total")
    del counted["settings", "written"], counted["settings", "failed"], counted["settings", "late"]
    assert counted == {("producers", result): 1 for result in ("written", "failed", "late")}
