"""`penstock check --since`: how policies would judge stored records, on a real Kafka."""

import re
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from penstock.kafka.local import free_ports
from penstock.policy import Record
from tests.conftest import create_acls, create_topic
from tests.gateways import run_penstock, wait_until, write_configuration
from tests.integration.reading import read_topic
from tests.integration.trail import secured, secured_admin, upstream_as
from tests.kafka.records.encoding import encode_batch
from tests.raw import RawClient, produce_request
from tests.secured import acl

__all__ = ["secured", "secured_admin"]
pytestmark = pytest.mark.system

POLICIES = """
import os, time
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        while value == b"hang":
            time.sleep(1)
        if value == b"fail":
            raise ZeroDivisionError(value)
        if value == b"exit":
            os._exit(1)
        if value == b"later":
            raise RetriableException("not now")
        return InvalidRecordException("bad is not good") if value == b"bad" else None

class Few(RecordsPolicy):
    def validate(self, topic, partition, records):
        if len(list(records)) > 3:
            raise PolicyViolationException("more than three at a time")

class Change(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "^changing"
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"):
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value.upper())
"""
CHECK = {"record.validator.classes": "policies.Check"}
OBSERVE = {"penstock.mode": "observe"}


def produce(address, topic, *batches, partition=0):
    """Send a request for each batch."""
    with RawClient(address, timeout_s=60) as client:
        for batch in batches:
            now = int(time.time() * 1000)
            data = encode_batch([Record(now, None, value) for value in batch])
            response = client.call(produce_request([(topic, [(partition, data)])]))
            assert int(response.responses[0].partition_responses[0].error_code) == 0


@pytest.fixture
def written(kafka, tmp_path):
    """Writes a configuration; observed topics are those whose name begins as this test's."""

    def write(properties, **more):
        own = {**properties, **{key.replace("_", "."): value for key, value in more.items()}}
        return write_configuration(tmp_path, kafka.bootstrap_servers, 9192, own, POLICIES)

    return write


def check(file, *arguments):
    done = run_penstock("--log-level", "error", "check", file, *arguments, timeout_s=300)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def part_of(done, topic):
    """The lines about a topic: the figures, without the spaces between them."""
    assert done.returncode in {0, 1}, done.stderr
    found = re.search(rf"^topic {topic}, .*\n((?:  .*\n)*)", done.stdout, re.MULTILINE)
    assert found, done.stdout
    return [" ".join(line.split()) for line in found[0].splitlines()]


def test_records_of_observed_topics_are_judged_as_by_the_gateway(kafka, topic, written):
    prefix = f"seen{uuid.uuid4().hex[:6]}"
    name, other = topic(prefix, partitions=2), topic("other")
    file = written(CHECK, **{f"topics.{prefix}*.penstock.mode": "observe"})
    batches = [[b"a"] * 5, [b"a", b"bad", b"bad"], [b"fail"], [b"later"], [b"exit"]]
    produce(kafka.bootstrap_servers, name, *batches)
    produce(kafka.bootstrap_servers, name, [b"bad"], partition=1)
    produce(kafka.bootstrap_servers, other, [b"bad"])

    done = check(file, "--since", "1h")
    assert done.returncode == 0
    assert part_of(done, name) == [
        f"topic {name}, observed: 12 records in 6 batches",
        "5 would be stored as they are (41.67%)",
        "4 would be refused (33.33%), in 2 batches",
        "4 by policies.Check",
        "2 would be refused, because a policy fails (16.67%), in 2 batches",
        "2 by policies.Check",
        "1 could not be judged now, and would have to be sent again (8.33%), in 1 batch",
        "1 by policies.Check",
        "reasons, and the records to blame",
        "3 policies.Check: bad is not good (the first seen at "
        + done.stdout.split("bad is not good  (the first seen at ")[1].split(")")[0] + ")",
        *part_of(done, name)[10:],
    ]  # fmt: skip
    assert other not in done.stdout
    assert len(read_topic(kafka.bootstrap_servers, name)) == 12  # and nothing is written


def test_only_records_since_the_time_are_judged(kafka, topic, written):
    name = topic()
    file = written({**CHECK, **OBSERVE})
    produce(kafka.bootstrap_servers, name, [b"bad"])
    time.sleep(0.01)
    after = time.time()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(name, b"a", timestamp=int(after * 1000) + 5)
    assert producer.flush(60) == 0
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(after))
    when += f".{int(after % 1 * 1000):03d}"
    done = check(file, "--since", when, "--topic", name)
    assert part_of(done, name)[0] == f"topic {name}, observed: 1 records in 1 batch"


@pytest.mark.slow
def test_a_batch_is_judged_as_it_was_sent_also_if_compressed_or_compacted(kafka, topic, written):
    name = topic("batches", **{"message.timestamp.type": "LogAppendTime"})
    file = written({
        f"topics.{name}.records.policy.class.name": "policies.Few",
        f"topics.{name}.records.policy.enabled": "true",
    })  # fmt: skip
    for codec in ("none", "gzip", "zstd", "lz4", "snappy"):
        producer = Producer({
            "bootstrap.servers": kafka.bootstrap_servers, "compression.type": codec,
            "linger.ms": 1000, "enable.idempotence": True,
        })  # fmt: skip
        for count in (3, 4):
            for _ in range(count):
                producer.produce(name, b"x" * 100)
            assert producer.flush(60) == 0

    # Enforced, and named: modes make no difference here.
    done = check(file, "--since", "1h", "--topic", name, "--fail-over", "50%")
    assert done.returncode == 1
    assert part_of(done, name)[:3] == [
        f"topic {name}, enforced: 35 records in 10 batches",
        "15 would be stored as they are (42.86%)",
        "20 would be refused (57.14%), in 5 batches",
    ]
    assert check(file, "--since", "1h", "--topic", name, "--fail-over", "60%").returncode == 0


def test_interceptors_run_without_changing_stored_records(kafka, admin, written):
    name = f"changing-{uuid.uuid4().hex[:8]}"
    create_topic(admin, name)
    file = written({"produce.request.interceptors": "policies.Change", **OBSERVE})
    produce(kafka.bootstrap_servers, name, [b"a", b"drop"], [b"drop"], [b"UP"])
    done = check(file, "--since", "1h", "--topic", name)
    assert part_of(done, name) == [
        f"topic {name}, observed: 4 records in 3 batches",
        "1 would be stored as they are (25.00%)",
        "0 would be refused (0.00%)",
        "2 would be dropped by interceptors (50.00%), in 1 batch",
        "2 by policies.Change",
        "1 would be rewritten by interceptors (25.00%), in 1 batch",
        "1 by policies.Change",
    ]


def test_of_many_records_samples_of_the_whole_time_are_judged(kafka, topic, written):
    name = topic()
    file = written({**CHECK, **OBSERVE})
    produce(
        kafka.bootstrap_servers, name, *[[b"bad" if n >= 15 else b"a"] * 500 for n in range(20)]
    )
    done = check(file, "--since", "1h", "--topic", name, "--max-records", "4000")
    first, *_, note = (line for line in done.stdout.splitlines() if name in line or "note" in line)
    count = int(first.split(":")[1].split()[0].replace(",", ""))
    assert 3000 <= count <= 5000
    assert note == (
        f"note: {count:,} of at most 10,000 records were read, in pieces from all of that time; "
        "--max-records reads more, penstock audit reads everything"
    )
    share = float(re.search(r"would be refused \(([\d.]+)%\)", done.stdout)[1])
    assert 15 <= share <= 40


def test_a_policy_that_hangs_is_stopped_as_in_the_gateway(kafka, topic, written):
    name = topic()
    file = written({**CHECK, **OBSERVE}, policy_timeout_ms=3000, policy_workers=1)
    produce(kafka.bootstrap_servers, name, [b"hang"], [b"a"])
    done = check(file, "--since", "1h", "--topic", name)
    assert part_of(done, name)[1:3] == [
        "1 would be stored as they are (50.00%)",
        "0 would be refused (0.00%)",
    ]
    assert "1 would be refused, because a policy fails (50.00%), in 1 batch" in part_of(done, name)


def test_aborted_transactions_are_not_judged(kafka, topic, written):
    name = topic()
    file = written({**CHECK, **OBSERVE})
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    for value, end in (("bad", producer.abort_transaction), ("a", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(name, value)
        assert producer.flush(60) == 0
        end(60)
    # A marker may follow the answer by a moment.
    wait_until(
        lambda: len(read_topic(kafka.bootstrap_servers, name, isolation="read_committed")) == 1,
        what="the end of a transaction",
    )
    done = check(file, "--since", "1h", "--topic", name)
    assert part_of(done, name)[0] == f"topic {name}, observed: 1 records in 1 batch"


def test_modes_of_topic_configs_and_counts_of_a_gateway_are_used(kafka, topic, gateway):
    port = free_ports(1)[0]
    running = gateway(
        {**CHECK, "metrics.listener": f":{port}", "metrics.listener.token": "not-to-be-shown",
         "topic.settings.topic": f"settings-{uuid.uuid4().hex[:8]}"},
        POLICIES,
    )  # fmt: skip
    watched, strict = topic("watched"), topic("strict")
    through = AdminClient({"bootstrap.servers": running.address})
    entry = ConfigEntry("penstock.mode", "observe", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, watched, incremental_configs=[entry])
    next(iter(through.incremental_alter_configs([resource]).values())).result(60)
    produce(running.broker_address(), watched, [b"bad", b"a"], [b"a"])
    produce(running.broker_address(), strict, [b"a"])
    running.wait_for("records would be refused")

    done = check(running.file, "--since", "1h")
    assert part_of(done, watched)[0] == f"topic {watched}, observed: 3 records in 2 batches"
    assert strict not in done.stdout
    where = f"the gateway with metrics.listener 127.0.0.1:{port} received from its start at 20"
    assert where in done.stdout
    counted = done.stdout.split(f"  {watched}: ")[1].splitlines()[0]
    assert "2 would_refuse" in counted
    assert "not-to-be-shown" not in done.stdout + done.stderr
    running.stop()
    done = check(running.file, "--since", "1h")
    assert done.returncode == 0
    assert f"note: the gateway's own counts cannot be read at 127.0.0.1:{port}: " in done.stdout


# How it ends


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--topic", "orders"), "--topic requires --since WHEN"),
        (("--fail-over", "1%"), "--fail-over requires --since WHEN"),
        (("--since", "soon"), "--since soon: must be a duration such as 30m, 1h or 7d"),
        (("--since", "1h"), "no topic that exists is observed"),
        (("--since", "1h", "--topic", "not-there"), "there is no topic not-there on"),
    ],
)
def test_wrong_arguments(written, arguments, why):
    done = check(written(CHECK), *arguments)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_topic_without_policies_is_reported(kafka, topic, written):
    name = topic()
    done = check(written(OBSERVE), "--since", "1h", "--topic", name)
    assert done.returncode == 2
    assert f"no policy judges {name}" in done.stderr


@pytest.mark.slow
def test_an_unreachable_cluster(tmp_path):
    file = write_configuration(tmp_path, "127.0.0.1:1", 9192, {**CHECK, **OBSERVE}, POLICIES)
    done = check(file, "--since", "1h")
    assert done.returncode == 3
    assert (
        "\npenstock check: 127.0.0.1:1: the cluster at 127.0.0.1:1 cannot be reached: "
        in done.stderr
    )


def test_topics_without_read_permission_are_not_judged(secured, secured_admin, tmp_path):
    create_topic(secured_admin, "judged")
    create_acls(secured_admin, acl("judged", AclOperation.DESCRIBE))
    producer = Producer({
        "bootstrap.servers": secured.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "admin-secret",
    })  # fmt: skip
    producer.produce("judged", b"secret")
    assert producer.flush(60) == 0
    file = write_configuration(
        tmp_path, secured.bootstrap_servers, 9192,
        {**CHECK, **OBSERVE, "topic.settings.topic": "", **upstream_as("alice")}, POLICIES,
    )  # fmt: skip
    done = check(file, "--since", "1h", "--topic", "judged")
    assert done.returncode == 3
    assert "judged" in done.stderr
    assert "secret" not in done.stderr + done.stdout


def test_without_records_there_are_no_refusals(topic, written):
    name = topic()
    done = check(written({**CHECK, **OBSERVE}), "--since", "1h", "--topic", name)
    assert done.returncode == 0
    assert f"topic {name}, observed: 0 records in 0 batches" in done.stdout
    assert "note: there are no records since then" in done.stdout
