"""`penstock.mode` at work: the handling of bad records."""

import json
import re
import time

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock.kafka.local import free_ports
from penstock.policy import Header, Record
from tests.conftest import create_topic
from tests.gateways import run_penstock, wait_until
from tests.integration.modes import dead_letters, produce, set_config
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import encode_batch, values
from tests.metrics import scrape
from tests.raw import RawClient, produce_request

pytestmark = pytest.mark.system

POLICIES = """
from penstock.policy import *

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"fail":
            raise ZeroDivisionError
        return InvalidRecordException("it is bad") if value.startswith(b"bad") else None
"""
INTERCEPTOR = """
class Drop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"):
            raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
CHECK = {"record.validator.classes": "policies.Check"}
WHY = [
    ("__mark.errors.policy", b"policies.Check"),
    ("__mark.errors.code", b"87"),
    ("__mark.errors.message", b"it is bad"),
]


@pytest.fixture
def measured(gateway):
    """Starts gateways with metrics; returns them with the port."""

    def start(properties):
        port = free_ports(1)[0]
        return gateway({**CHECK, "metrics.listener": f":{port}", **properties}, POLICIES), port

    return start


MARK = {"penstock.mode": "mark"}
QUARANTINE = {
    "penstock.mode": "quarantine",
    "errors.deadletterqueue.topic.replication.factor": 1,
}


@pytest.fixture
def checked(shared_gateway):
    """Starts a gateway once for all tests with the same properties that read neither log nor metrics."""
    return lambda properties: shared_gateway({**CHECK, **properties}, POLICIES)


def outcomes(port, topic):
    found = scrape(port).of("penstock_records_total")
    return {outcome: n for (name, _, outcome), n in found.items() if name == topic and n}


def test_bad_records_are_stored_with_marks(measured, topic, kafka):
    running, port = measured(MARK)
    name = topic()
    with RawClient(running.broker_address()) as client:
        assert produce(client, name, encode_batch(values(b"a", b"bad", b"b"))) == (0, 0)
        assert produce(client, name, encode_batch(values(b"c"))) == (0, 3)
        assert produce(client, name, encode_batch(values(b"fail"))) == (-1, -1)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [(value, headers) for _, _, value, headers in stored] == [
        (b"a", []), (b"bad", WHY), (b"b", []), (b"c", []),
    ]  # fmt: skip
    assert outcomes(port, name) == {"accepted": 3, "marked": 1, "failed": 1}
    (line,) = running.wait_for("records marked")
    assert (line["topic"], line["policy"], line["message"]) == (name, "policies.Check", "it is bad")
    assert not running.events("records refused")


@pytest.mark.parametrize("transactional", [False, True])
def test_producers_continue_and_no_record_is_stored_twice(checked, topic, kafka, transactional):
    running = checked(MARK)
    name = topic()
    more = {"transactional.id": name} if transactional else {}
    producer = Producer({
        "bootstrap.servers": running.address, "enable.idempotence": True, "linger.ms": 1, **more,
    })  # fmt: skip
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    sent = [b"bad %d" % n if n % 3 == 0 else b"%d" % n for n in range(2000)]
    for value in sent:
        producer.produce(name, value)
        producer.poll(0)
    assert producer.flush(300) == 0
    if transactional:
        producer.commit_transaction(60)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [value for _, _, value, _ in stored] == sent
    assert all(
        headers == (WHY if value.startswith(b"bad") else []) for _, _, value, headers in stored
    )


def test_a_retried_batch_is_the_same_batch(checked, topic, kafka):
    running = checked(MARK)
    name = topic()
    batch = encode_batch(values(b"bad", b"a"), producer_id=4711, producer_epoch=0, base_sequence=0)
    with RawClient(running.broker_address()) as client:
        assert [produce(client, name, batch) for _ in range(3)] == [(0, 0)] * 3
    assert len(read_topic(kafka.bootstrap_servers, name)) == 2


@pytest.mark.cases(1)
@pytest.mark.parametrize("acks", [-1, 1])
def test_bad_records_become_dead_letters_and_the_others_are_stored(measured, topic, kafka, acks):
    running, port = measured(QUARANTINE)
    name = topic(partitions=2)
    with RawClient(running.broker_address()) as client:
        sent = encode_batch(values(b"a", b"bad", b"b"))
        assert produce(client, name, sent, acks=acks) == (0, -1), "b is at offset 1"
        assert produce(client, name, encode_batch(values(b"bad 2", b"bad 3")), acks=acks) == (0, -1)
        assert produce(client, name, encode_batch(values(b"c")), acks=acks) == (0, 2)
        assert produce(client, name, encode_batch(values(b"bad", b"fail")), acks=acks) == (-1, -1)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [(value, headers) for _, _, value, headers in stored] == [
        (b"a", []), (b"b", []), (b"c", []),
    ]  # fmt: skip
    found = dead_letters(kafka, f"{name}.dead")
    assert [(value, partition) for value, partition, _ in found] == [
        (b"bad", 0), (b"bad 2", 0), (b"bad 3", 0),
    ]  # fmt: skip
    headers = found[0][2]
    assert headers["__dlq.errors.topic"] == name.encode()
    assert headers["__dlq.errors.partition"] == b"0"
    assert headers["__dlq.errors.offset"] == b"-1"
    assert headers["__penstock.policy"] == b"policies.Check"
    assert headers["__penstock.code"] == b"87"
    assert headers["__penstock.message"] == headers["__dlq.errors.message"] == b"it is bad"
    assert len({headers["__dlq.id"] for _, _, headers in found}) == 3
    plan = f"  plan {headers['__dlq.plan'].decode()}\n"
    assert plan in run_penstock("check", running.file).stdout
    assert outcomes(port, name) == {"accepted": 3, "quarantined": 3, "failed": 2}
    assert running.wait_for("records quarantined")


def test_a_dead_letter_topic_has_as_many_partitions_as_its_source(checked, topic, kafka):
    running = checked(QUARANTINE)
    name = topic(partitions=3)
    with RawClient(running.broker_address(), timeout_s=60) as client:
        batch = encode_batch(values(b"bad"))
        sent = produce_request([(name, [(number, batch) for number in range(3)])], acks=-1)
        (answered,) = client.call(sent).responses
    assert [
        int(partition_response.error_code) for partition_response in answered.partition_responses
    ] == [0, 0, 0]
    found = {partition: headers for _, partition, headers in dead_letters(kafka, f"{name}.dead")}
    assert {at: headers["__dlq.errors.partition"] for at, headers in found.items()} == {
        0: b"0", 1: b"1", 2: b"2",
    }  # fmt: skip


REPAIR = """
class Repair(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return "."
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.replace(b"bad 2", b"good"))
"""


def test_the_commands_accept_dead_letters_of_gateways(gateway, topic, kafka, tmp_path):
    """`redrive` processes each id once, though gateways may have stored its letter twice."""
    name = topic()
    running = gateway({**CHECK, **QUARANTINE}, POLICIES + REPAIR)
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(0, b"bad 1", b"a", b"bad 2"), acks=-1)[0] == 0
    dead = f"{name}.dead"
    letters = [
        Record(1_700_000_000_000, b"k", value, tuple(Header(*header) for header in headers.items()))
        for value, _, headers in dead_letters(kafka, dead)
    ]
    with RawClient(kafka.bootstrap_servers) as direct:
        assert produce(direct, dead, encode_batch(letters), acks=-1) == (0, 2)

    def run(command, *arguments):
        done = run_penstock(command, running.file, *arguments, "--local")
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("audit", "--topic", dead, "--report", tmp_path / "report")
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert (report["judged"], report["refused"]) == (4, 4)
    assert {reason["policy"] for reason in report["reasons"]} == {"policies.Check"}

    redrive = ("redrive", "--from", dead, "--to", name, "--with", "policies.Repair")
    returned = [re.findall(r"(\d+) returned", run(*redrive)) for _ in range(2)]
    assert returned == [["1"], ["0"]]
    first, repaired = read_topic(kafka.bootstrap_servers, name)
    assert (first[2:], repaired[2]) == ((b"a", []), b"good")
    assert dict(repaired[3]).keys() == {"__penstock.replays", "__penstock.timestamp"}


def test_without_acknowledgements(checked, topic, kafka):
    running = checked(QUARANTINE)
    name = topic()
    with RawClient(running.broker_address()) as client:
        batch = encode_batch(values(b"bad", b"a"))
        client.send(client.frame(produce_request([(name, [(0, batch)])], acks=0)))
        assert produce(client, name, encode_batch(values(b"b")))[0] == 0
    assert [record[2] for record in read_topic(kafka.bootstrap_servers, name)] == [b"a", b"b"]
    assert [letter[0] for letter in dead_letters(kafka, f"{name}.dead")] == [b"bad"]


def check_exactly_once(kafka, name, sent, *, doubles=False):
    stored = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, name)]
    letters = dead_letters(kafka, f"{name}.dead")
    assert stored == [value for value in sent if not value.startswith(b"bad")]
    bad = [value for value in sent if value.startswith(b"bad")]
    by_id = {headers["__dlq.id"]: value for value, _, headers in letters}
    assert sorted(by_id.values()) == sorted(bad)
    if not doubles:
        assert [value for value, _, _ in letters] == bad


def test_idempotent_producers_continue(checked, topic, kafka):
    running = checked(QUARANTINE)
    name = topic()
    producer = Producer({
        "bootstrap.servers": running.address, "enable.idempotence": True, "linger.ms": 1,
    })  # fmt: skip
    sent = [b"bad %d" % n if n % 7 == 0 or 500 < n < 900 else b"%d" % n for n in range(3000)]
    errors = []
    for value in sent:
        producer.produce(name, value, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
    assert producer.flush(300) == 0
    assert errors == [None] * len(sent)
    check_exactly_once(kafka, name, sent)


def numbered(first, *sent):
    """Return a batch of an idempotent producer."""
    return encode_batch(values(*sent), producer_id=4711, producer_epoch=0, base_sequence=first)


UNAVAILABLE = {**QUARANTINE, "errors.deadletterqueue.topic.replication.factor": 3}
ONLY_FORGIVING = POLICIES.replace('b"bad"', 'b"worst"')


@pytest.mark.cases(1)
@pytest.mark.parametrize("again", [POLICIES, ONLY_FORGIVING], ids=["same", "forgiving"])
@pytest.mark.parametrize("sent", [(b"bad", b"a", b"bad 2"), (b"bad", b"bad 2")])
def test_decisions_stay_when_dead_letters_are_late(gateway, topic, kafka, sent, again):
    """A gateway has decided, and ends before the letters are stored; another continues."""
    name = topic()
    first = gateway({**CHECK, **UNAVAILABLE}, POLICIES)
    with RawClient(first.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(0, b"x")) == (0, 0)
        assert produce(client, name, numbered(1, *sent)) == (7, -1)
        assert produce(client, name, numbered(1 + len(sent), b"y"))[0] in (7, 45)
    first.kill()
    assert len(read_topic(kafka.bootstrap_servers, name)) == 1

    second = gateway({**CHECK, **QUARANTINE}, again)
    with RawClient(second.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(1, *sent))[0] == 0
        assert produce(client, name, numbered(1 + len(sent), b"y"))[0] == 0
        assert produce(client, name, numbered(1, *sent))[0] == 0
    check_exactly_once(kafka, name, [b"x", *sent, b"y"], doubles=True)


def test_dead_letters_are_stored_as_soon_as_their_topic_exists(gateway, topic, kafka, admin):
    name = topic()
    running = gateway({**CHECK, **UNAVAILABLE}, POLICIES)
    plain, whole = encode_batch(values(b"bad 1", b"b")), numbered(2, b"bad 2", b"bad 3")
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(0, b"bad 0", b"a"))[0] == 7
        assert produce(client, name, plain)[0] == 7
        assert read_topic(kafka.bootstrap_servers, name) == []
        (line,) = running.wait_for("dead letters cannot be stored")
        assert line["answer"] == "REQUEST_TIMED_OUT (7)"
        assert "errors.deadletterqueue.topic.replication.factor is 3" in line["reason"]
        create_topic(admin, f"{name}.dead")
        assert produce(client, name, numbered(0, b"bad 0", b"a"))[0] == 0
        assert produce(client, name, whole)[0] == 0
        assert produce(client, name, plain)[0] == 0
    check_exactly_once(kafka, name, [b"bad 0", b"a", b"bad 2", b"bad 3", b"bad 1", b"b"])


def test_a_retry_through_another_gateway_gets_the_same_offset_and_writes_the_same_ids(
    gateway, topic, kafka
):
    name = topic()
    gateways = [gateway({**CHECK, **QUARANTINE}, POLICIES) for _ in range(2)]
    sent = [b"0", b"1", b"2", b"bad", b"a", b"bad 2"]
    for running in (*gateways, *gateways):
        with RawClient(running.broker_address(), timeout_s=60) as client:
            assert produce(client, name, numbered(0, *sent[:3])) == (0, 0)
            assert produce(client, name, numbered(3, *sent[3:])) == (0, 1), "a is at offset 3"
    check_exactly_once(kafka, name, sent, doubles=True)


def test_the_largest_record_fits_the_dead_letter_topic(checked, topic, kafka):
    running = checked(QUARANTINE)
    name = topic()
    largest = b"bad" + bytes(1_048_588 - 100)
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, encode_batch(values(largest)))[0] == 0
        assert produce(client, name, encode_batch(values(*[b"bad" + bytes(600)] * 1500)))[0] == 0
    assert len(dead_letters(kafka, f"{name}.dead")) == 1501


def test_letters_of_a_topic_of_small_batches_fit_the_dead_letter_topic(checked, topic, kafka):
    """The headers of many small records are far larger than the batch of these records."""
    name = topic(**{"max.message.bytes": "30000"})
    running = checked(QUARANTINE)
    sent = [b"bad %d" % number for number in range(800)]
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(0, *sent))[0] == 0
        assert produce(client, name, numbered(len(sent), b"a")) == (0, 0)
    check_exactly_once(kafka, name, [*sent, b"a"])


def test_a_dead_letter_topic_of_small_batches_gets_small_batches(gateway, topic, kafka, admin):
    name = topic()
    create_topic(admin, f"{name}.dead", 1, {"max.message.bytes": "2000"})
    running = gateway({**CHECK, **QUARANTINE}, POLICIES)
    sent = [b"bad %d" % number if number % 3 else b"%d" % number for number in range(200)]
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(0, *sent))[0] == 0
        assert produce(client, name, numbered(len(sent), b"a"))[0] == 0
    check_exactly_once(kafka, name, [*sent, b"a"])
    assert not running.events("dead letters cannot be stored")


def refusal(client, name, batch):
    response = client.call(produce_request([(name, [(0, batch)])]))
    (partition_response,) = response.responses[0].partition_responses
    return int(partition_response.error_code), partition_response.error_message


@pytest.mark.cases(1)
@pytest.mark.parametrize("good", [(b"a", b"b"), ()], ids=["some", "all"])
def test_a_dead_letter_that_its_topic_always_refuses_fails_its_batch(
    measured, topic, kafka, admin, good
):
    name = topic()
    dead = f"{name}.dead"
    create_topic(admin, dead, 1, {"max.message.bytes": "2000"})
    running, _ = measured(QUARANTINE)
    large = b"bad" + bytes(2000)
    whole = (b"bad 1", large, *good)
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, numbered(0, b"x")) == (0, 0)
        for batch in (numbered(1, *whole), numbered(1, *whole), encode_batch(values(*whole))):
            code, text = refusal(client, name, batch)
            assert code == 87
            assert f"topic {dead}, partition 0: a dead letter of " in text
            assert "larger than its max.message.bytes: MESSAGE_TOO_LARGE (10); raise it" in text
        # Java's producer numbers what follows as if the refused batch had not been.
        assert produce(client, name, numbered(1, b"y", b"bad 2", b"z"))[0] == 0
        assert produce(client, name, numbered(4, b"w"))[0] == 0

        set_config(admin, dead, "max.message.bytes", "10000")
        # The broker applies it a little after the controller has answered.
        wait_until(lambda: produce(client, name, numbered(5, *whole))[0] == 0, what="the config")
        assert produce(client, name, numbered(5 + len(whole), b"v"))[0] == 0
    stored = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, name)]
    assert stored == [b"x", b"y", b"z", b"w", *good, b"v"]
    letters = {value for value, _, _ in dead_letters(kafka, dead)}
    assert letters == {b"bad 1", b"bad 2", large}
    (line,) = running.wait_for("dead letters cannot be stored")
    assert line["answer"] == "INVALID_RECORD (87)"
    assert "max.message.bytes" in line["reason"]
    line, *_ = running.wait_for("records refused")
    assert (line["topic"], line["policy"], line["code"]) == (name, "policies.Check", 87)
    assert "max.message.bytes" in line["message"]


def test_transactions_with_bad_records_are_refused(measured, topic, kafka):
    running, _ = measured(QUARANTINE)
    name = topic()
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": name})
    producer.init_transactions(60)
    errors = []
    producer.begin_transaction()
    producer.produce(name, b"bad", on_delivery=lambda error, _: errors.append(error.code()))
    producer.flush(60)
    assert errors == [87]
    producer.abort_transaction(60)
    (line,) = running.wait_for("records refused")
    assert line["code"] == 87
    for _ in range(2):  # after a broker's own refusal, too, librdkafka may have to abort once more
        try:
            producer.begin_transaction()
            producer.produce(name, b"a")
            producer.commit_transaction(60)
            break
        except KafkaException:
            producer.abort_transaction(60)
    stored = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert [record[2] for record in stored] == [b"a"]


def test_dropped_records_are_not_dead_letters(gateway, topic, kafka):
    name = topic()
    running = gateway({
        **CHECK, **QUARANTINE, "produce.request.interceptors": "policies.Drop",
    }, POLICIES + INTERCEPTOR)  # fmt: skip
    with RawClient(running.broker_address(), timeout_s=60) as client:
        batch = numbered(0, b"drop", b"bad", b"a", b"drop bad")
        assert [produce(client, name, batch)[0] for _ in range(2)] == [0, 0]
        assert produce(client, name, numbered(4, b"b"))[0] == 0
    check_exactly_once(kafka, name, [b"bad", b"a", b"b"])


def test_too_many_bad_records_are_refused(measured, topic, kafka):
    running, _ = measured({**QUARANTINE, "penstock.quarantine.max.ratio": "0.1"})
    name = topic()
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, encode_batch(values(*[b"a"] * 95, *[b"bad"] * 5)))[0] == 0
        assert produce(client, name, encode_batch(values(*[b"bad"] * 20)))[0] == 87
        assert produce(client, name, encode_batch(values(b"a")))[0] == 0
    assert len(dead_letters(kafka, f"{name}.dead")) == 5


def test_a_dead_letter_topic_is_not_judged_in_this_mode(checked, topic, kafka):
    running = checked(QUARANTINE)
    name = topic()
    with RawClient(running.broker_address(), timeout_s=60) as client:
        assert produce(client, name, encode_batch(values(b"bad")))[0] == 0
        assert produce(client, f"{name}.dead", encode_batch(values(b"bad too")))[0] == 0
    found = read_topic(kafka.bootstrap_servers, f"{name}.dead")
    assert [record[2] for record in found] == [b"bad", b"bad too"]


def test_admin_tools_set_a_topic_to_quarantine(measured, topic, kafka):
    running, _ = measured({
        "topic.settings.topic": "__penstock_topic_settings",
        "errors.deadletterqueue.topic.replication.factor": 1,
    })  # fmt: skip
    name = topic()
    target = ConfigResource(ResourceType.TOPIC, name)
    settings = {"penstock.mode": "quarantine", "errors.deadletterqueue.topic.name": "${topic}.dead"}
    target.incremental_configs = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    client = AdminClient({"bootstrap.servers": running.address})
    client.incremental_alter_configs([target])[target].result(60)
    producer = Producer({"bootstrap.servers": running.address, "enable.idempotence": True})
    sent = [b"a", b"bad", b"b"]
    for value in sent:
        producer.produce(name, value)
    assert producer.flush(300) == 0
    check_exactly_once(kafka, name, sent)


@pytest.mark.slow
def test_gateways_are_killed_while_a_producer_is_at_work(gateway, topic, kafka):
    name = topic()
    running = gateway({**CHECK, **QUARANTINE}, POLICIES)
    producer = Producer({
        "bootstrap.servers": running.address, "enable.idempotence": True, "linger.ms": 2,
        "reconnect.backoff.max.ms": 200,
    })  # fmt: skip
    sent, errors = [b"bad %d" % n if n % 3 == 0 else b"%d" % n for n in range(6000)], []
    for number, value in enumerate(sent):
        producer.produce(name, value, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0.001)
        if number % 2000 == 1000:
            running.restart(kill=True)
    assert producer.flush(120) == 0
    assert errors == [None] * len(sent)
    check_exactly_once(kafka, name, sent, doubles=True)


def test_check_shows_how_bad_records_are_handled(gateway):
    running = gateway({
        **CHECK, "topics.a-*.penstock.mode": "quarantine", "topics.b-*.penstock.mode": "mark",
        "topics.a-*.errors.deadletterqueue.topic.name": "bad.${topic}",
    }, POLICIES)  # fmt: skip
    done = run_penstock("check", running.file)
    assert done.returncode == 0, done.stderr
    assert "topics a-*, in quarantine: bad records go to bad.a-*" in done.stdout
    assert "topics b-*, marked: bad records are stored, with headers that say why" in done.stdout


def test_a_topic_that_is_its_own_dead_letter_topic_is_an_error_at_the_start(gateway):
    own = {"topics.t.penstock.mode": "quarantine",
           "topics.t.errors.deadletterqueue.topic.name": "t"}  # fmt: skip
    with pytest.raises(AssertionError, match="dead letter topic of t would be t itself"):
        gateway({**CHECK, **own}, POLICIES)


@pytest.mark.cases(3)
@pytest.mark.parametrize("has_settings", [True, False])
@pytest.mark.parametrize("sent", [(b"bad", b"a"), (b"bad", b"bad 2"), (b"a", b"b")])
def test_a_topic_that_is_created_again_has_no_state_of_earlier_batches(
    checked, topic, kafka, admin, sent, has_settings
):
    """As at a broker: its log has no producers (ProducerStateManager), and accepts a batch again."""
    name = topic()
    running = checked({**QUARANTINE, **({} if has_settings else {"topic.settings.topic": ""})})
    with (
        RawClient(running.broker_address(), timeout_s=60) as client,
        RawClient(kafka.bootstrap_servers, timeout_s=60) as direct,
    ):
        for _ in range(2):
            assert produce(client, name, numbered(0, b"x", b"y", b"bad 0"))[0] == 0
            assert produce(client, name, numbered(3, *sent))[0] == 0
        remade(admin, name)
        good = [value for value in sent if not value.startswith(b"bad")]
        first = produce(client, name, numbered(3, *sent))
        assert first == (0, len(good) - len(sent) if good else -1)
        again = produce(client, name, numbered(3, *sent))
        assert again == first
        assert produce(client, name, numbered(5, b"z")) == (0, len(good))
        assert produce(direct, name, encode_batch(values(b"end"))) == (0, len(good) + 1)
    stored = [value for _, _, value, _ in read_topic(kafka.bootstrap_servers, name)]
    assert stored == [*good, b"z", b"end"]


def test_a_batch_of_a_topic_that_was_deleted_is_not_acknowledged(checked, topic, kafka, admin):
    name = topic()
    running = checked(QUARANTINE)
    with RawClient(running.broker_address(), timeout_s=60) as client:
        for _ in range(2):
            assert produce(client, name, numbered(0, b"bad", b"a"))[0] == 0
        deleted(admin, name)
        assert produce(client, name, numbered(0, b"bad", b"a")) == (3, -1)


def deleted(admin, name):
    """Delete a topic at the broker."""
    admin.delete_topics([name])[name].result(30)
    deadline = time.monotonic() + 60
    while name in admin.list_topics(timeout=30).topics:
        assert time.monotonic() < deadline


def remade(admin, name):
    """Delete a topic at the broker, and create it again."""
    deleted(admin, name)
    deadline = time.monotonic() + 60
    while True:
        try:
            create_topic(admin, name)
        except KafkaException as error:  # the deletion is not complete yet
            assert error.args[0].name() == "TOPIC_ALREADY_EXISTS"
            assert time.monotonic() < deadline
        else:
            return
