"""Whatever a client sends: the gateway lives, others are served, and nothing is left of it.

20,000 inputs by chance in `make test`; `make fuzz` for more. What was found once stays below.
"""

import collections
import random
import socket
import time

import pytest
from confluent_kafka.admin import AdminClient

from penstock.local import LocalKafka, free_ports
from tests.conftest import create_topic
from tests.gateways import (
    RunningGateway,
    descriptors,
    resident_bytes,
    wait_until,
    write_configuration,
)
from tests.hostile.inputs import Base, base, mutated
from tests.integration.reading import topic_id
from tests.integration.test_transparency import NEVER_ANSWERED, TOPIC, offered
from tests.raw import RawClient, produce_request, produced
from tests.records.encoding import encode_batch, values

POLICIES = """
from penstock.policy import *

class Passes(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass

class Creates(CreateTopicPolicy):
    def validate(self, request): pass

class Alters(AlterConfigPolicy):
    def validate(self, request): pass
"""
PROPERTIES = {
    "record.validator.classes": "policies.Passes",
    "create.topic.policy.class.name": "policies.Creates",
    "alter.config.policy.class.name": "policies.Alters",
    "topic.settings.topic": "__penstock_topic_settings",
    "policy.workers": 1,
}
ANSWER_S = 2.0
BATCH = encode_batch(values(b"good"))


@pytest.fixture(scope="module")
def cluster():
    """A broker of its own: the inputs may harm it."""
    properties = {"auto.create.topics.enable": "false"}
    with LocalKafka(properties=properties) as running:
        create_topic(AdminClient({"bootstrap.servers": running.bootstrap_servers}), TOPIC)
        create_topic(AdminClient({"bootstrap.servers": running.bootstrap_servers}), "innocent")
        yield running


@pytest.fixture(scope="module")
def attacked(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    file = write_configuration(
        folder, cluster.bootstrap_servers, free_ports(3)[0], PROPERTIES, POLICIES
    )
    running = RunningGateway(file)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def bases(cluster, attacked) -> list[Base]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    known = topic_id(admin, TOPIC)
    direct = offered(attacked.address)
    return [
        base(api_key, version, known)
        for api_key, (first, last) in sorted(direct.items())
        for version in range(max(first, 3 if api_key == 0 else first), last + 1)
        if (api_key, version) not in NEVER_ANSWERED
    ]


class Attack:
    """Sends inputs over a few connections, and takes what comes."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = host, int(port)
        self.told: collections.Counter[str] = collections.Counter()

    def send(self, data: bytes) -> str:
        """Send one input over a connection of its own; tell what became of it."""
        with socket.create_connection(self._place, ANSWER_S) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                told = "answered" if connection.recv(65536) else "closed"
            except TimeoutError:
                told = "nothing"
            except ConnectionError:
                told = "closed"
        self.told[told] += 1
        return told


def is_served(address: str) -> bool:
    """Whether an innocent client is."""
    began = time.monotonic()
    with RawClient(address, timeout_s=10) as client:
        answer = produced(client.call(produce_request([("innocent", [(0, BATCH)])])))
    assert time.monotonic() - began < 5
    return answer["innocent", 0].error_code == 0


def unexpected(running: RunningGateway) -> list[dict]:
    """What must not be in the log."""
    return [
        event
        for event in list(running.log)
        if "exception" in event
        or event.get("level") == "not JSON"
        or "error of the gateway" in str(event.get("event"))
    ]


def test_inputs_by_chance(attacked, cluster, bases, pytestconfig):
    count = pytestconfig.getoption("fuzz_inputs")
    given = pytestconfig.getoption("fuzz_seed")
    seed = random.randrange(10**6) if given is None else given
    chance = random.Random(seed)
    print(f"--fuzz-seed={seed}")
    attack = Attack(attacked.broker_address())
    for _ in range(200):
        attack.send(mutated(chance, bases)[1])
    memory, open_files = resident_bytes(attacked.pid), descriptors(attacked.pid)
    for number in range(count):
        chosen, data = mutated(chance, bases)
        attack.send(data)
        place = (
            f"--fuzz-seed={seed}, input {number}: {chosen.api_key} {chosen.version} {data.hex()}"
        )
        assert attacked.process.poll() is None, place
        if number % 500 == 0:
            assert is_served(attacked.broker_address()), place
            assert not unexpected(attacked), (place, unexpected(attacked)[:1])
    assert is_served(attacked.broker_address())
    assert not unexpected(attacked)
    wait_until(lambda: descriptors(attacked.pid) <= open_files + 4, 15)
    assert resident_bytes(attacked.pid) < memory + 100 * 2**20
    assert attack.told["answered"] > count / 50
    assert attack.told["closed"] > count / 50
