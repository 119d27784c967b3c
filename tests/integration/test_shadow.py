"""`penstock.mode=observe` at work: the verdicts are known, and affect no client."""

import os
import signal
import uuid

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.kafka.local import free_ports, run_tool
from tests.conftest import create_topic
from tests.gateways import run_penstock, wait_until
from tests.integration.reading import read_topic, values_of
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
from tests.raw import RawClient, produce_request

pytestmark = pytest.mark.system

POLICIES = """
import os, time
from pathlib import Path
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        while value == b"hang":
            time.sleep(1)
        if value == b"fail":
            raise ZeroDivisionError
        if value == b"exit":
            os._exit(1)
        if value == b"later":
            raise RetriableException("not now")
        return InvalidRecordException("no") if value == b"bad" else None

class Change(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "^changing"
    def process_record(self, key, value, topic, partition, headers):
        while value == b"drop late" and not Path(__file__).with_name("go").exists():
            time.sleep(0.01)
        if value.startswith(b"drop"):
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value.upper())

class Small(CreateTopicPolicy):
    def validate(self, request):
        while request.topic.startswith("hang"):
            time.sleep(1)
        if request.topic.startswith("fail"):
            raise ZeroDivisionError
        if request.num_partitions > 2:
            raise PolicyViolationException("too many")

class Forever(AlterConfigPolicy):
    def validate(self, request):
        if request.configs.get("retention.ms") == "-1":
            raise PolicyViolationException("for ever")
"""
CHECK = {"record.validator.classes": "policies.Check"}
CHANGE = {"produce.request.interceptors": "policies.Change"}
TOPICS = {
    "create.topic.policy.class.name": "policies.Small",
    "alter.config.policy.class.name": "policies.Forever",
}
OBSERVE = {"penstock.mode": "observe"}


@pytest.fixture
def measured(gateway):
    """Starts gateways with metrics; returns them with the port."""

    def start(properties):
        port = free_ports(1)[0]
        return gateway({"metrics.listener": f":{port}", **properties}, POLICIES), port

    return start


def new_name(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def produce(address, topic, *batches, acks=-1):
    """Send a request for each batch; return the code of each."""
    with RawClient(address, timeout_s=60) as client:
        found = []
        for batch in batches:
            request = produce_request([(topic, [(0, encode_batch(values(*batch)))])], acks=acks)
            response = client.call(request)
            (partition_response,) = response.responses[0].partition_responses
            found.append(int(partition_response.error_code))
    return found


def outcomes(port, topic):
    found = scrape(port).of("penstock_records_total")
    return {outcome: n for (name, _, outcome), n in found.items() if name == topic and n}


def wait_for_outcomes(port, topic, expected):
    wait_until(
        lambda: sum(outcomes(port, topic).values()) >= sum(expected.values()), what="verdicts"
    )
    assert outcomes(port, topic) == expected


@pytest.mark.cases(1)
@pytest.mark.parametrize("acks", [1, -1])
def test_all_records_are_stored_and_refusals_are_counted(measured, topic, kafka, acks):
    running, port = measured({**CHECK, **OBSERVE})
    name = topic()
    batches = [[b"a"] * 5, [b"a", b"bad"], [b"fail"], [b"later"]]
    assert produce(running.broker_address(), name, *batches, acks=acks) == [0, 0, 0, 0]

    assert values_of(read_topic(kafka.bootstrap_servers, name)) == [
        value for batch in batches for value in batch
    ]
    wait_for_outcomes(
        port, name, {"accepted": 5, "would_refuse": 2, "would_fail": 1, "would_postpone": 1}
    )
    for event in ("records would be refused", "policy would fail", "records would be postponed"):
        (line,) = running.wait_for(event)
        assert (line["topic"], line["partition"], line["policy"]) == (name, 0, "policies.Check")
    assert not running.events("records refused")
    assert scrape(port).of("penstock_requests_total")["Produce", "0"] == 4


def test_without_acknowledgements_no_connection_is_closed(measured, topic, kafka):
    running, port = measured({**CHECK, **OBSERVE})
    name = topic()
    with RawClient(running.broker_address()) as client:
        for value in (b"bad", b"fail"):
            batch = encode_batch(values(value))
            client.send(client.frame(produce_request([(name, [(0, batch)])], acks=0)))
        last = client.call(produce_request([(name, [(0, encode_batch(values(b"a")))])]))
    assert int(last.responses[0].partition_responses[0].error_code) == 0
    assert values_of(read_topic(kafka.bootstrap_servers, name)) == [b"bad", b"fail", b"a"]
    wait_for_outcomes(port, name, {"accepted": 1, "would_refuse": 1, "would_fail": 1})


@pytest.mark.slow
def test_no_client_waits_for_a_policy_that_hangs(measured, topic, kafka):
    watched, strict = topic(), topic()
    running, port = measured({
        **CHECK, "policy.workers": 1, "policy.timeout.ms": 3_600_000,
        f"topics.{watched}.penstock.mode": "observe",
    })  # fmt: skip
    address = running.broker_address()
    assert produce(address, watched, *[[b"hang"]] * 5) == [0] * 5
    wait_until(lambda: scrape(port)("penstock_batches", state="sent") >= 1, what="a batch begun")

    assert produce(address, strict, [b"bad"], [b"a"]) == [87, 0]
    assert produce(address, watched, [b"a"]) == [0]
    assert len(read_topic(kafka.bootstrap_servers, watched)) == 6


def test_a_policy_that_takes_too_long_would_fail(measured, topic):
    running, port = measured({**CHECK, **OBSERVE, "policy.timeout.ms": 3000})
    name = topic()
    assert produce(running.broker_address(), name, [b"hang"], [b"a"]) == [0, 0]
    wait_for_outcomes(port, name, {"would_fail": 1, "accepted": 1})


def test_interceptors_run_and_the_original_is_stored(measured, admin, kafka):
    name = new_name("changing")
    create_topic(admin, name)
    running, port = measured({**CHANGE, **OBSERVE})
    producer = Producer({"bootstrap.servers": running.address, "enable.idempotence": True})
    sent = [b"a", b"drop", b"b", b"drop", b"UP"]
    for value in sent:
        producer.produce(name, value)
        assert producer.flush(60) == 0

    assert values_of(read_topic(kafka.bootstrap_servers, name)) == sent
    wait_for_outcomes(port, name, {"would_change": 2, "would_drop": 2, "accepted": 1})
    found = scrape(port)
    assert found("penstock_producers") == 0
    assert found("penstock_sequence_translations_total") == 0


def test_a_transaction_is_committed_as_it_was_sent(measured, admin, kafka):
    name = new_name("changing")
    create_topic(admin, name)
    running, _ = measured({**CHECK, **CHANGE, **OBSERVE})
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": name})
    producer.init_transactions(60)
    for values_sent in ([b"bad", b"drop"], [b"drop"], [b"a"]):
        producer.begin_transaction()
        for value in values_sent:
            producer.produce(name, value)
        producer.commit_transaction(60)

    stored = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert values_of(stored) == [b"bad", b"drop", b"drop", b"a"]


def set_mode(admin, topic, mode):
    operation = AlterConfigOpType.SET if mode else AlterConfigOpType.DELETE
    entry = ConfigEntry("penstock.mode", mode, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(60)


@pytest.mark.slow
def test_the_mode_of_a_topic_is_changed_while_an_idempotent_producer_is_at_work(
    measured, admin, kafka
):
    name = new_name("changing")
    create_topic(admin, name)
    running, _ = measured({**CHANGE, "topic.settings.topic": new_name("settings")})
    through = AdminClient({"bootstrap.servers": running.address})
    producer = Producer({"bootstrap.servers": running.address, "enable.idempotence": True})
    failed = []

    def send(phase):
        for number in range(5):
            for what in ("drop", "keep"):
                producer.produce(
                    name, f"{what}-{phase}-{number}",
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip
                if number % 2:
                    assert producer.flush(60) == 0
        assert producer.flush(60) == 0

    expected = []
    for phase, mode in enumerate(["", "observe", "enforce", "observe", ""]):
        if phase:
            set_mode(through, name, mode)
        send(phase)
        for number in range(5):
            both = [f"drop-{phase}-{number}", f"keep-{phase}-{number}"]
            expected += both if mode == "observe" else [both[1].upper()]

    assert failed == []
    assert [value.decode() for value in values_of(read_topic(kafka.bootstrap_servers, name))] == (
        expected
    )


def test_kafka_configs_sets_shows_and_deletes_the_mode(measured, topic):
    name = topic()
    running, port = measured({**CHECK, "topic.settings.topic": new_name("settings")})
    of_topic = ("--bootstrap-server", running.address, "--topic", name)
    address = running.broker_address()
    assert produce(address, name, [b"bad"]) == [87]
    done = run_tool("kafka-configs", *of_topic, "--alter", "--add-config", "penstock.mode=observe")
    assert done.returncode == 0, done.stderr
    assert produce(address, name, [b"bad"]) == [0]
    shown = run_tool("kafka-configs", *of_topic, "--describe")
    assert "penstock.mode=observe" in shown.stdout
    done = run_tool("kafka-configs", *of_topic, "--alter", "--delete-config", "penstock.mode")
    assert done.returncode == 0, done.stderr
    assert produce(address, name, [b"bad"]) == [87]
    wait_for_outcomes(port, name, {"refused": 2, "would_refuse": 1})


def test_the_mode_is_changed_while_a_batch_that_loses_records_is_being_judged(
    measured, admin, kafka
):
    name = new_name("changing")
    create_topic(admin, name)
    running, port = measured({
        **CHANGE, "topic.settings.topic": new_name("settings"),
        "produce.request.interceptors.timeout.ms": 60_000,
    })  # fmt: skip
    through = AdminClient({"bootstrap.servers": running.address})

    def request(first, *sent):
        batch = encode_batch(values(*sent), producer_id=7777, producer_epoch=0, base_sequence=first)
        return produce_request([(name, [(0, batch)])], timeout_ms=60_000)

    with RawClient(running.broker_address(), timeout_s=60) as client:
        enforced = request(0, b"drop late", b"kept")
        client.send(client.frame(enforced))
        wait_until(lambda: scrape(port)("penstock_batches", state="sent"), what="a batch begun")
        set_mode(through, name, "observe")
        observed = request(2, b"drop it not", b"last")
        client.send(client.frame(observed))
        # The second batch is judged before the losses of the first are decided.
        wait_until(lambda: outcomes(port, name), what="a verdict")
        (running.file.parent / "go").touch()
        codes = [
            int(client.response(type(produced)).responses[0].partition_responses[0].error_code)
            for produced in (enforced, observed)
        ]
    assert codes == [0, 0]
    stored = values_of(read_topic(kafka.bootstrap_servers, name))
    assert stored == [b"KEPT", b"drop it not", b"last"]


@pytest.mark.slow
def test_a_policy_that_ends_its_process_affects_no_client(measured, topic, kafka):
    watched, strict = topic(), topic()
    running, port = measured({
        **CHECK, "policy.workers": 1, f"topics.{watched}.penstock.mode": "observe"
    })  # fmt: skip
    address = running.broker_address()
    before = running.workers()
    for count in (1, 2):
        assert produce(address, watched, [b"exit"]) == [0]
        wait_for_outcomes(port, watched, {"would_fail": count})
        assert produce(address, strict, [b"bad"], [b"a"]) == [87, 0]
    assert produce(address, watched, [b"a"]) == [0]

    assert values_of(read_topic(kafka.bootstrap_servers, watched)) == [b"exit", b"exit", b"a"]
    wait_for_outcomes(port, watched, {"would_fail": 2, "accepted": 1})
    wait_for_outcomes(port, strict, {"refused": 2, "accepted": 2})
    # Those for topics that are not observed are the same processes.
    assert set(before) <= set(running.workers())


def test_order_is_kept_and_transactions_end_while_a_policy_hangs(measured, topic, kafka):
    name = topic()
    running, _ = measured({**CHECK, **OBSERVE, "policy.timeout.ms": 3_600_000})
    plain = Producer({"bootstrap.servers": running.address, "enable.idempotence": True})
    sent = [b"hang" if n % 3 else b"%d" % n for n in range(30)]
    for value in sent:
        plain.produce(name, value)
    assert plain.flush(60) == 0
    in_transactions = Producer({"bootstrap.servers": running.address, "transactional.id": name})
    in_transactions.init_transactions(60)
    for end in (in_transactions.commit_transaction, in_transactions.abort_transaction):
        in_transactions.begin_transaction()
        in_transactions.produce(name, b"hang")
        end(60)

    stored = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert values_of(stored) == [*sent, b"hang"]


@pytest.mark.slow
def test_a_decompression_bomb_would_be_refused_and_is_stored(measured, topic):
    running, port = measured({**CHECK, **OBSERVE, "decompressed.batch.max.bytes": 1_000_000})
    name = topic()
    bomb = encode_batch(values(b"0" * 900_000, b"0" * 900_000), codec=1)
    assert len(bomb) < 10_000
    with RawClient(running.broker_address(), timeout_s=60) as client:
        response = client.call(produce_request([(name, [(0, bomb)])]))
    assert int(response.responses[0].partition_responses[0].error_code) == 0
    wait_for_outcomes(port, name, {"would_refuse": 2})


@pytest.mark.slow
def test_no_client_waits_for_an_unavailable_schema_registry(measured, topic, kafka):
    name = topic()
    unused_port = free_ports(1)[0]
    running, port = measured({
        **OBSERVE, "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
        "schema.registry.url": f"http://127.0.0.1:{unused_port}", "schema.registry.timeout.ms": 500,
        f"topics.{name}.confluent.value.schema.validation": "true",
    })  # fmt: skip
    assert produce(running.broker_address(), name, [b"\0\0\0\0\1x"]) == [0]
    assert len(read_topic(kafka.bootstrap_servers, name)) == 1
    wait_for_outcomes(port, name, {"would_postpone": 1})
    (line,) = running.wait_for("records would be postponed")
    assert line["policy"] == "penstock.policies.SchemaPolicy"
    assert produce(running.broker_address(), name, [b"{}"]) == [0]
    wait_for_outcomes(port, name, {"would_postpone": 1, "would_refuse": 1})


@pytest.mark.slow
def test_an_unknown_mode_is_refused_as_by_a_broker(measured, topic):
    running, _ = measured({**CHECK, "topic.settings.topic": new_name("settings")})
    through = AdminClient({"bootstrap.servers": running.address})
    with pytest.raises(KafkaException) as refused:
        set_mode(through, topic(), "off")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert (
        "String must be one of: enforce, quarantine, mark, observe" in refused.value.args[0].str()
    )


def test_a_reload_changes_the_mode(measured, topic):
    running, port = measured(CHECK)
    name = topic()
    address = running.broker_address()
    assert produce(address, name, [b"bad"]) == [87]
    enforcing = running.file.read_text()
    for number, (mode, code) in enumerate([("observe", 0), ("enforce", 87)], 1):
        running.file.write_text(enforcing + f"penstock.mode={mode}\n")
        os.kill(running.pid, signal.SIGHUP)
        running.wait_for("reloaded", number)
        assert produce(address, name, [b"bad"]) == [code]
    wait_for_outcomes(port, name, {"refused": 2, "would_refuse": 1})


@pytest.mark.slow
def test_an_observed_partition_is_stored_although_another_partition_is_refused(
    measured, topic, kafka
):
    watched, strict = topic(), topic()
    running, port = measured({**CHECK, f"topics.{watched}.penstock.mode": "observe"})
    batch = encode_batch(values(b"bad"))
    with RawClient(running.broker_address()) as client:
        response = client.call(produce_request([(watched, [(0, batch)]), (strict, [(0, batch)])]))
    codes = [
        int(topic_response.partition_responses[0].error_code)
        for topic_response in response.responses
    ]
    assert codes == [0, 87]
    assert values_of(read_topic(kafka.bootstrap_servers, watched)) == [b"bad"]
    wait_for_outcomes(port, watched, {"would_refuse": 1})
    wait_for_outcomes(port, strict, {"refused": 1})


# Topics and configs (KIP-108, KIP-133)


@pytest.mark.slow
def test_observed_topic_policies_prevent_no_creation_or_alteration(measured):
    running, port = measured({**TOPICS, **OBSERVE, "policy.timeout.ms": 3_600_000})
    admin = AdminClient({"bootstrap.servers": running.address})
    large, failing, hanging = new_name("large"), new_name("fail"), new_name("hang")
    # The one that hangs comes last: there is one process for these policies.
    for name, partitions in ((large, 3), (failing, 1)):
        admin.create_topics([NewTopic(name, partitions)])[name].result(60)
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, large, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(60)
    running.wait_for("topic would be refused", 2)
    running.wait_for("policy would fail")
    admin.create_topics([NewTopic(hanging, 1)])[hanging].result(60)

    refusals = {
        (event["topic"], event["policy"]) for event in running.events("topic would be refused")
    }
    assert refusals == {(large, "policies.Small"), (f"TOPIC {large}", "policies.Forever")}
    assert scrape(port).of("penstock_topic_verdicts_total") == {
        ("policies.Small", "would_refuse"): 1,
        ("policies.Small", "would_fail"): 1,
        ("policies.Forever", "would_refuse"): 1,
    }
    assert not running.events("topic refused")


@pytest.mark.slow
def test_topic_configs_do_not_bypass_a_topic_policy(measured):
    running, _ = measured({
        **TOPICS, **CHECK, "topic.settings.topic": new_name("settings"),
        "topics.watched-*.penstock.mode": "observe",
    })  # fmt: skip
    admin = AdminClient({"bootstrap.servers": running.address})
    strict, watched = new_name("strict"), new_name("watched")
    with pytest.raises(KafkaException, match="too many"):
        new = NewTopic(strict, 3, config={"penstock.mode": "observe"})
        admin.create_topics([new])[strict].result(60)
    admin.create_topics([NewTopic(watched, 3)])[watched].result(60)
    running.wait_for("topic would be refused")


def test_check_shows_observed_policies(measured):
    running, _ = measured({**CHECK, **TOPICS, "topics.a-*.penstock.mode": "observe"})
    done = run_penstock("check", running.file)
    assert done.returncode == 0, done.stderr
    assert "topics a-*, observed: nothing is refused" in done.stdout
