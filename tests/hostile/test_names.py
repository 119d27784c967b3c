"""Invalid topic names get the error of a broker, and are not cached (7)."""

import uuid

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.static.primitive import i16, i32, i32Timedelta

from tests.hostile.attack import unexpected
from tests.hostile.conftest import POLICIES, PROPERTIES
from tests.hostile.innocent import BATCH, is_served
from tests.hostile.watchdog import tree_bytes
from tests.raw import RawClient, produce_request, produced

MIB = 2**20
LONG = 30_000


@pytest.fixture
def named(gateway):
    return gateway(PROPERTIES, POLICIES)


def create(name: str) -> CreateTopicsRequest:
    new = CreatableTopic(
        name=name, num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
    )
    return CreateTopicsRequest(
        topics=(new,), timeout=i32Timedelta.parse(__import__("datetime").timedelta(seconds=5)),
        validate_only=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x" * 250, "a b", "é", "..", ".", "a/b", "", "x" * LONG])
def test_a_broker_and_the_gateway_return_the_same_errors(named, kafka, name):
    produce = produce_request([(name, [(0, BATCH)])])
    codes = []
    for address in (kafka.bootstrap_servers, named.broker_address()):
        with RawClient(address) as client:
            answer = produced(client.call(produce))[name, 0].error_code
            [made] = client.call(create(name)).topics
            codes.append((answer, made.error_code))
    assert codes[0] == codes[1]
    assert not unexpected(named)


def test_many_invalid_names_use_no_memory(named, topic):
    name = topic()
    assert is_served(named.broker_address(), name)
    with RawClient(named.broker_address()) as client:
        for round_ in range(12):
            if round_ == 2:
                before = tree_bytes(named)
            for _ in range(100):
                other = uuid.uuid4().hex * (LONG // 32)
                client.call(produce_request([(other, [(0, BATCH)])]))
    assert tree_bytes(named) < before + 10 * MIB


@pytest.mark.slow
def test_many_valid_names_use_little_memory(named, topic):
    name = topic()
    assert is_served(named.broker_address(), name)
    before = tree_bytes(named)
    with RawClient(named.broker_address()) as client:
        for _ in range(200):
            names = [(uuid.uuid4().hex * 7, [(0, BATCH)]) for _ in range(100)]
            client.call(produce_request(names))
    assert tree_bytes(named) < before + 60 * MIB
    assert is_served(named.broker_address(), name)
