"""Gateways that are killed while they create topics and alter settings.

`--kill-rounds` sets how often a gateway is killed at random.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pytest

from penstock.configuration.topic_keys import RECORDS_POLICY, VALIDATION_POLICY
from tests.engine.topic_configs.admin_requests import (
    CREATE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    TopicClient,
    judged_by,
)
from tests.faults import REQUEST, RESPONSE, Proxy
from tests.gateways import RunningGateway, gateway_port, wait_until, write_configuration

PRODUCE: Final = 0
POLICIES = """
from penstock.policy import *

class Stamps(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(record.value == b"bad" for record in records):
            raise PolicyViolationException(type(self).__name__)

class A(Stamps): pass
class B(Stamps): pass
class C(Stamps): pass

class Validation(RecordValidationPolicy):
    def validate(self, topic, record):
        pass
"""
LONGEST_LIFE_S = 0.6


def settings(name: str) -> dict[str, str]:
    """Return settings whose parts cannot be mistaken for parts of other settings."""
    return {**judged_by(name), VALIDATION_POLICY: name}


@pytest.fixture(scope="module")
def proxy(kafka) -> Iterator[Proxy]:
    """Between the gateway that is killed and its broker."""
    with Proxy(kafka.bootstrap_servers) as running:
        yield running


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Iterator[Callable[[str], RunningGateway]]:
    """Starts gateways that share a topic of settings; ends them."""
    running: list[RunningGateway] = []
    properties = {
        "topic.settings.topic": f"settings-{uuid.uuid4().hex[:8]}",
        "records.policy.class.names.allowed": "policies.*",
        "record.validation.policy.class.name": "policies.Validation",
        "policy.workers": 1,
    }

    def start(upstream: str) -> RunningGateway:
        folder = tmp_path_factory.mktemp("gateway")
        port = gateway_port()
        file = write_configuration(folder, upstream, port, properties, POLICIES)
        running.append(RunningGateway(file))
        return running[-1]

    yield start
    for gateway in running:
        gateway.stop()


@pytest.fixture(scope="module")
def first(start, proxy) -> RunningGateway:
    """The gateway that is killed."""
    return start(proxy.address)


@pytest.fixture
def killed(first) -> RunningGateway:
    """The same gateway, running again."""
    if first.process.poll() is not None:
        first.restart(kill=True)
    return first


@pytest.fixture(scope="module")
def other(start, kafka) -> RunningGateway:
    """Another gateway in front of the same cluster, which is not killed."""
    return start(kafka.bootstrap_servers)


# At every step


class Point(NamedTuple):
    """A frame between the gateway and its broker, at which the gateway is killed.

    A request is lost then. A response is lost, too, but the broker has executed the request.
    """

    api_key: int
    number: int
    kind: str


@dataclass
class Creation:
    """A topic that is being created with settings."""

    point: Point
    topic: str = ""

    def begin(self, client: TopicClient, proxy: Proxy) -> None:
        self.topic = f"created-{uuid.uuid4().hex[:8]}"
        gate = proxy.gate(self.point.api_key, self.point.kind, self.point.number)
        client.send_creation(self.topic, settings("A"))
        gate.wait()

    def check(self, gateway: RunningGateway, topics: Mapping[str, object]) -> None:
        """Assert that the topic has its settings if it exists; if created later, it has none."""
        with TopicClient(gateway.broker_address()) as client:
            if self.topic in topics:
                check_settings(client, self.topic, settings("A"))
                assert client.delete(self.topic) == 0
            client.create(self.topic, {})
        with TopicClient(gateway.broker_address()) as client:
            check_settings(client, self.topic, {})


@dataclass
class Alteration:
    """A topic with settings that are being altered, together with a config of the cluster."""

    point: Point
    topic: str = ""

    def begin(self, client: TopicClient, proxy: Proxy) -> None:
        self.topic = f"altered-{uuid.uuid4().hex[:8]}"
        client.create(self.topic, settings("A"))
        gate = proxy.gate(self.point.api_key, self.point.kind, self.point.number)
        client.send_alteration(self.topic, {**settings("B"), "retention.ms": "100000"})
        gate.wait()

    def check(self, gateway: RunningGateway, topics: Mapping[str, object]) -> None:
        """Assert new settings once they are in the log, and else the old settings."""
        kept = self.point == Point(PRODUCE, 1, RESPONSE)
        with TopicClient(gateway.broker_address()) as client:
            check_settings(client, self.topic, settings("B" if kept else "A"))


ON_THE_CLIENTS_CONNECTION = {
    f"{description}: {kind}": act(Point(api_key, number, kind))
    for description, act, api_key, number in (
        ("may it be created", Creation, CREATE_TOPICS, 1),
        ("create it", Creation, CREATE_TOPICS, 2),
        ("may it be altered", Alteration, INCREMENTAL_ALTER_CONFIGS, 1),
        ("alter it", Alteration, INCREMENTAL_ALTER_CONFIGS, 2),
    )
    for kind in (REQUEST, RESPONSE)
}
ON_THE_GATEWAYS_OWN = {
    f"{description}: {kind}": act(Point(PRODUCE, number, kind))
    for description, act, number in (
        ("keep the creation", Creation, 1),
        ("keep settings by id", Creation, 2),
        ("withdraw the creation", Creation, 3),
        ("keep altered settings", Alteration, 1),
    )
    for kind in (REQUEST, RESPONSE)
}
PAIRS = {
    f"{first}, {second}": (ON_THE_CLIENTS_CONNECTION[first], ON_THE_GATEWAYS_OWN[second])
    for first, second in zip(ON_THE_CLIENTS_CONNECTION, ON_THE_GATEWAYS_OWN, strict=True)
}


def check_settings(client: TopicClient, topic: str, expected: Mapping[str, str]) -> None:
    """Assert the class that judges batches, and the described configs of the topic."""
    answers = [client.produce(topic, value) for value in (b"bad", b"good")]
    policy = expected.get(RECORDS_POLICY, "").removeprefix("policies.")
    verdict = (44, policy) if policy else (0, None)
    assert [(answer.error_code, answer.error_message) for answer in answers] == [verdict, (0, None)]
    assert client.own_settings(topic) == expected


def topics_of(admin) -> Mapping[str, object]:
    """Return the existing topics."""
    return admin.list_topics(timeout=60).topics


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_gateway_that_is_killed_at_a_step(killed, proxy, admin, pair):
    """A kill during two requests, each stopped at its step."""
    with ExitStack() as clients:
        for act in pair:
            act.begin(clients.enter_context(TopicClient(killed.broker_address())), proxy)
        killed.kill()
    proxy.open_all(deliver=False)
    proxy.settle()

    killed.restart(kill=True)

    topics = topics_of(admin)
    for act in pair:
        act.check(killed, topics)


def test_a_topic_that_the_cluster_creates_only_after_the_restart(killed, proxy, admin):
    """A controller may be slow, and has the request even after its sender has ended."""
    creation = Creation(Point(CREATE_TOPICS, 2, REQUEST))
    with TopicClient(killed.broker_address()) as client:
        creation.begin(client, proxy)
        killed.kill()
    killed.restart(kill=True)

    proxy.open_all(deliver=True)
    wait_until(lambda: creation.topic in topics_of(admin))

    with TopicClient(killed.broker_address()) as client:
        check_settings(client, creation.topic, settings("A"))


# At random


@dataclass
class History:
    """The requested settings of a topic, and the acknowledged settings.

    Attributes:
        acknowledged: The settings of the last successful request; "" before the topic is created.
        requested: The settings of the last request.
    """

    topic: str = field(default_factory=lambda: f"random-{uuid.uuid4().hex[:8]}")
    acknowledged: str = ""
    requested: str = "A"

    def create_and_alter(self, client: TopicClient) -> None:
        """Create the topic, and alter it a few times."""
        client.create(self.topic, settings("A"))
        for self.acknowledged, self.requested in (("A", "B"), ("B", "C"), ("C", "A"), ("A", "B")):
            assert client.alter(self.topic, settings(self.requested)) == 0
        self.acknowledged = "B"

    def check(self, client: TopicClient, topics: Mapping[str, object]) -> None:
        """Assert that the settings are the acknowledged or the requested settings, as a whole."""
        if self.topic not in topics:
            assert not self.acknowledged, self
            client.create(self.topic, {})
            check_settings(client, self.topic, {})
            return
        found = client.own_settings(self.topic)
        assert found in [settings(name) for name in (self.acknowledged, self.requested) if name], (
            self
        )
        check_settings(client, self.topic, found)


class Load:
    """Threads that create topics and alter them until their gateway is gone."""

    def __init__(self, address: str, count: int) -> None:
        self.histories: list[History] = []
        self._address = address
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until all threads have noticed."""
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self) -> None:
        try:
            with TopicClient(self._address) as client:
                while not self._ended.is_set():
                    history = History()
                    self.histories.append(history)
                    history.create_and_alter(client)
        except (OSError, EOFError):
            pass  # it was killed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many rounds as the command line sets, each with its own time limit."""
    if "kill_round" in metafunc.fixturenames:
        metafunc.parametrize("kill_round", range(metafunc.config.option.kill_rounds))


@pytest.mark.cases(1)
def test_a_gateway_that_is_killed_at_random(killed, proxy, admin, kill_round):
    load = Load(killed.broker_address(), 2)
    wait_until(lambda: load.histories, what="the first topic")
    time.sleep(random.uniform(0.01, LONGEST_LIFE_S))
    killed.kill()
    load.end()
    proxy.settle()

    killed.restart(kill=True)

    topics = topics_of(admin)
    assert load.histories
    with TopicClient(killed.broker_address()) as client:
        for history in load.histories:
            history.check(client, topics)


# Another gateway. The last test: it leaves the killed one as it is.


def test_another_gateway_continues_after_a_gateway_is_killed(killed, other, proxy):
    planned = Creation(Point(CREATE_TOPICS, 2, REQUEST))
    created = Creation(Point(CREATE_TOPICS, 2, RESPONSE))
    left_open = Creation(Point(PRODUCE, 3, REQUEST))
    with ExitStack() as clients:
        for creation in (planned, created, left_open):
            creation.begin(clients.enter_context(TopicClient(killed.broker_address())), proxy)
        killed.kill()
    proxy.open_all(deliver=False)
    proxy.settle()

    there = {created.topic: None, left_open.topic: None}
    for creation in (created, left_open, planned):
        creation.check(other, there)
