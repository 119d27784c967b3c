"""A CreateTopicPolicy (KIP-108) also judges the other ways to a topic, or to more partitions."""

import datetime
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kio.static.primitive import i8, i16, i32, i32Timedelta

from penstock.kafka.local import LocalKafka
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateways import RunningGateway, wait_until
from tests.integration.topics.creation import (
    TIMEOUT,
    Topic,
    create_on_broker,
    create_topics,
    errors_by_topic,
    exists,
    metadata,
    partitions,
    start_gateway,
    unique,
)
from tests.integration.topics.more_partitions import (
    FIND_COORDINATOR,
    STREAMS_GROUP_HEARTBEAT,
    create_partitions,
    results,
)
from tests.raw import RawClient

GROUPS, TRANSACTIONS, SHARES = range(3)
NO_COORDINATOR_YET = {14, 15, 16}
DEFAULT_PARTITIONS = 3
UNCHANGED = i32Timedelta.parse(datetime.timedelta(milliseconds=-1))

POLICIES = """
import json
from pathlib import Path
from penstock.policy import *

ALLOWS_INTERNAL = Path(__file__).with_name("allows-internal")

class AtMostTen(CreateTopicPolicy):
    def validate(self, request):
        if request.topic.startswith("tell-"):
            raise PolicyViolationException(json.dumps(
                [request.num_partitions, request.replication_factor,
                 request.replicas_assignments, dict(request.configs)]
            ))
        if request.topic.startswith("error-"): raise ValueError("a secret")
        if request.topic.startswith("no-"): raise PolicyViolationException("no such name")
        if request.topic.startswith("__") and not ALLOWS_INTERNAL.exists():
            raise PolicyViolationException("nothing internal")
        if request.num_partitions > 10:
            raise PolicyViolationException(f"{request.num_partitions} partitions are too many")
"""


@pytest.fixture(scope="module")
def creating():
    """A Kafka that creates topics automatically, and has none of its internal topics yet."""
    properties = {
        "auto.create.topics.enable": "true",
        "num.partitions": str(DEFAULT_PARTITIONS),
        "group.streams.initial.rebalance.delay.ms": "0",
    }
    with LocalKafka(properties=properties) as running:
        yield running


def started(kafka: LocalKafka, tmp_path_factory, **properties: str) -> RunningGateway:
    return start_gateway(
        tmp_path_factory.mktemp("gateway"),
        kafka.bootstrap_servers,
        POLICIES,
        {"create.topic.policy.class.name": "policies.AtMostTen", **properties},
    )


@pytest.fixture(scope="module")
def judging(creating, tmp_path_factory):
    running = started(creating, tmp_path_factory)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def other_options(creating, tmp_path_factory):
    """A gateway with the options that the other gateway leaves at their defaults."""
    options = {
        "create.topic.policy.auto.create.error.code": "44",
        "create.topic.policy.create.partitions": "false",
    }
    running = started(creating, tmp_path_factory, **options)
    yield running
    running.stop()


@pytest.fixture
def broker(creating):
    with RawClient(creating.bootstrap_servers) as connected:
        yield connected


# Metadata

VERSIONS = [0, 1, 3, 4, 8, 9, 12, pytest.param(13, marks=pytest.mark.since("4.0"))]


def codes(response: Any) -> dict[str, int]:
    """Error codes by topic."""
    return {topic.name: int(topic.error_code) for topic in response.topics}


@pytest.mark.kips("B8")
@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_creates_only_topics_that_the_policy_allows(client, broker, version):
    allowed, refused, failed = unique("allowed"), unique("no"), unique("error")
    request = metadata(refused, allowed, failed, version=version)

    assert codes(client.call(request)) == {allowed: 3, refused: 3, failed: 3}
    wait_until(lambda: codes(client.call(request)) == {allowed: 0, refused: 3, failed: 3})

    found = {topic.name: topic for topic in client.call(request).topics}
    assert len(found[allowed].partitions) == DEFAULT_PARTITIONS
    assert not exists(broker, refused)
    assert not exists(broker, failed)


@pytest.mark.kips("B8")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_may_get_the_refusal_of_a_topic(other_options, broker, version):
    allowed, refused = unique("allowed"), unique("no")
    request = metadata(refused, allowed, "no good name", version=version)

    with RawClient(other_options.address) as client:
        assert codes(client.call(request)) == {allowed: 3, refused: 44, "no good name": 17}
        wait_until(lambda: codes(client.call(request))[allowed] == 0)

    assert not exists(broker, refused)


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_are_returned_as_the_gateways_ports_in_every_version(client, judging, version):
    """Also if the gateway sends another version than the client."""
    (place,) = client.call(metadata(unique("no"), version=version)).brokers
    assert f"{place.host}:{place.port}" == judging.broker_address()


def test_the_policy_gets_the_topic_that_the_cluster_would_create(client, judging):
    name = unique("tell")
    client.call(metadata(name))
    (entry,) = refusals_of(judging, name)
    assert json.loads(entry["message"]) == [DEFAULT_PARTITIONS, 1, None, {}]


def test_counts_that_a_client_omits_are_the_defaults_of_the_cluster(client):
    name = unique("tell")
    ((_, message),) = errors_by_topic(client.call(create_topics(Topic(name, -1, -1)))).values()
    assert json.loads(message) == [DEFAULT_PARTITIONS, 1, None, {}]


def test_a_request_that_creates_nothing_is_not_judged(client, broker, judging):
    refused, allowed, listed = unique("no"), unique("allowed"), unique("no")
    for version in (4, 12):
        request = metadata(refused, allowed, version=version, creating=False)
        assert codes(client.call(request)) == {refused: 3, allowed: 3}
    client.call(metadata(listed))

    refusals_of(judging, listed)
    assert not [event for event in judging.events("topic refused") if event["topic"] == refused]
    assert not exists(broker, allowed)


def refusals_of(gateway: RunningGateway, topic: str) -> list[dict]:
    """Wait for the event of a topic's refusal in the log."""

    def found() -> list[dict]:
        return [event for event in gateway.events("topic refused") if event["topic"] == topic]

    wait_until(found)
    return found()


@pytest.mark.kips("B8")
def test_a_producer_to_a_refused_topic_fails(judging, broker):
    topic = unique("no")
    assert produced(judging, topic, within_ms=2000) is not None
    assert not exists(broker, topic)


@pytest.mark.kips("B8")
def test_a_producer_to_an_allowed_topic_is_served(judging, broker):
    topic = unique("allowed")
    assert produced(judging, topic) is None
    assert partitions(broker, topic) == DEFAULT_PARTITIONS


def produced(gateway: RunningGateway, topic: str, *, within_ms: int = 60_000) -> Any:
    """Produce a record to a topic that does not exist; return the error or None."""
    producer = Producer(
        {
            "bootstrap.servers": gateway.address,
            "message.timeout.ms": within_ms,
            "topic.metadata.propagation.max.ms": within_ms // 2,
            "log_level": 0,
        }
    )
    errors: list[Any] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(90)
    (error,) = errors
    return error


# Kafka's own topics


def find_coordinator(key_type: int = GROUPS, *keys: str, version: int = 4) -> Any:
    """A FindCoordinator request."""
    schema = load_request_schema(FIND_COORDINATOR, version)
    fields = {
        "key": keys[0],
        "key_type": i8(key_type),
        "coordinator_keys": keys,
    }
    return schema(
        **{name: value for name, value in fields.items() if name in schema.__dataclass_fields__}
    )


def coordinators(response: Any) -> list[tuple[str | None, int, str | None]]:
    """Key, code and message, as far as the version has them."""
    return [
        (
            getattr(coordinator, "key", None),
            int(coordinator.error_code),
            getattr(coordinator, "error_message", None),
        )
        for coordinator in getattr(response, "coordinators", [response])
    ]


@pytest.fixture(scope="module")
def refused_coordinators(creating, judging):
    """Responses while the policy refuses Kafka's internal topics. Then it allows them."""
    with RawClient(judging.address) as client, RawClient(creating.bootstrap_servers) as broker:
        answers = {
            version: coordinators(client.call(find_coordinator(GROUPS, "a", "b", version=version)))
            for version in range(7)
        }
        answers["transactions"] = coordinators(client.call(find_coordinator(TRANSACTIONS, "t")))
        found = codes(client.call(metadata("__consumer_offsets", "__transaction_state")))
        assert found == {"__consumer_offsets": 3, "__transaction_state": 3}
        assert not exists(broker, "__consumer_offsets")
        assert not exists(broker, "__transaction_state")
    judging.file.with_name("allows-internal").touch()
    return answers


def test_without_its_topic_there_is_no_coordinator(refused_coordinators):
    why = "nothing internal"
    assert refused_coordinators == {
        0: [(None, 15, None)],
        **{version: [(None, 15, why)] for version in (1, 2, 3)},
        **{version: [("a", 15, why), ("b", 15, why)] for version in (4, 5, 6)},
        "transactions": [("t", 15, why)],
    }


@pytest.mark.usefixtures("refused_coordinators")
def test_groups_work_if_the_policy_allows_their_topic(judging):
    topic = unique("allowed")
    assert produced(judging, topic) is None
    consumer = Consumer(
        {
            "bootstrap.servers": judging.address,
            "group.id": unique("group"),
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 200,
            "retry.backoff.ms": 50,
        }
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"value")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


# CreatePartitions


@pytest.mark.cases(2)
@pytest.mark.parametrize("version", range(4))
def test_partitions_that_the_policy_refuses_are_not_created(client, broker, version):
    good, bad = unique("good"), unique("bad")
    create_on_broker(broker, Topic(good, 2), Topic(bad, 2))
    counts = [(bad, 11), (good, 10), ("absent", 11)]
    expected = {
        bad: (44, "11 partitions are too many"),
        good: (0, None),
        "absent": (3, "This server does not host this topic-partition."),
    }

    request = create_partitions(counts, version=version, validate_only=True)
    answer = results(client.call(request))
    assert answer["absent"] == results(broker.call(request))["absent"]
    assert answer == {**expected, "absent": answer["absent"]}
    assert answer["absent"][0] == 3

    assert results(client.call(create_partitions(counts, version=version))) == answer
    wait_until(lambda: partitions(broker, good) == 10)
    assert partitions(broker, bad) == 2


def test_new_partitions_are_judged_with_the_existing_topic(client, broker):
    name, configs = unique("tell"), {"retention.ms": "1000", "cleanup.policy": "compact"}
    create_on_broker(broker, Topic(name, 2, configs=configs))

    ((code, message),) = results(client.call(create_partitions([(name, 4)]))).values()

    assert code == 44
    assert json.loads(message) == [4, 1, None, configs]


@pytest.mark.parametrize("counts", [[2], [1], [0], [11, 12]])
def test_errors_of_the_cluster_prevail_over_the_policy(client, broker, counts):
    name = unique("no")
    create_on_broker(broker, Topic(name, 2))
    request = create_partitions([(name, count) for count in counts])
    answer = results(client.call(request))
    assert answer == results(broker.call(request))
    assert answer[name][0] in {37, 42}


def test_new_partitions_may_be_left_to_the_cluster(other_options, broker):
    name = unique("no")
    create_on_broker(broker, Topic(name, 2))
    with RawClient(other_options.address) as client:
        assert results(client.call(create_partitions([(name, 12)]))) == {name: (0, None)}
    wait_until(lambda: partitions(broker, name) == 12)


# StreamsGroupHeartbeat

Counted = tuple[str, int]
"""A topic with its requested number of partitions; 0 leaves the number to the broker."""


def joining(
    group: str,
    sources: Sequence[str],
    *,
    changelogs: Sequence[Counted] = (),
    repartitions: Sequence[Counted] = (),
) -> Any:
    """The heartbeat with which a member joins and brings a topology."""
    schema = load_request_schema(STREAMS_GROUP_HEARTBEAT, 0)
    types = sys.modules[schema.__module__]

    def topics(counts: Sequence[Counted]) -> tuple:
        compact = (types.KeyValue(key="cleanup.policy", value="compact"),)
        return tuple(
            types.TopicInfo(
                name=name,
                partitions=i32(count),
                replication_factor=i16(0),
                topic_configs=compact,
            )
            for name, count in counts
        )

    part = types.Subtopology(
        subtopology_id="0",
        source_topics=tuple(sources),
        state_changelog_topics=topics(changelogs),
        repartition_source_topics=topics(repartitions),
        copartition_groups=(),
    )
    return schema(
        group_id=group,
        member_id="member",
        member_epoch=i32(0),
        endpoint_information_epoch=i32(0),
        rebalance_timeout=TIMEOUT,
        topology=types.Topology(epoch=i32(0), subtopologies=(part,)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="process",
        client_tags=(),
        task_offsets=None,
        task_end_offsets=None,
    )


def staying(group: str, epoch: int) -> Any:
    """A later heartbeat, which brings nothing."""
    return load_request_schema(STREAMS_GROUP_HEARTBEAT, 0)(
        group_id=group,
        member_id="member",
        member_epoch=i32(epoch),
        endpoint_information_epoch=i32(0),
        rebalance_timeout=UNCHANGED,
        topology=None,
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        client_tags=None,
        task_offsets=None,
        task_end_offsets=None,
    )


@pytest.fixture
def group(client, refused_coordinators):
    """A group that has a coordinator, which has loaded its partition."""
    name = unique("group")

    def has_coordinator() -> bool:
        ((_, code, _),) = coordinators(client.call(find_coordinator(GROUPS, name)))
        return code == 0 and client.call(staying(name, 1)).error_code not in NO_COORDINATOR_YET

    wait_until(has_coordinator)
    return name


def create(broker: RawClient, topic: str, count: int) -> str:
    """Create a topic on the broker itself; return its name."""
    create_on_broker(broker, Topic(topic, count))
    return topic


@pytest.mark.since("4.2")
def test_the_topics_of_an_allowed_topology_are_created(client, broker, group):
    source = create(broker, unique("source"), 2)
    internal = [(unique("changelog"), 0), (unique("repartition"), 4)]
    request = joining(group, [source], changelogs=internal[:1], repartitions=internal[1:])

    member = client.call(request)
    assert member.error_code == 0

    def are_created() -> bool:
        # The coordinator may learn of the source topic after its broker: members heartbeat on.
        nonlocal member
        member = client.call(staying(group, member.member_epoch))
        assert member.error_code == 0
        return all(partitions(broker, topic) == 4 for topic, _ in internal)

    wait_until(are_created)


@pytest.mark.since("4.2")
@pytest.mark.parametrize(
    ("sources", "changelog", "repartition", "why"),
    [
        (2, ("no", 0), ("repartition", 2), "no such name"),
        (2, ("changelog", 0), ("no", 2), "no such name"),
        (2, ("changelog", 0), ("repartition", 11), "11 partitions are too many"),
        (12, ("changelog", 0), ("repartition", 2), "12 partitions are too many"),
    ],
)
def test_a_topology_with_a_refused_topic_does_not_join(
    client, broker, group, sources, changelog, repartition, why
):
    source = create(broker, unique("source"), sources)
    changelog = (unique(changelog[0]), changelog[1])
    repartition = (unique(repartition[0]), repartition[1])

    answer = client.call(
        joining(group, [source], changelogs=[changelog], repartitions=[repartition])
    )

    assert (int(answer.error_code), answer.error_message) == (44, why)
    assert (answer.member_id, answer.member_epoch) == ("member", 0)
    assert client.call(staying(group, 1)).error_code != 0  # the group does not have this member
    assert not exists(broker, changelog[0])
    assert not exists(broker, repartition[0])


@pytest.mark.since("4.2")
def test_topics_of_a_topology_are_shown_as_the_broker_would_create_them(client, broker, group):
    source, name = create(broker, unique("source"), 5), unique("tell")
    answer = client.call(joining(group, [source], changelogs=[(name, 0)]))
    assert json.loads(answer.error_message) == [5, 1, None, {"cleanup.policy": "compact"}]


@pytest.mark.since("4.2")
def test_a_source_created_later_creates_no_refused_topics(client, broker, group):
    """Brokers remember the topology, and create its topics when they can."""
    source, changelog = unique("later"), unique("changelog")
    epoch = client.call(joining(group, [source], changelogs=[(changelog, 0)])).member_epoch
    create(broker, source, 12)

    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not exists(broker, changelog):
        answer = client.call(staying(group, epoch))
        if answer.error_code:
            break  # it did not join
        time.sleep(0.1)

    assert not exists(broker, changelog)
