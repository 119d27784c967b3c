"""Commands on topics whose brokers die and whose leaders move meanwhile: each record once."""

import random
import re
import subprocess
import sys
from collections import defaultdict

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.integration.reading import read_topic
from tests.jobs.kills.brokers import Disturbances, replicated_brokers
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD

pytestmark = pytest.mark.spark_processes
COUNT, PARTITIONS = 30_000, 3
SEED = random.randrange(2**32)
POLICIES = """
import time
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        time.sleep(0.001)
        if record.value.startswith(b"bad"): raise InvalidRecordException("bad is not good")

class Repair(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ".*"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.replace(b"bad", b"repaired"))
"""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with replicated_brokers(tmp_path_factory.mktemp("brokers")) as it:
        yield it


def value(number):
    return b"%s-%06d" % (b"bad" if number % 20 == 0 else b"good", number)


@pytest.fixture
def names(brokers):
    """The topics: one with records that are not in aborted transactions."""
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    made = [f"{kind}-{SEED:x}" for kind in ("source", "good", "dead", "back")]
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in made]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, "linger.ms": 5,
                         "batch.num.messages": 200, "transactional.id": made[0]})  # fmt: skip
    producer.init_transactions(60)
    for first in range(0, COUNT, 3000):
        for is_committed in (False, True):
            producer.begin_transaction()
            for number in range(first, first + 3000):
                kept = value(number) if is_committed else b"aborted"
                producer.produce(made[0], kept, partition=number % PARTITIONS)
            assert producer.flush(60) == 0
            (producer.commit_transaction if is_committed else producer.abort_transaction)(60)
    return made


@pytest.fixture
def penstock(brokers, tmp_path, names):
    """Runs a command with the policies, during disturbances; returns its output."""
    (tmp_path / "policies.py").write_text(POLICIES)
    file = tmp_path / "penstock.properties"
    lines = {**NO_BAD, "upstream.bootstrap.servers": brokers.bootstrap_servers}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    topics = [*names, "__transaction_state", "__consumer_offsets"]

    def run(name, *arguments):
        with Disturbances(brokers, topics, random.Random(SEED)) as disturbances:
            done = subprocess.run(
                [sys.executable, "-m", "penstock", name, str(file), *arguments,
                 "--master", "local[3,4]"],
                capture_output=True, text=True, check=False, timeout=HANGS_S,
            )  # fmt: skip
        assert done.returncode == 0, (SEED, done)
        assert disturbances.count > 2, (SEED, done)
        return done.stdout.replace(",", "")

    return run


def stored(brokers, topic):
    """Return the values of each partition, for readers of committed records."""
    found = defaultdict(list)
    for message in read_topic(
        brokers.bootstrap_servers, topic, isolation="read_committed", full=True
    ):
        found[message.partition()].append(message.value())
    return found


def expected(*, is_bad, was=b"bad", becomes=b"bad"):
    """Return the values of each partition, in order."""
    return {
        partition: [
            value(number).replace(was, becomes)
            for number in range(partition, COUNT, PARTITIONS)
            if (number % 20 == 0) == is_bad
        ]
        for partition in range(PARTITIONS)
    }


def test_each_record_once(penstock, brokers, names):
    source, good, dead, back = names
    bad = COUNT // 20
    done = penstock("audit", "--topic", source)
    assert re.search(rf"{COUNT} records judged: {COUNT - bad} accepted {bad} refused", done), done

    done = penstock("split", "--topic", source, "--accepted", good, "--rejected", dead)
    assert f"{COUNT - bad} accepted {bad} refused" in done, (SEED, done)
    assert stored(brokers, good) == expected(is_bad=False), SEED
    assert stored(brokers, dead) == expected(is_bad=True), SEED

    done = penstock("redrive", "--from", dead, "--to", back, "--topic", source, "--with",
                    "policies.Repair")  # fmt: skip
    assert stored(brokers, back) == expected(is_bad=True, becomes=b"repaired"), (SEED, done)
    assert stored(brokers, dead) == expected(is_bad=True), SEED
