"""Reloads: their steps, and which policies are in force after an error in each of them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.configuration import ConfigurationError
from penstock.gateway import reloading
from penstock.gateway.reloading import Reloading
from penstock.kafka.cluster.brokers import UnreachableError

FIRST = SimpleNamespace(properties={"keys of": "the start"}, path=Path("gateway.properties"))
WRONG = ConfigurationError("no such class")
AWAY = UnreachableError("no broker responds")


class Loaded:
    """Policies whose workers have started."""

    def __init__(self, events, *, loses_records=False):
        self.topic_keys = {"key": "new"}
        self.loses_records = loses_records
        self._events = events

    async def close(self):
        self._events.append("new policies closed")


class State:
    """The policies in force, and the state that they need; records what is done with it."""

    def __init__(self, *, are_stored=False, keeps_decisions=False, loses_records=False, errors=()):
        self.events = []
        self.topic_configs = SimpleNamespace(are_stored=are_stored)
        self.keeps_decisions = keeps_decisions
        self.active = SimpleNamespace(loaded=SimpleNamespace(topic_keys={"key": "old"}))
        self.new = Loaded(self.events, loses_records=loses_records)
        self.errors = dict(errors)
        self.may_load = None

    def _do(self, what):
        self.events.append(what)
        if what in self.errors:
            raise self.errors[what]

    async def load(self, configuration):
        self._do(f"load {configuration}")
        if self.may_load is not None:
            await self.may_load.wait()
        return self.new

    async def open_topic_configs(self, configuration):
        self._do(f"open topic configs of {configuration}")

    async def open_producers(self, cluster_id, *, loses_records):
        assert loses_records
        self._do(f"open producers of {cluster_id}")

    async def record_change(self, loaded, *, were_open):
        assert loaded is self.new
        self._do(f"record the change, {were_open}")

    def activate(self, loaded):
        assert loaded is self.new
        self._do("activate")

    async def load_topics(self):
        self._do("load topics")


@pytest.fixture
def reload(monkeypatch):
    """Makes the reloads of a gateway."""
    monkeypatch.setattr(reloading, "allows_topic_settings", lambda of: "settings" in of)

    def make(state, *, has_tls=False):
        def put_in_force(keys):
            state.events.append(f"keys {keys.get('key')}")

        def check_certificate(properties, path):
            assert (properties, path) == (FIRST.properties, FIRST.path)
            state._do("check the certificate")

        monkeypatch.setattr(reloading, "put_in_force", put_in_force)
        monkeypatch.setattr(reloading, "server_context", check_certificate)
        return Reloading(
            FIRST,
            SimpleNamespace(listener_tls=object() if has_tls else None),
            SimpleNamespace(cluster_id="cluster"),
            state,
            SimpleNamespace(run=asyncio.ensure_future),
            lambda: state.events.append("renew"),
        )

    return make


async def ended(task):
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)


async def test_policies_are_replaced_when_everything_that_they_need_is_open(reload):
    state = State(loses_records=True)
    await reload(state, has_tls=True).reload("a file with settings")
    await asyncio.sleep(0)

    assert state.events == [
        "check the certificate",
        "load a file with settings",
        "keys new",
        "open topic configs of a file with settings",
        "open producers of cluster",
        "record the change, False",
        "activate",
        "renew",
        "load topics",
    ]


@pytest.mark.parametrize(
    "state",
    [
        State(are_stored=True, keeps_decisions=True, loses_records=True),
        State(are_stored=True, keeps_decisions=True),
        State(are_stored=True),
    ],
    ids=["all is open", "no record is lost now", "no record is lost"],
)
async def test_state_that_is_open_or_not_needed_is_not_opened(reload, state):
    await reload(state).reload("a file with settings")
    await asyncio.sleep(0)

    assert state.events == [
        "load a file with settings",
        "keys new",
        "record the change, True",
        "activate",
        "renew",
        "load topics",
    ]


@pytest.mark.parametrize(
    ("step", "error", "events"),
    [
        ("check the certificate", WRONG, ["check the certificate"]),
        ("load settings", WRONG, ["check the certificate", "load settings"]),
        (
            "open topic configs of settings",
            AWAY,
            [
                "check the certificate",
                "load settings",
                "keys new",
                "open topic configs of settings",
                "keys old",
                "new policies closed",
            ],
        ),
        (
            "open producers of cluster",
            asyncio.CancelledError(),
            [
                "check the certificate",
                "load settings",
                "keys new",
                "open topic configs of settings",
                "open producers of cluster",
                "keys old",
                "new policies closed",
            ],
        ),
    ],
)
async def test_after_an_error_the_old_policies_stay_and_the_next_reload_works(
    reload, step, error, events
):
    state = State(loses_records=True, errors={step: error})
    reloads = reload(state, has_tls=True)
    with pytest.raises(type(error)):
        await reloads.reload("settings")
    assert state.events == events

    state.errors.clear()
    state.events.clear()
    await reloads.reload("settings")
    assert "activate" in state.events


async def test_an_error_before_there_were_policies_leaves_no_keys(reload):
    state = State(errors={"open topic configs of settings": AWAY})
    state.active.loaded = None
    with pytest.raises(UnreachableError):
        await reload(state).reload("settings")

    assert state.events[-2:] == ["keys None", "new policies closed"]


async def test_reloads_come_one_after_another(reload):
    state = State()
    state.may_load = asyncio.Event()
    reloads = reload(state)
    first = asyncio.ensure_future(reloads.reload("first"))
    second = asyncio.ensure_future(reloads.reload("second"))
    await asyncio.sleep(0)
    assert state.events == ["load first"]

    state.may_load.set()
    await asyncio.gather(first, second)
    assert state.events.index("load second") > state.events.index("activate")


async def test_decisions_are_opened_once_and_not_during_a_reload(reload):
    state = State()
    state.may_load = asyncio.Event()
    reloads = reload(state)
    reloading = asyncio.ensure_future(reloads.reload("first"))
    await asyncio.sleep(0)
    for _ in range(3):
        reloads.open_decisions()
        await asyncio.sleep(0)
    assert "open producers of cluster" not in state.events

    state.may_load.set()
    await ended(reloading)
    await asyncio.sleep(0)
    assert state.events.count("open producers of cluster") == 1


async def test_decisions_that_are_kept_are_not_opened_again(reload):
    state = State(keeps_decisions=True)
    reload(state).open_decisions()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert state.events == []


@pytest.mark.parametrize(
    ("error", "level"), [(WRONG, "error"), (AWAY, "error"), (ValueError("bug"), "error")]
)
async def test_decisions_that_cannot_be_opened_are_logged_and_tried_again(reload, error, level):
    state = State(errors={"open producers of cluster": error})
    reloads = reload(state)
    with capture_logs() as logged:
        for _ in range(2):
            reloads.open_decisions()
            for _ in range(3):
                await asyncio.sleep(0)

    assert state.events == ["open producers of cluster"] * 2
    assert [(line["event"], line["log_level"]) for line in logged] == [
        ("quarantine is not possible", level)
    ] * 2
