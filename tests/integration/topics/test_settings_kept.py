"""Settings of topics are stored by a single gateway and by two gateways."""

import json
import subprocess
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from penstock.configuration.topic_keys import RECORDS_POLICY, VALIDATION_POLICY
from penstock.engine.topic_configs.index import topic_key
from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic, delete_topic
from tests.engine.topic_configs.admin_requests import TopicClient, judged_by
from tests.faults import FETCH, RESPONSE, Proxy
from tests.gateways import PENSTOCK, RunningGateway, gateway_port, wait_until, write_configuration
from tests.integration.reading import read_topic, topic_id

POLICIES = """
import itertools, os
from penstock.policy import *

numbers = itertools.count()

class Stamps(RecordsPolicy):
    '''Refuses "bad" in its own name, and writes down what happens to it.'''
    def configure(self, configs):
        self.number = f"{os.getpid()}.{next(numbers)}"
        self.file = configs["events.file"]
        self.happens("configured")
    def validate(self, topic, partition, records):
        self.happens("validates", topic)
        if any(record.value == b"bad" for record in records):
            raise PolicyViolationException(type(self).__name__)
    def close(self):
        self.happens("closed")
    def happens(self, *what):
        with open(self.file, "a") as file:
            print(type(self).__name__, self.number, *what, file=file)

class A(Stamps): pass
class B(Stamps): pass

class Validation(RecordValidationPolicy):
    def validate(self, topic, record):
        pass
"""
DEFAULT_TOPIC = "__penstock_topic_settings"
CONVERGE_WITHIN_S = 30.0  # it takes milliseconds; on a busy machine, a few seconds


def configure(folder: Path, upstream: str, **properties: object) -> Path:
    """Write a gateway's configuration."""
    return write_configuration(
        folder,
        upstream,
        gateway_port(),
        {
            "records.policy.class.names.allowed": "policies.*",
            "record.validation.policy.class.name": "policies.Validation",
            "events.file": folder / "events",
            "policy.workers": 1,
            **properties,
        },
        POLICIES,
    )


def new_name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def verdict(client: TopicClient, topic: str | uuid.UUID, version: int = 9) -> str:
    """Return the class whose verdict a bad batch gets; "" if no policy refuses it."""
    answer = client.produce(topic, b"bad", version=version)
    assert answer.error_code in {0, 44}, answer
    return answer.error_message or ""


# One gateway, and a broker that may be restarted


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory) -> Iterator[LocalKafka]:
    """A broker with Kafka's own defaults, that may be restarted."""
    with LocalKafka(folder=tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def own_admin(own_kafka) -> AdminClient:
    return AdminClient({"bootstrap.servers": own_kafka.bootstrap_servers})


@pytest.fixture(scope="module")
def single(own_kafka, tmp_path_factory) -> Iterator[RunningGateway]:
    """The only gateway in front of that broker."""
    folder = tmp_path_factory.mktemp("single")
    running = RunningGateway(configure(folder, own_kafka.bootstrap_servers))
    yield running
    running.stop()


@pytest.mark.slow
def test_the_topic_of_settings_is_compacted_and_has_a_single_partition(single, own_admin):
    resource = ConfigResource(ResourceType.TOPIC, DEFAULT_TOPIC)
    configs = own_admin.describe_configs([resource])[resource].result(60)

    assert configs["cleanup.policy"].value == "compact"
    assert configs["message.timestamp.type"].value == "LogAppendTime"
    assert (
        len(own_admin.list_topics(DEFAULT_TOPIC, timeout=60).topics[DEFAULT_TOPIC].partitions) == 1
    )


@pytest.mark.slow
def test_settings_survive_restarts_of_the_gateway_and_of_the_broker(single, own_kafka):
    created, altered, cleared = new_name(), new_name(), new_name()
    with TopicClient(single.broker_address()) as client:
        client.create(created, judged_by("A"))
        client.create(altered, {})
        assert client.alter(altered, judged_by("B")) == 0
        client.create(cleared, judged_by("A"))
        assert client.alter(cleared, dict.fromkeys(judged_by("A"))) == 0

    expected = {created: "A", altered: "B", cleared: ""}

    check_verdicts(single, expected)
    single.restart()
    check_verdicts(single, expected)
    restart(own_kafka)
    wait_until(lambda: responds(single), what="the broker to be back")
    check_verdicts(single, expected)


@pytest.mark.slow
def test_settings_can_be_changed_after_the_broker_was_unavailable(single, own_kafka, own_admin):
    """Its restart has made it the leader again, in another epoch."""
    before, after = new_name(), new_name()
    with TopicClient(single.broker_address()) as client:
        client.create(before, judged_by("A"))
    restart(own_kafka)
    wait_until(lambda: responds(single), what="the broker to be back")

    create_topic(own_admin, after)
    check_verdicts(single, {before: "A", after: ""})
    with TopicClient(single.broker_address()) as client:
        assert [client.alter(name, judged_by("B")) for name in (before, after)] == [0, 0]
    check_verdicts(single, {before: "B", after: "B"})


def check_verdicts(running: RunningGateway, expected: dict[str, str]) -> None:
    with TopicClient(running.broker_address()) as client:
        assert {topic: verdict(client, topic) for topic in expected} == expected


def restart(kafka: LocalKafka) -> None:
    kafka.nodes[0].stop()
    kafka.nodes[0].start()
    kafka.wait_ready()


def responds(running: RunningGateway) -> bool:
    """Return whether a gateway can create a topic for a client."""
    try:
        with TopicClient(running.broker_address()) as client:
            client.create(new_name(), judged_by("A"))
    except (OSError, EOFError, AssertionError) as error:
        print(f"not yet: {error!r}; last in the log: {list(running.log)[-3:]}")  # shown if it fails
        return False
    return True


@pytest.mark.slow
def test_a_topic_that_could_lose_settings_is_not_used(kafka, admin, tmp_path):
    def config_error(partitions: int, policy: str) -> str:
        name = f"{policy.replace(',', '-')}-{partitions}"
        create_topic(admin, name, partitions, {"cleanup.policy": policy})
        (tmp_path / name).mkdir()
        file = configure(tmp_path / name, kafka.bootstrap_servers, **{"topic.settings.topic": name})
        command = [*PENSTOCK, "gateway", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 2
        return ended.stderr.partition(f"topic.settings.topic: {name} ")[2]

    with ThreadPoolExecutor() as threads:
        of = ((2, "compact"), (1, "delete"), (1, "compact,delete"))
        two, deleted, both = threads.map(config_error, *zip(*of, strict=True))
    assert two.startswith("has 2 partitions; it must have one")
    assert deleted.startswith("has cleanup.policy=delete; it must be compact")
    assert both.startswith("has cleanup.policy=compact,delete; it must be compact")


# Two gateways


@pytest.fixture(scope="module")
def proxy(kafka) -> Iterator[Proxy]:
    """Between the second gateway and the broker."""
    with Proxy(kafka.bootstrap_servers) as running:
        yield running


@dataclass
class Pair:
    """Two gateways in front of one cluster, and the topic of settings that they share."""

    a: RunningGateway
    b: RunningGateway
    kafka: LocalKafka
    topic_configs_topic: str

    @property
    def log(self) -> list[tuple[bytes, bytes | None]]:
        """Return keys and values of the gateways' records."""
        found = read_topic(self.kafka.bootstrap_servers, self.topic_configs_topic)
        return [(key, value) for _, key, value, _ in found]


@pytest.fixture(scope="module")
def pair(kafka, proxy, tmp_path_factory) -> Iterator[Pair]:
    topic_configs_topic = f"settings-{uuid.uuid4().hex[:8]}"
    a, b = (
        RunningGateway(
            configure(
                tmp_path_factory.mktemp("gateway"),
                upstream,
                **{"topic.settings.topic": topic_configs_topic},
            )
        )
        for upstream in (kafka.bootstrap_servers, proxy.address)
    )
    yield Pair(a, b, kafka, topic_configs_topic)
    a.stop()
    b.stop()


@pytest.fixture
def a(pair) -> Iterator[TopicClient]:
    """A connection through the first gateway."""
    with TopicClient(pair.a.broker_address()) as client:
        yield client


@pytest.fixture
def b(pair) -> Iterator[TopicClient]:
    """A connection through the second gateway."""
    with TopicClient(pair.b.broker_address()) as client:
        yield client


@pytest.mark.kips("B51")
def test_settings_are_deleted_with_the_topic(pair, a):
    name = new_name()
    first = a.create(name, judged_by("A"))
    assert a.delete(name) == 0
    second = a.create(name, {})

    assert verdict(a, name) == ""
    assert a.own_settings(name) == {}
    log = dict(pair.log)
    assert log[topic_key(first).encode()] is None
    assert topic_key(second).encode() not in log


@pytest.mark.since("4.1")
def test_settings_are_deleted_with_a_topic_that_is_deleted_without_a_gateway(pair, a, admin):
    name = new_name()
    before = a.create(name, judged_by("A"))
    assert verdict(a, name) == "A"
    delete_topic(admin, name)
    create_topic(admin, name)
    assert topic_id(admin, name) != before

    for gateway in (pair.a, pair.b):
        with TopicClient(gateway.broker_address()) as client:
            assert verdict(client, name) == ""
            assert verdict(client, topic_id(admin, name), version=13) == ""
            assert client.own_settings(name) == {}


@pytest.mark.kips("B51")
def test_an_alteration_through_a_gateway_is_enforced_by_the_other(a, b):
    name = new_name()
    a.create(name, judged_by("A"))
    for policy in islice(cycle("BA"), 20):
        assert a.alter(name, judged_by(policy)) == 0
        wait_until(lambda policy=policy: verdict(b, name) == policy, CONVERGE_WITHIN_S)


@pytest.mark.slow
@pytest.mark.kips("B51")
def test_the_first_batch_of_a_topic_created_through_a_gateway_is_judged_by_the_other(pair, a, b):
    for number in range(50):
        name = new_name()
        created = a.create(name, judged_by("AB"[number % 2]))
        by_name, by_id = (name, 9), (created, 13)
        for topic, version in (by_name, by_id) if number % 4 < 2 else (by_id, by_name):
            assert verdict(b, topic, version) == "AB"[number % 2], (number, version)


def test_the_first_batch_of_a_topic_is_not_judged_before_its_settings_are_read(a, b, proxy):
    gate = proxy.gate(FETCH, RESPONSE, every=True)
    gate.wait()
    name = new_name()
    a.create(name, judged_by("A"))

    with ThreadPoolExecutor() as threads:
        judged = threads.submit(verdict, b, name)
        time.sleep(0.2)
        assert not judged.done()
        gate.open()
        assert judged.result(60) == "A"


@pytest.mark.parametrize("version", [9, 13])
def test_the_first_batch_of_a_topic_with_a_known_name_waits_for_its_settings_too(
    pair, a, b, proxy, version
):
    """A topic that is created again, and a connection that does not know the old topic's id."""
    name = new_name()
    a.create(name, {})
    assert verdict(b, name) == ""
    assert a.delete(name) == 0
    gate = proxy.gate(FETCH, RESPONSE, every=True)
    gate.wait()
    created = a.create(name, judged_by("A"))

    with TopicClient(pair.b.broker_address()) as created_again, ThreadPoolExecutor() as threads:
        judged = threads.submit(verdict, created_again, name if version < 13 else created, version)
        time.sleep(0.2)
        assert not judged.done(), judged.result()
        gate.open()
        assert judged.result(60) == "A"


def test_the_last_alteration_in_the_log_is_used(pair, a, b):
    name = new_name()
    created = a.create(name, {})

    def alter(client: TopicClient, values: Sequence[str]) -> None:
        for value in values:
            assert client.alter(name, {VALIDATION_POLICY: value}) == 0

    with ThreadPoolExecutor() as threads:
        for client, gateway in ((a, "a"), (b, "b")):
            threads.submit(alter, client, [f"{gateway}{number}" for number in range(25)])

    last = [value for key, value in pair.log if key == topic_key(created).encode()][-1]
    expected = json.loads(last)["settings"]
    assert expected[VALIDATION_POLICY] in {"a24", "b24"}
    wait_until(lambda: a.own_settings(name) == expected, CONVERGE_WITHIN_S)
    wait_until(lambda: b.own_settings(name) == expected, CONVERGE_WITHIN_S)


def test_two_alterations_of_different_keys_are_both_used(a, b):
    """Both were acknowledged: neither may undo the other."""
    with ThreadPoolExecutor() as threads:
        for _ in range(15):
            name = new_name()
            a.create(name, {})
            altered = [
                threads.submit(client.alter, name, {key: value})
                for client, (key, value) in zip((a, b), judged_by("A").items(), strict=True)
            ]
            assert [future.result(60) for future in altered] == [0, 0]
            wait_until(
                lambda name=name: a.own_settings(name) == b.own_settings(name), CONVERGE_WITHIN_S
            )
            assert a.own_settings(name) == judged_by("A")


def test_the_topic_of_settings_is_for_gateways_only(pair, a, admin):
    name = pair.topic_configs_topic
    before = pair.log

    by_name = a.produce(name, b"{}")
    by_id = a.produce(topic_id(admin, name), b"{}", version=13)
    assert [by_name.error_code, by_id.error_code] == [17, 17]
    assert a.delete(name) == 73
    assert a.alter(name, {"cleanup.policy": "delete"}) == 44
    assert a.alter(name, judged_by("A")) == 44
    assert pair.log == before


# A change under load


class Batch(NamedTuple):
    """A batch with the times of its request and its response, and the class of its verdict."""

    sent_at: float
    answered_at: float
    verdict: str


class Change(NamedTuple):
    """An alteration: when it was requested and acknowledged, and the class that judges then."""

    requested_at: float
    acknowledged_at: float
    policy: str


def keep_producing(address: str, topic: str, batches: list[Batch], ended: threading.Event) -> None:
    with TopicClient(address) as client:
        while not ended.is_set():
            sent_at = time.monotonic()
            found = verdict(client, topic)
            batches.append(Batch(sent_at, time.monotonic(), found))


def allowed(batch: Batch, changes: Sequence[Change]) -> set[str]:
    """Return the classes that may have judged a batch: in force before, or set meanwhile."""
    before = [change for change in changes if change.acknowledged_at <= batch.sent_at]
    meanwhile = [
        change
        for change in changes
        if change.acknowledged_at > batch.sent_at and change.requested_at < batch.answered_at
    ]
    return {change.policy for change in (*before[-1:], *meanwhile)}


@pytest.mark.kips("B41")
def test_every_batch_is_judged_by_the_class_set_when_it_was_sent(pair, a):
    name, ended = new_name(), threading.Event()
    requested_at = time.monotonic()
    a.create(name, judged_by("A"))
    changes = [Change(requested_at, time.monotonic(), "A")]
    batches: list[Batch] = []
    with ThreadPoolExecutor() as threads:
        producers = [
            threads.submit(keep_producing, pair.a.broker_address(), name, batches, ended)
            for _ in range(2)
        ]
        for number, policy in enumerate(cycle("BA")):
            if number >= 20 and len(batches) > 100:
                break
            time.sleep(0.1)
            requested_at = time.monotonic()
            assert a.alter(name, {RECORDS_POLICY: f"policies.{policy}"}) == 0
            changes.append(Change(requested_at, time.monotonic(), policy))
        ended.set()
        for producer in producers:
            producer.result(60)

    wrong = [batch for batch in batches if batch.verdict not in allowed(batch, changes)]
    assert wrong == []
    assert {batch.verdict for batch in batches} == {"A", "B"}


# The lives of instances


class Lives:
    """The records that the instances of a gateway's policies have written."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._file = gateway.file.parent / "events"

    def read(self) -> dict[tuple[str, str], list[str]]:
        """Return the events of each instance, in order, by class and number."""
        lives: dict[tuple[str, str], list[str]] = defaultdict(list)
        for line in self._file.read_text().splitlines():
            policy, number, what = line.split(" ", 2)
            lives[policy, number].append(what)
        return lives

    def judging(self, topic: str) -> list[tuple[str, list[str]]]:
        """Return the class and the life of each instance that judged a topic."""
        what = f"validates {topic}"
        return [(policy, life) for (policy, _), life in self.read().items() if what in life]

    def open(self, topic: str) -> list[str]:
        """Return the classes of the instances that are not closed."""
        return [policy for policy, life in self.judging(topic) if life[-1] != "closed"]


@pytest.mark.kips("B13")
def test_each_topic_has_its_own_instance_until_its_class_changes_or_it_is_deleted(pair, a):
    lives, (first, second) = Lives(pair.a), (new_name(), new_name())
    for name in (first, second):
        a.create(name, judged_by("A"))
        assert verdict(a, name) == "A"
    assert lives.open(first) == lives.open(second) == ["A"]
    assert not [life for _, life in lives.judging(first) if f"validates {second}" in life]

    assert a.alter(first, judged_by("B")) == 0
    assert verdict(a, first) == "B"
    wait_until(lambda: lives.open(first) == ["B"])
    assert a.alter(second, dict.fromkeys(judged_by("A"))) == 0
    wait_until(lambda: lives.open(second) == [])
    assert a.delete(first) == 0
    wait_until(lambda: lives.open(first) == [])


@pytest.mark.slow
@pytest.mark.kips("B41")
def test_an_instance_is_configured_once_and_closed_once_after_its_last_batch(pair, a):
    """This includes the instances of all earlier tests."""
    name = new_name()
    a.create(name, judged_by("A"))
    assert verdict(a, name) == "A"
    pair.a.stop()

    lives = Lives(pair.a).read()
    pair.a.restart()
    assert lives
    for life in lives.values():
        assert life[0] == "configured"
        assert life[-1] == "closed"
        assert life.count("configured") == life.count("closed") == 1
