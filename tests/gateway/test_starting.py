"""The steps of a start, and what is left of it after an error in each of them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.configuration import Address, ConfigurationError
from penstock.gateway import starting
from penstock.gateway.lane.availability import NativeThreadsError
from penstock.gateway.starting import Starting
from penstock.kafka.cluster.brokers import UnreachableError

AWAY = UnreachableError("no broker responds")
BROKERS = {1: Address("kafka", 9092)}
HERE = Address("127.0.0.1", 9192)
STEPS = [
    "serve metrics at metrics:1",
    "load",
    "activate policies",
    "describe the cluster",
    "open the audit trail of gateway",
    "read settings",
    "open producers of cluster",
    "start threads",
    "use native",
    "listen, TLS by tls, in Python: ",
    "open listeners for 1",
]


def configuration(**keys):
    return SimpleNamespace(
        **{
            "upstream_properties": {"bootstrap.servers": "kafka:9092"},
            "metrics_listener": "metrics:1",
            "metrics_listener_token": None,
            "path": Path("gateway.properties"),
            "topic_settings_topic": "settings",
            "max_connections": 1,
            "max_connections_per_ip": 1,
            "max_connection_creation_rate": 1,
            **keys,
        }
    )


class World:
    """A gateway's parts, which record the steps of its start, and fail in one of them."""

    def __init__(self, monkeypatch, *, fails="", error=AWAY, why_without_tls="", in_python="",
                 has_metrics=True, has_settings=True):  # fmt: skip
        self.events = []
        self._fails, self._error = fails, error
        self.parts = SimpleNamespace(
            run=self._run,
            loop="loop",
            connections=set(),
            request_max_bytes=1,
            budget=SimpleNamespace(max_bytes=2),
            counts=SimpleNamespace(collect_more=None),
            lane=None,
            clock=lambda: 0.0,
        )
        self.state = SimpleNamespace(
            load=self._load,
            activate=lambda loaded: self._do(f"activate {loaded}"),
            open_topic_configs=self._open_topic_configs,
            open_producers=self._open_producers,
            active=SimpleNamespace(loses_records=True),
            lane=None,
        )
        self.upstream = SimpleNamespace(
            describe=self._describe,
            cluster_id="cluster",
            use=lambda native: self._do(f"use {native}"),
            in_python=in_python,
            addresses=None,
        )
        self.reports = SimpleNamespace(audit_trail=None)
        self.tasks = []
        world = self

        class Listening:
            def __init__(self, _configuration, _endpoints, _limits, _make, native, why):
                world._do(f"listen, TLS by {native}, in Python: {why}")

            async def open(self, addresses):
                world._do(f"open listeners for {', '.join(map(str, addresses))}")
                return HERE, "addresses"

            async def close(self):
                world.events.append("close listeners")

        def lane(*_arguments, **_options):
            self._do("start threads")
            return SimpleNamespace(collect_counts="collect")

        for name, fake in {
            "Listening": Listening,
            "Lane": lane,
            "open_audit_trail": self._open_audit_trail,
            "load_schemas": lambda: None,
            "allows_topic_settings": lambda _: has_settings,
            "find_tls": lambda: "tls",
            "why_without_tls": lambda: why_without_tls,
        }.items():
            monkeypatch.setattr(starting, name, fake)
        metrics = SimpleNamespace(start=self._serve_metrics) if has_metrics else None
        self.starting = Starting(
            configuration(),
            "gateway",
            None,
            self.upstream,
            self.state,
            self.parts,
            self.reports,
            metrics,
        )

    def _do(self, step):
        self.events.append(step)
        if self._fails and step.startswith(self._fails):
            raise self._error

    def _run(self, coroutine):
        self.tasks.append(asyncio.ensure_future(coroutine))
        return self.tasks[-1]

    async def _serve_metrics(self, address, _token, _file):
        self._do(f"serve metrics at {address}")

    async def _load(self, _configuration):
        self._do("load")
        return "policies"

    async def _describe(self, _timeout_s):
        self._do("describe the cluster")
        return SimpleNamespace(brokers=BROKERS)

    async def _open_audit_trail(self, _configuration, name):
        self._do(f"open the audit trail of {name}")
        return "trail"

    async def _open_topic_configs(self, _configuration):
        self._do("read settings")

    async def _open_producers(self, cluster_id, *, loses_records, is_start):
        assert (loses_records, is_start) == (True, True)
        self._do(f"open producers of {cluster_id}")


async def test_everything_is_opened_in_order(monkeypatch):
    world = World(monkeypatch)
    address, listening = await world.starting.open("native")

    assert world.events == STEPS
    assert (address, type(listening).__name__) == (HERE, "Listening")
    assert world.upstream.addresses == "addresses"
    assert world.reports.audit_trail == "trail"
    assert world.parts.lane is world.state.lane is not None
    assert world.parts.counts.collect_more == "collect"
    assert all(task.done() for task in world.tasks)


async def test_parts_that_are_not_configured_are_not_opened(monkeypatch):
    world = World(monkeypatch, has_metrics=False, has_settings=False)
    await world.starting.open(None)

    missing = {"serve metrics at metrics:1", "read settings", "start threads", "use native"}
    assert world.events == [step for step in STEPS if step not in missing]
    assert world.parts.lane is world.state.lane is None


@pytest.mark.parametrize("step", STEPS)
async def test_an_error_ends_the_start_at_once(monkeypatch, step):
    world = World(monkeypatch, fails=step)
    with pytest.raises(UnreachableError):
        await world.starting.open("native")
    steps = STEPS[: STEPS.index(step) + 1]

    assert world.events == steps + ["close listeners"] * (step == STEPS[-1])
    # Whoever stops the gateway finds what was opened.
    assert (world.reports.audit_trail is not None) == ("read settings" in steps)
    assert (world.parts.lane is not None) == ("use native" in steps)
    assert world.upstream.addresses is None
    await asyncio.gather(*world.tasks)


@pytest.mark.parametrize("is_required", [True, False])
async def test_threads_that_cannot_be_started_are_an_error_only_if_they_are_required(
    monkeypatch, is_required
):
    monkeypatch.setattr(starting, "is_lane_required", lambda: is_required)
    world = World(monkeypatch, fails="start threads", error=OSError("no descriptors"))
    if is_required:
        with pytest.raises(ConfigurationError, match="PENSTOCK_NATIVE_LANE=1, but no descriptors"):
            await world.starting.open("native")
        assert world.events[-1] == "start threads"
    else:
        with capture_logs() as logged:
            await world.starting.open("native")
        reasons = [line["reason"] for line in logged if line["log_level"] == "warning"]
        assert reasons == ["no descriptors"]
        assert "use native" not in world.events
        assert world.events[-1] == STEPS[-1]
    assert world.parts.lane is world.state.lane is world.parts.counts.collect_more is None


@pytest.mark.parametrize(
    ("why_without_tls", "in_python", "reason"),
    [("", "", ""), ("FIPS", "", "FIPS"), ("", "a key", "a key"), ("FIPS", "a key", "FIPS")],
)
async def test_tls_is_left_to_python_for_clients_or_for_both_sides(
    monkeypatch, why_without_tls, in_python, reason
):
    world = World(monkeypatch, why_without_tls=why_without_tls, in_python=in_python)
    await world.starting.open(None)

    assert f"listen, TLS by tls, in Python: {reason}" in world.events


def test_before_anything_is_opened_ports_are_checked(monkeypatch):
    checked = []
    monkeypatch.setattr(starting, "find_lane", lambda: "native")
    monkeypatch.setattr(starting, "describe_lane", lambda: "native")
    monkeypatch.setattr(starting, "check_free", checked.append)
    world = World(monkeypatch)

    assert world.starting.check() == "native"
    assert (len(checked), world.events) == (1, [])


def test_threads_that_this_system_does_not_have_are_an_error(monkeypatch):
    def find_lane():
        raise NativeThreadsError("PENSTOCK_NATIVE_LANE=1, but there are none")

    monkeypatch.setattr(starting, "find_lane", find_lane)
    world = World(monkeypatch)
    with pytest.raises(ConfigurationError, match="there are none"):
        world.starting.check()
    assert world.events == []
