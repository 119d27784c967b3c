"""The gauges: the state of a gateway at the moment of a request."""

from __future__ import annotations

import asyncio
import platform
import time
from collections import Counter
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock import __version__
from penstock.engine.workers.processes.worker import WorkerState
from penstock.gateway.observing.metrics.exposition import Gauge
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState
from penstock.gateway.observing.metrics.process_usage import (
    most_descriptors,
    open_descriptors,
    usage_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence

    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.observing.audit_trail.trail import AuditTrail
    from penstock.gateway.observing.metrics.broker_checks import Reached
    from penstock.gateway.observing.metrics.measured_gateway import Measured, MeasuredConnection
    from penstock.gateway.observing.metrics.process_usage import Usage
    from penstock.kafka.cluster.state_writes import StateWrites

_STARTED: Final = time.time()
_CONNECTIONS_AT_A_TIME: Final = 500
_TLS_LIBRARIES: Final = "rustls", "openssl"
_STATES: Final = [state for state in WorkerState if state is not WorkerState.DEAD]


async def connections(gateway: Measured) -> Gauge:
    """Count the connections by state, some at a time."""
    state_counts: Counter[tuple[str, ...]] = Counter(
        {(state.value,): 0 for state in ConnectionState}
    )
    async for part in _parts(gateway.connections):
        state_counts.update((connection.state.value,) for connection in part)
    return Gauge(
        "penstock_connections",
        "Connections of clients, by state.",
        ("state",),
        state_counts,
    )


async def tls_connections(gateway: Measured) -> list[Gauge]:
    """Count the connections with TLS by the library that has it, some at a time."""
    of_clients: Counter[tuple[str, ...]] = Counter({(library,): 0 for library in _TLS_LIBRARIES})
    to_brokers = of_clients.copy()
    async for part in _parts(gateway.connections):
        of_clients.update((library,) for client in part if (library := client.tls_library))
        to_brokers.update((library,) for client in part if (library := client.broker_tls_library))
    return [
        Gauge(
            "penstock_tls_connections",
            "Connections of clients with TLS, by library.",
            ("library",),
            of_clients,
        ),
        Gauge(
            "penstock_broker_tls_connections",
            "Connections to brokers with TLS, by library.",
            ("library",),
            to_brokers,
        ),
    ]


async def _parts(
    clients: Collection[MeasuredConnection],
) -> AsyncIterator[list[MeasuredConnection]]:
    iterator = iter(list(clients))
    while part := list(islice(iterator, _CONNECTIONS_AT_A_TIME)):
        yield part
        await asyncio.sleep(0)


def of_gateway(gateway: Measured, brokers: Mapping[int, Reached], *, is_ready: bool
               ) -> Iterator[Gauge]:  # fmt: skip
    """Return all gauges but `connections`.

    Args:
        brokers: How the last attempt to connect to each broker ended.
        is_ready: Whether clients can be served.
    """
    unlabelled = ()
    yield Gauge(
        "penstock_ready", "1 if /readyz answers 200, otherwise 0.", (), {unlabelled: int(is_ready)}
    )
    yield Gauge(
        "penstock_connections_limit",
        "The maximum number of connections (max.connections).",
        (),
        {unlabelled: gateway.connections_max},
    )
    yield Gauge(
        "penstock_held_bytes",
        "Memory held for all clients, which counts in queued.max.request.bytes.",
        (),
        {unlabelled: gateway.budget.used_bytes},
    )
    yield Gauge(
        "penstock_held_bytes_limit",
        "queued.max.request.bytes. Above it, clients that hold much are paused.",
        (),
        {unlabelled: gateway.budget.max_bytes},
    )
    yield from _workers(gateway.all_schedules)
    yield Gauge(
        "penstock_broker_reachable",
        "1 if the last attempt to connect to the broker succeeded, otherwise 0.",
        ("node",),
        {(str(node),): int(not broker.why_not) for node, broker in sorted(brokers.items())},
    )
    expires_at = gateway.certificate_expires_at
    yield Gauge(
        "penstock_listener_certificate_expiry_timestamp_seconds",
        "When the listener's certificate expires, in seconds since 1970; absent without TLS.",
        (),
        {} if expires_at is None else {unlabelled: expires_at},
    )
    yield Gauge(
        "penstock_producers",
        "Producers whose sequence numbers are kept, counted for each partition.",
        (),
        {unlabelled: gateway.producers.count},
    )
    yield Gauge(
        "penstock_topics_with_producer_state",
        "Topics whose batches native threads leave to Python: records were dropped, or may be.",
        (),
        {unlabelled: gateway.producers.topics},
    )
    yield Gauge(
        "penstock_producers_kept_bytes",
        "Memory of the state of producers that other gateways serve, or that are idle.",
        (),
        {unlabelled: gateway.producers.kept_bytes},
    )
    yield Gauge(
        "penstock_producers_evicted_total",
        "Producers whose state was removed to save memory.",
        (),
        {unlabelled: gateway.producers.evicted},
        "counter",
    )
    yield Gauge(
        "penstock_sequence_translations_total",
        "Batches that were sent with changed sequence numbers.",
        (),
        {unlabelled: gateway.producers.translated},
        "counter",
    )
    yield Gauge(
        "penstock_settings_generation",
        "Position up to which topic.settings.topic has been read; 0 if it is not used.",
        (),
        {unlabelled: gateway.settings_position},
    )
    yield Gauge(
        "penstock_plan_info",
        "1 for each topic with policies. plan is the digest that check prints.",
        ("topic", "plan"),
        dict.fromkeys(gateway.plan_digests.items(), 1),
    )
    yield from _state_writes(gateway.state_writes)
    yield from _audit_trail(gateway.audit_trail)
    yield from _process()
    yield from _descriptors()


def _state_writes(writes: Mapping[str, StateWrites]) -> Iterator[Gauge]:
    yield Gauge(
        "penstock_state_writable",
        "0 if the last two writes of state failed, otherwise 1.",
        ("state",),
        {(state,): int(not results.trouble) for state, results in writes.items()},
    )
    yield Gauge(
        "penstock_state_writes_total",
        "Writes of the gateway's own state, by kind and result.",
        ("state", "result"),
        {
            (state, result): count
            for state, results in writes.items()
            for result, count in (
                ("written", results.written),
                ("failed", results.failed),
                ("late", results.late),
            )
        },
        "counter",
    )


def _audit_trail(trail: AuditTrail | None) -> Iterator[Gauge]:
    yield Gauge(
        "penstock_audit_records_total",
        "Refusals that were written to the audit trail or left out, by result.",
        ("result",),
        {
            ("written",): trail.written if trail is not None else 0,
            ("left_out",): trail.left_out if trail is not None else 0,
        },
        "counter",
    )
    yield Gauge(
        "penstock_audit_held_bytes",
        "Memory of refusals that wait to be written to the audit trail.",
        (),
        {(): trail.held_bytes if trail is not None else 0},
    )


def _workers(schedules: Sequence[Schedule]) -> Iterator[Gauge]:
    states: Counter[tuple[str, ...]] = Counter({(state.name.lower(),): 0 for state in _STATES})
    states.update(
        (worker.state.name.lower(),) for schedule in schedules for worker in schedule.pool.alive
    )
    yield Gauge("penstock_workers", "Processes that run policies, by state.", ("state",), states)
    yield Gauge(
        "penstock_workers_limit",
        "The maximum number of processes that run policies.",
        (),
        {(): sum(schedule.pool.limit for schedule in schedules)},
    )
    yield Gauge(
        "penstock_batches",
        "Batches, and requests about topics, without a verdict: waiting for a worker, or sent to "
        "a worker.",
        ("state",),
        {
            ("waiting",): sum(schedule.waiting for schedule in schedules),
            ("sent",): sum(schedule.sent for schedule in schedules),
        },
    )


def _process() -> Iterator[Gauge]:
    yield Gauge(
        "penstock_build_info",
        "1. The labels have the versions of Penstock and Python.",
        ("version", "python"),
        {_build(): 1},
    )
    yield Gauge(
        "process_start_time_seconds", "When the process started.", (), {(): round(_STARTED, 2)}
    )
    yield Gauge(
        "process_cpu_seconds_total",
        "CPU time of the gateway's process, without its workers.",
        (),
        {(): time.process_time()},
        "counter",
    )
    usage = usage_of("self")
    if usage is not None:
        yield Gauge(
            "process_resident_memory_bytes",
            "Memory of the gateway's process, without its workers.",
            (),
            {(): usage.resident_bytes},
        )


def _descriptors() -> Iterator[Gauge]:
    descriptor_count = open_descriptors()
    if descriptor_count is not None:
        yield Gauge(
            "process_open_fds",
            "Open file descriptors of the gateway's process.",
            (),
            {(): descriptor_count},
        )
    yield Gauge(
        "process_max_fds",
        "The limit of file descriptors of the gateway's process.",
        (),
        {(): most_descriptors()},
    )


def of_workers(usage: Usage, lag_s: float) -> Iterator[Gauge]:
    """Return the values that need several reads.

    Args:
        usage: Of the workers.
        lag_s: The longest lag of the event loop lately.
    """
    yield Gauge(
        "penstock_workers_cpu_seconds_total",
        "CPU time of all policy workers since the start.",
        (),
        {(): round(usage.cpu_s, 2)},
        "counter",
    )
    yield Gauge(
        "penstock_workers_resident_memory_bytes",
        "Memory of the policy workers.",
        (),
        {(): usage.resident_bytes},
    )
    yield Gauge(
        "penstock_event_loop_lag_seconds",
        "The longest lag of the event loop in the last minute. All clients wait for it.",
        (),
        {(): round(lag_s, 6)},
    )


@cache
def _build() -> tuple[str, str]:
    return __version__, platform.python_version()
