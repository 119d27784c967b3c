"""MirrorMaker to a cluster, directly and behind gateways in each mode (docs/failures.md#clients).

Source and target are the same broker.
"""

import contextlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.conftest import create_topic
from tests.gateways import RunningGateway, wait_until
from tests.integration.reading import values_of
from tests.interop.modes import (
    DIRECT,
    KEEP,
    NO_POLICY,
    REASONS,
    REFUSE,
    REMOVE,
    USERS,
    gateway_of_all_topics,
    gateway_of_users_topics,
)
from tests.interop.programs import Programs
from tests.interop.workers import Worker, running_workers

pytestmark = pytest.mark.interop
ROUNDS = (
    [number % 3 != 1 for number in range(1000)],
    [number < 400 for number in range(1000)],
    [number >= 700 for number in range(1000)],
    [True],
)
"""For each record that is written before groups commit offsets: whether it is good."""
UNCHANGED = "org.apache.kafka.connect.converters.ByteArrayConverter"
TOPICS = ("offset-syncs", "checkpoints", "heartbeats")


@pytest.fixture(scope="module")
def worker(kafka, tmp_path_factory):
    """A worker at the broker itself. Each connector has its own address."""
    cluster, folder = f"mirror-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("mirror")
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    with running_workers(Programs.MIRROR_MAKER, folder, {cluster: settings}) as found:
        yield found[cluster]


class Mirror:
    """MirrorMaker's connectors between two clusters.

    Attributes:
        alias: The name of the source, with which its topics at the target begin.
    """

    def __init__(self, worker: Worker, source: str, target: str) -> None:
        self.alias = f"s{uuid.uuid4().hex[:6]}"
        self._worker = worker
        self._started: list[str] = []
        self._settings = {
            "source.cluster.alias": self.alias,
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": source,
            "target.cluster.bootstrap.servers": target,
            "producer.override.bootstrap.servers": target,
            "key.converter": UNCHANGED,
            "value.converter": UNCHANGED,
            "replication.factor": "1",
            **{f"{topic}.topic.replication.factor": "1" for topic in TOPICS},
            "offset-syncs.topic.location": "target",
            "offset.lag.max": "0",
            "heartbeats.replication.enabled": "false",
            "refresh.topics.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "emit.checkpoints.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "groups": f"{self.alias}-.*",
        }

    def start(self, kind: str, **settings: str) -> None:
        """Start a connector: `Source`, `Checkpoint` or `Heartbeat`."""
        named = f"org.apache.kafka.connect.mirror.Mirror{kind}Connector"
        configs = {"connector.class": named, **self._settings, **settings}
        self._started.append(f"{kind}-{self.alias}")
        status, answer = self._worker.create(self._started[-1], configs)
        assert status == 201, answer

    def stop(self) -> None:
        """Delete the connectors."""
        for name in self._started:
            self._worker.delete(name)

    def wait_for(self, kind: str, state: str) -> str:
        """Wait for a state of a connector's task; return the trace of its failure."""
        return self._worker.wait_for(f"{kind}-{self.alias}", state)

    def remote(self, topic: str) -> str:
        """Return a topic's name at the target."""
        return f"{self.alias}.{topic}"

    def logs(self, pattern: str) -> bool:
        """Return whether a line of its threads, or the line after it, has a pattern."""
        line = rf"^\[[^]]*{self.alias}->.*(\n.*)?{pattern}"
        return re.search(line, self._worker.log(), re.MULTILINE) is not None


class Cluster:
    """The broker: ends of topics, and offsets of the groups of a mirror."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def end(self, topic: str) -> int:
        """Return the end of a topic's log; 0 while the topic does not exist."""
        if topic not in self._admin.list_topics(timeout=60).topics:
            return 0
        (found,) = self._admin.list_offsets(
            {TopicPartition(topic, 0): OffsetSpec.latest()}
        ).values()
        try:
            return int(found.result(60).offset)
        except KafkaException:  # it has no leader yet
            return 0

    def commit(self, group: str, offsets: Mapping[str, int]) -> None:
        """Commit a group's offsets, by topic."""
        partitions = [TopicPartition(topic, 0, offset) for topic, offset in offsets.items()]
        committing = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)]
        )
        committing[group].result(60)

    def committed(self, group: str, topic: str) -> int:
        """Return a group's offset in a topic; negative if it has none."""
        reading = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
        )
        (partition,) = reading[group].result(60).topic_partitions
        return int(partition.offset)


@pytest.fixture
def cluster(admin):
    """The broker."""
    return Cluster(admin)


@pytest.fixture
def mirror(kafka, worker):
    """Begins to mirror to an address, from the broker or another address; ends with the test."""
    with contextlib.ExitStack() as running:

        def begin(target: str, source: str = kafka.bootstrap_servers) -> Mirror:
            begun = Mirror(worker, source, target)
            running.callback(begun.stop)
            return begun

        yield begin


@pytest.fixture
def address(kafka, shared_gateway):
    """Returns the address of a way to the broker, on which all topics or those of users are judged."""

    def find(way: str, *, users: bool) -> str:
        if way == DIRECT:
            return kafka.bootstrap_servers
        if users and way != NO_POLICY:
            return gateway_of_users_topics(shared_gateway).address
        return gateway_of_all_topics(shared_gateway, way).address

    return find


def value(number: int, good: bool) -> str:
    """Return a record's value."""
    return f'{{"{"id" if good else "no"}":{number}}}'


def number_of(found: bytes) -> int:
    """Return the offset at the source of a record at the target."""
    (number,) = json.loads(found).values()
    return int(number)


class Failover:
    """Groups that read a topic at the source, and may continue at the target.

    No policy judges the other topic. Its offsets are translated after those of earlier records.
    """

    def __init__(
        self, cluster: Cluster, mirror: Mirror, topic: str, other: str, rounds: int
    ) -> None:
        self._cluster, self._mirror = cluster, mirror
        self._topic, self._other = topic, other
        self._groups = [(f"{mirror.alias}-end-{number}", f"{mirror.alias}-middle-{number}")
                        for number in range(rounds)]  # fmt: skip
        self.end = 0
        """The number of records at the source."""
        for groups in self._groups:
            for group in groups:
                cluster.commit(group, {topic: 0, other: 0})

    def go(self, number: int, put, records: Sequence[bool], expected: int) -> dict[int, int]:
        """Write records and wait for them; return translated offsets by those that two groups commit.

        Args:
            number: The number of the round.
            put: Writes to a topic.
            records: Whether each record is good.
            expected: The end of the target's log after them.
        """
        put(self._topic, *(value(self.end + at, good) for at, good in enumerate(records)))
        self.end += len(records)
        at_end, in_middle = self._groups[number]
        offsets = {at_end: self.end, in_middle: self.end - len(records) // 2}
        remote, other = self._mirror.remote(self._topic), self._mirror.remote(self._other)
        wait_until(lambda: self._cluster.end(remote) == expected, 120, what=f"round {number}")
        put(self._other, str(number))
        for group, offset in offsets.items():
            self._cluster.commit(group, {self._topic: offset, self._other: number + 1})
        for group in offsets:
            wait_until(lambda group=group: self._cluster.committed(group, other) == number + 1, 120)
        return {offset: self._cluster.committed(group, remote) for group, offset in offsets.items()}


@pytest.mark.parametrize(
    ("way", "idempotence"),
    [*((way, "false") for way in (*KEEP, *REMOVE)), *((way, "true") for way in REMOVE)],
)
def test_a_consumer_that_fails_over_reads_every_stored_record(
    cluster, address, topic, put, stored, mirror, way, idempotence
):
    orders, others = topic(f"{USERS}-{way}"), topic("others")
    mirror = mirror(address(way, users=True))
    groups = Failover(cluster, mirror, orders, others, len(ROUNDS))
    topics = f"{orders},{others}"
    mirror.start("Source", topics=topics, **{"producer.override.enable.idempotence": idempotence})
    mirror.start("Checkpoint", topics=topics)
    expected: list[int] = []
    for number, records in enumerate(ROUNDS):
        expected += [groups.end + at for at, good in enumerate(records) if good or way in KEEP]
        translated = groups.go(number, put, records, len(expected))
        for offset, at_target in translated.items():
            first_unread = sum(read < offset for read in expected)
            assert at_target <= first_unread, f"{offset} became {at_target}, of {len(expected)}"
    assert list(map(number_of, values_of(stored(mirror.remote(orders))))) == expected
    # Each record of the last batch is stored, so that its offset is exact.
    assert translated[groups.end] == len(expected)


def test_a_refusal_fails_the_task_with_the_reason(cluster, address, topic, put, stored, mirror):
    orders = topic(f"{USERS}-enforce")
    mirror = mirror(address("enforce", users=True))
    put(orders, value(0, good=True))
    mirror.start("Source", topics=orders)
    wait_until(lambda: cluster.end(mirror.remote(orders)) == 1, 120, what="the good record")
    put(orders, value(1, good=False))
    assert re.search(REASONS["enforce"], mirror.wait_for("Source", "FAILED"))
    assert list(map(number_of, values_of(stored(mirror.remote(orders))))) == [0]


@pytest.fixture
def of_one_record(cluster, topic, put, address, mirror):
    """Begins to mirror a topic with a record that a group has read; returns the mirror and the topic."""

    def begin(way: str, **settings: str) -> tuple[Mirror, str]:
        orders, begun = topic(f"{USERS}-{way}"), mirror(address(way, users=False))
        put(orders, value(0, good=True))
        cluster.commit(f"{begun.alias}-one", {orders: 1})
        for kind in ("Source", "Checkpoint"):
            begun.start(kind, topics=orders, **settings)
        return begun, orders

    return begin


@pytest.mark.parametrize("way", KEEP)
def test_where_all_topics_are_judged_and_stored_offsets_are_translated(cluster, of_one_record, way):
    mirror, orders = of_one_record(way)
    mirror.start("Heartbeat")
    group, remote = f"{mirror.alias}-one", mirror.remote(orders)
    wait_until(lambda: cluster.committed(group, remote) == 1, 120, what="its offset")
    mirror.wait_for("Heartbeat", "RUNNING")


@pytest.mark.parametrize("way", REFUSE)
def test_where_its_own_records_are_refused_its_tasks_fail_with_the_reason(of_one_record, way):
    mirror, _ = of_one_record(way, **{"offset-syncs.topic.location": "source"})
    mirror.start("Heartbeat")
    assert re.search(REASONS[way], mirror.wait_for("Heartbeat", "FAILED"))
    assert re.search(REASONS[way], mirror.wait_for("Checkpoint", "FAILED"))


@pytest.mark.parametrize("way", REFUSE)
def test_where_its_offset_syncs_are_refused_it_logs_the_reason(cluster, of_one_record, way):
    """It continues without them, and translates no offsets."""
    mirror, orders = of_one_record(way)
    wait_until(lambda: mirror.logs("Failure sending offset sync"), 120, what="the failure")
    assert mirror.logs(REASONS[way])
    assert cluster.committed(f"{mirror.alias}-one", mirror.remote(orders)) < 0


OWN = {"records.policy.class.name": "policies.NoBad", "records.policy.enabled": "true"}
"""Topic level keys, which only a gateway stores, beside those of a broker."""
RETENTION = "86400000"
POLICIES = """
from penstock.policy import *

class NoBad(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(b"bad" in record.value for record in records):
            raise PolicyViolationException("bad is not good")

class NoNo(RecordsPolicy): pass
"""


@pytest.fixture
def gateway_that_allows(gateway):
    """Starts a gateway with its own settings topic, where topics may name a class."""

    def start(name: str) -> RunningGateway:
        settings = f"settings-{uuid.uuid4().hex[:8]}"
        allowed = {"records.policy.class.names.allowed": f"policies.{name}"}
        return gateway({**allowed, "topic.settings.topic": settings}, POLICIES)

    return start


@pytest.fixture
def with_own_keys(gateway_that_allows, mirror):
    """Returns a mirror to a gateway, and a topic with topic level keys at its source."""
    source = gateway_that_allows("NoBad")

    def begin(target: RunningGateway) -> tuple[Mirror, str]:
        orders = f"orders-{uuid.uuid4().hex[:8]}"
        configs = {**OWN, "retention.ms": RETENTION}
        client = AdminClient({"bootstrap.servers": source.address})
        client.create_topics([NewTopic(orders, 1, 1, config=configs)])[orders].result(60)
        return mirror(target.address, source.address), orders

    return begin


def configs_of(gateway: RunningGateway, topic: str) -> dict[str, str | None]:
    """Return configs of a topic, as a gateway shows them."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = AdminClient({"bootstrap.servers": gateway.address})
    found = client.describe_configs([resource])[resource].result(60)
    return {name: found[name].value for name in (*OWN, "retention.ms") if name in found}


def refused_keys(gateway: RunningGateway, topic: str, mirror: Mirror) -> str:
    """Wait until a gateway has logged that a mirror's keys of a topic are refused; return why."""

    def logged() -> list[str]:
        return [
            event["message"]
            for event in gateway.events("topic level keys refused")
            if event["topic"] == topic and event["client_id"].startswith(f"{mirror.alias}->")
        ]

    wait_until(logged, 120, what="the refusal")
    return logged()[0]


SYNCED = {"sync.topic.configs.enabled": "true", "sync.topic.configs.interval.seconds": "1"}


def test_keys_that_the_target_allows_judge_the_mirrored_records(
    gateway_that_allows, with_own_keys, cluster, put, stored
):
    target = gateway_that_allows("NoBad")
    mirror, orders = with_own_keys(target)
    put(orders, "good")
    mirror.start("Source", topics=orders)
    wait_until(lambda: cluster.end(mirror.remote(orders)) == 1, 120, what="the good record")
    assert configs_of(target, mirror.remote(orders)) == {**OWN, "retention.ms": RETENTION}
    put(orders, "bad")
    assert "bad is not good" in mirror.wait_for("Source", "FAILED")
    assert values_of(stored(mirror.remote(orders))) == [b"good"]


def test_of_a_topic_whose_keys_are_refused_no_config_is_mirrored_but_each_record(
    admin, gateway_that_allows, with_own_keys, cluster, put, stored
):
    target = gateway_that_allows("NoNo")
    mirror, orders = with_own_keys(target)
    remote = mirror.remote(orders)
    create_topic(admin, remote)
    before = configs_of(target, remote)
    put(orders, "good", "bad")
    mirror.start("Source", topics=orders, **SYNCED)
    assert "Class policies.NoBad may not be named" in refused_keys(target, remote, mirror)
    wait_until(lambda: cluster.end(remote) == 2, 120, what="the records")
    assert values_of(stored(remote)) == [b"good", b"bad"]
    assert configs_of(target, remote) == before


def test_a_topic_whose_keys_are_refused_is_not_created(admin, gateway_that_allows, with_own_keys):
    target = gateway_that_allows("NoNo")
    mirror, orders = with_own_keys(target)
    mirror.start("Source", topics=orders)
    assert "Class policies.NoBad may not be named" in refused_keys(
        target, mirror.remote(orders), mirror
    )
    assert mirror.remote(orders) not in admin.list_topics(timeout=60).topics
