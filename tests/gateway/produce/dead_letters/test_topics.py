"""Dead letter topics: their leaders, and how they are created."""

import asyncio
import gc
import weakref
from concurrent.futures import Future

import pytest
from kio.schema.errors import ErrorCode

from penstock.engine.modes.quarantine import LETTERS_BYTES
from penstock.engine.verdict import refused
from penstock.gateway.produce.dead_letters import topics as letter_topics
from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
from penstock.gateway.produce.dead_letters.failures import LetterRefusedError
from penstock.gateway.produce.dead_letters.topics import LetterTopics
from penstock.kafka.client.admin.configs import DescribedConfig
from penstock.kafka.client.connections.metadata import NO_NODE, PartitionLeader, TopicLeaders
from penstock.kafka.client.errors import (
    BrokerUnreachableError,
    ClientError,
    ResponseError,
    response_error,
)
from penstock.kafka.wire.names import NO_ID
from tests.gateway.produce.dead_letters.names import Gateway, any_names

TO = DeadLetterTopic("orders.dead", "orders", 5, 3)
LEADERS = {0: PartitionLeader(1, 0), 1: PartitionLeader(2, 0), 2: PartitionLeader(1, 0)}


class Cluster:
    """The topics of a cluster, by name; a name that is missing gets no response at all."""

    def __init__(self, **topics):
        self.topics = {}
        for name, (code, leaders) in topics.items():
            self.add(name, leaders, code)
        self.described, self.refreshed = [], []
        self.created, self.error = [], None
        self.limits = {}

    def add(self, name, leaders, code=0):
        self.topics[name] = TopicLeaders(name, code, NO_ID, leaders)

    # As a connection

    def begin_describe(self, names):
        self.described += names
        found = Future()
        found.set_result({name: self.topics[name] for name in names if name in self.topics})
        return found

    def refresh(self, topic):
        self.refreshed.append(topic)

    # As the requests of administration

    def configs_of_topic(self, connection, topic, timeout_s, *, keys):
        assert connection is self
        if topic not in self.limits:
            raise response_error(29, f"topic {topic}")
        return {key: DescribedConfig(self.limits[topic], False) for key in keys}

    def create(self, connection, new, timeout_s):
        assert connection is self
        if self.error is not None:
            raise self.error
        self.created.append(new)
        self.add(new.name, {number: PartitionLeader(1, 0) for number in range(new.partitions)})


UNKNOWN = (3, {})


def refusal(code, text=None):
    """The cluster's answer to the request to create a topic."""
    return response_error(int(code), "topic orders.dead", text)


@pytest.fixture
def leaders(monkeypatch):
    """Looks up the leaders of a dead letter topic in a cluster."""

    async def look_up(cluster, times=1, to=TO, names=None):
        monkeypatch.setattr(letter_topics, "configs_of_topic", cluster.configs_of_topic)
        monkeypatch.setattr(letter_topics, "create", cluster.create)
        topics = LetterTopics(names or any_names())
        found = await asyncio.gather(*[topics.leaders(cluster, to) for _ in range(times)])
        assert all(each == found[0] for each in found)
        return found[0]

    return look_up


def cluster_with(dead, source=(0, LEADERS)):
    return Cluster(**{"orders.dead": dead, "orders": source})


async def test_all_letters_share_one_look_up(leaders):
    cluster = cluster_with((0, LEADERS))
    assert await leaders(cluster, times=3) == LEADERS
    assert cluster.described == ["orders.dead"]
    assert cluster.created == []


async def test_a_later_look_up_requests_leaders_again():
    cluster, topics = cluster_with((0, LEADERS)), LetterTopics(any_names())
    for _ in range(2):
        assert await topics.leaders(cluster, TO) == LEADERS
    assert cluster.described == ["orders.dead", "orders.dead"]


@pytest.mark.parametrize(
    ("source", "partitions"), [((0, LEADERS), 3), ((0, {}), 1), ((29, LEADERS), 1), (UNKNOWN, 1)]
)
async def test_a_topic_that_does_not_exist_is_created_with_as_many_partitions(
    leaders, source, partitions
):
    cluster = cluster_with(UNKNOWN, source)
    assert list(await leaders(cluster, times=2)) == list(range(partitions))
    assert cluster.created == [("orders.dead", partitions, 3, {})]


async def test_a_topic_that_another_gateway_creates_meanwhile_is_not_created(leaders):
    cluster = cluster_with(UNKNOWN)
    describe = cluster.begin_describe

    def created_meanwhile(names):
        found = describe(names)
        cluster.add("orders.dead", LEADERS)
        return found

    cluster.begin_describe = created_meanwhile
    assert await leaders(cluster) == LEADERS
    assert cluster.created == []


async def test_a_policy_judges_the_topic_as_it_is_created(leaders):
    cluster, gateway = cluster_with(UNKNOWN), Gateway("a.P")
    cluster.limits["orders"] = str(LETTERS_BYTES)
    assert await leaders(cluster, times=2, names=gateway.names) == {
        number: PartitionLeader(1, 0) for number in range(3)
    }
    (judged,) = gateway.judged
    assert (judged.topic, *judged[1:3], judged.configs) == cluster.created[0]


async def test_a_topic_that_a_policy_refuses_is_not_created(leaders):
    cluster, gateway = cluster_with(UNKNOWN), Gateway("a.P")
    gateway.verdicts = [refused(44, "not like that", "a.P")]
    names = gateway.names
    for _ in range(2):
        with pytest.raises(LetterRefusedError, match="cannot be created: not like that"):
            await leaders(cluster, names=names)
    assert (len(gateway.judged), cluster.created) == (1, [])


async def test_a_topic_of_a_forbidden_name_is_not_created(leaders):
    cluster = Cluster(__orders=UNKNOWN, orders=(0, LEADERS))
    with pytest.raises(LetterRefusedError, match="names that begin with __"):
        await leaders(cluster, to=TO._replace(name="__orders"))
    assert cluster.created == []


@pytest.mark.parametrize(
    ("to", "other"),
    [
        (TO, "dlq.orders"),
        (DeadLetterTopic("dlq.orders.dead", "orders.dead", 0, 3), "orders"),
    ],
)
async def test_dead_letters_have_one_topic(leaders, to, other):
    """A client that chooses another name of the file, or the dead letter topic as source."""
    names = {"errors__deadletterqueue__topic__name": "dlq.${topic}"}
    topics = {to.name: UNKNOWN, to.source: (0, LEADERS), "dlq.orders": UNKNOWN, "orders": UNKNOWN}
    cluster = Cluster(**{**topics, to.source: (0, LEADERS), other: (0, LEADERS)})
    with pytest.raises(LetterRefusedError, match=f"topic {other} exists, and dead letters have"):
        await leaders(cluster, to=to, names=Gateway(**names).names)
    assert cluster.created == []
    if other != "orders":
        cluster.add(other, {}, 3)
        await leaders(cluster, to=to, names=Gateway(**names).names)
        assert cluster.created[0][0] == to.name


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("1", LETTERS_BYTES + 65_536),
        (str(LETTERS_BYTES + 5), LETTERS_BYTES + 5 + 65_536),
        (str(2**31 - 2), 2**31 - 1),
        ("text", None),
    ],
)
async def test_a_created_topic_accepts_letters_that_are_larger_than_records(
    leaders, limit, expected
):
    cluster = cluster_with(UNKNOWN)
    cluster.limits["orders"] = limit
    await leaders(cluster)
    ((*_, config),) = cluster.created
    assert config == ({} if expected is None else {"max.message.bytes": str(expected)})


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (refusal(ErrorCode.invalid_replication_factor), ClientError,
         "errors.deadletterqueue.topic.replication.factor is 3: the cluster may have fewer brokers"),
        (refusal(ErrorCode.topic_authorization_failed, "not allowed"), ClientError,
         "the dead letter topic orders.dead cannot be created: not allowed"),
        (refusal(ErrorCode.invalid_topic_exception, "Topic 'orders.dead' collides with orders_dead"),
         LetterRefusedError, "cannot be created: Topic 'orders.dead' collides with orders_dead"),
        (refusal(ErrorCode.policy_violation, "of the cluster"), LetterRefusedError,
         "cannot be created: of the cluster"),
        (BrokerUnreachableError("no broker"), BrokerUnreachableError,
         "the dead letter topic orders.dead cannot be created: no broker"),
    ],
)  # fmt: skip
async def test_a_topic_that_cannot_be_created_is_an_error(leaders, error, kind, text):
    cluster = cluster_with(UNKNOWN)
    cluster.error = error
    with pytest.raises(ClientError) as raised:
        await leaders(cluster, times=2)
    assert type(raised.value) is kind
    assert text in str(raised.value)
    code = error.code if isinstance(error, ResponseError) else None
    is_about_brokers = code == ErrorCode.invalid_replication_factor
    assert ("fewer brokers" in str(raised.value)) == is_about_brokers


@pytest.mark.parametrize(
    "found",
    [
        {0: PartitionLeader(1, 0), 1: PartitionLeader(NO_NODE, 0)},
        {0: PartitionLeader(1, 0), 2: PartitionLeader(1, 0)},
    ],
)
async def test_a_topic_without_all_its_leaders_is_looked_up_again(leaders, found):
    cluster = cluster_with((0, found))
    with pytest.raises(ClientError, match=r"topic orders\.dead") as raised:
        await leaders(cluster)
    assert raised.value.retriable
    assert cluster.refreshed == ["orders.dead"]


async def test_other_partitions_need_no_leader(leaders):
    found = {0: PartitionLeader(NO_NODE, 0), 1: PartitionLeader(2, 0)}
    cluster = cluster_with((0, found))
    assert await leaders(cluster) == found
    assert cluster.refreshed == []


@pytest.mark.parametrize(
    ("code", "text"), [(29, "TOPIC_AUTHORIZATION_FAILED"), (0, "UNKNOWN_TOPIC")]
)
async def test_an_error_of_the_cluster_is_an_error(leaders, code, text):
    with pytest.raises(ClientError, match=text):
        await leaders(cluster_with((code, {})))


async def test_an_error_is_freed_without_the_collector(monkeypatch):
    cluster, topics = cluster_with(UNKNOWN), LetterTopics(any_names())
    cluster.error = refusal(ErrorCode.invalid_replication_factor)
    monkeypatch.setattr(letter_topics, "configs_of_topic", cluster.configs_of_topic)
    monkeypatch.setattr(letter_topics, "create", cluster.create)
    gc.disable()
    try:
        try:
            await topics.leaders(cluster, TO)
        except ClientError as error:
            ended = weakref.ref(error)
        await asyncio.sleep(0)
        assert ended() is None
    finally:
        gc.enable()


async def test_no_response_about_a_topic_is_an_error(leaders):
    with pytest.raises(ClientError, match="UNKNOWN_TOPIC"):
        await leaders(Cluster())
