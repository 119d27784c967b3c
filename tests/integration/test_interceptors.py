"""KIP-905 on the wire."""

import re
import time

import pytest
from confluent_kafka import KafkaException, Producer

from penstock.policy import Header, Record
from tests.gateways import wait_until
from tests.integration.reading import read_topic, values_of
from tests.kafka.records.encoding import CODECS, encode_batch, values
from tests.raw import RawClient, errors, produce_request, produced

FLUSH_S = 300.0  # a thousand batches, five at a time, on a machine with much else to do
POLICIES = """
import os, re, time, threading, random
from penstock.policy import *

class Base(ProduceRequestInterceptor):
    pattern = "."
    def interceptor_topic_pattern(self): return re.compile(self.pattern)

class NoOp(Base):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value)

class Mutate(Base):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, b"mutated-" + value)

class Upper(Base):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value.upper())

class Prefix(Base):
    def process_record(self, key, value, topic, partition, headers):
        print("prefix saw", value.decode(), headers[0].key if headers else None, flush=True)
        return ProduceRequestInterceptorResult(key, b"x" + value)

class Odd(Base):
    '''Drops values that end in an odd digit.'''
    def process_record(self, key, value, topic, partition, headers):
        if value and value[-1] % 2: raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)

class Pii(Mutate):
    pattern = "pii"

class Raises(Base):
    def process_record(self, key, value, topic, partition, headers):
        if partition == 0: raise RuntimeError("secret " + repr(value))
        return ProduceRequestInterceptorResult(key, value)

class Nothing(Base):
    def process_record(self, key, value, topic, partition, headers):
        pass

class Exits(Base):
    def process_record(self, key, value, topic, partition, headers):
        os._exit(3)

class Sleeps(Base):
    def process_record(self, key, value, topic, partition, headers):
        print("called with", value.decode(), flush=True)
        if value.startswith(b"slow"): time.sleep(60)
        return ProduceRequestInterceptorResult(key, value)

class Grow(Base):
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, value * 1000)

class NoKey(Base):
    '''Takes the key of those whose value says so.'''
    def process_record(self, key, value, topic, partition, headers):
        if value == b"1": raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(None if value == b"nokey" else key, value)

class Judge(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value.startswith(b"MUTATED") or value == b"bad": return InvalidRecordException("seen")
"""


def chain(*names: str, **more: object) -> dict[str, object]:
    return {
        "produce.request.interceptors": ",".join(f"policies.{name}" for name in names),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


RECORDS = [
    Record(1_000_000_000_000 * 2 + at, key, value, (Header("h", b"1"), Header("h", None)))
    for at, (key, value) in enumerate([(b"k", b"one"), (None, b"two"), (b"", b"three")])
]
NOW = int(time.time() * 1000)


def printed(running) -> list[str]:
    return [event["text"] for event in running.events("policy output")]


def send(running, name, batch, *, partition=0, **options):
    with RawClient(running.address) as client:
        request = produce_request([(name, [(partition, batch)])], **options)
        return produced(client.call(request))[name, partition]


@pytest.mark.kips("B22")
def test_a_mapped_batch_keeps_all_but_keys_and_values(gateway, topic, stored):
    running = gateway(chain("Mutate"), POLICIES)
    records = [record._replace(timestamp=NOW + at) for at, record in enumerate(RECORDS)]
    expected = [
        (r.key, b"mutated-" + r.value, r.timestamp, [("h", b"1"), ("h", None)], at)
        for at, r in enumerate(records)
    ]
    for codec in CODECS:
        name = topic()
        answer = send(running, name, encode_batch(records, codec=codec))
        assert (codec, answer.error_code, answer.base_offset) == (codec, 0, 0)
        found = stored(name, full=True)
        assert [
            (m.key(), m.value(), m.timestamp()[1], m.headers(), m.offset()) for m in found
        ] == expected


@pytest.mark.kips("B21")
def test_an_unchanged_batch_is_forwarded_unchanged(gateway, topic, stored):
    name = topic()
    running = gateway(chain("NoOp"), POLICIES)
    tombstones = [Record(NOW, b"k", None, ()), Record(NOW, None, b"", ())]
    batch = encode_batch(tombstones, codec="gzip")
    assert send(running, name, batch).error_code == 0
    assert [(m.key(), m.value()) for m in stored(name, full=True)] == [(b"k", None), (None, b"")]


@pytest.mark.kips("B23", "B28")
def test_dropped_records_are_acknowledged_and_leave_no_gap(gateway, topic, stored):
    name = topic()
    running = gateway(chain("Odd"), POLICIES)
    batch = encode_batch(values(*(b"value%d" % n for n in range(1, 101))))
    answer = send(running, name, batch)
    assert (answer.error_code, answer.base_offset) == (0, -50), "the last record has offset 49"
    found = stored(name, full=True)
    assert [m.value() for m in found] == [b"value%d" % n for n in range(2, 101, 2)]
    assert [m.offset() for m in found] == list(range(50))

    answer = send(running, name, encode_batch(values(b"1", b"3")))
    assert (answer.error_code, answer.base_offset) == (0, -1)
    assert (answer.log_append_time, answer.log_start_offset) == (None, -1)
    assert len(stored(name)) == 50


@pytest.mark.kips("B24")
def test_each_interceptor_gets_the_result_of_the_previous_interceptor(gateway, topic, stored):
    name = topic()
    running = gateway(chain("Upper", "Odd", "Prefix"), POLICIES)
    records = [Record(NOW, None, b"a1", (Header("h", b"v"),)), Record(NOW, None, b"b2", ())]
    assert send(running, name, encode_batch(records)).error_code == 0
    assert values_of(stored(name)) == [b"xB2"]
    wait_until(lambda: "prefix saw B2 None" in printed(running))
    assert not any("saw A1" in line for line in printed(running))


@pytest.mark.slow
@pytest.mark.kips("B25")
def test_the_pattern_is_searched_for_in_the_topics_name(gateway, topic, stored):
    running = gateway(chain("Pii"), POLICIES)
    for prefix, expected in (("x-pii-y", b"mutated-v"), ("other", b"v")):
        name = topic(prefix)
        assert send(running, name, encode_batch(values(b"v"))).error_code == 0
        assert values_of(stored(name)) == [expected]


@pytest.mark.cases(1)
@pytest.mark.kips("B26", "B30")
@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("Raises", -1, "RuntimeError"),
        ("Nothing", -1, "AnswerError"),
        ("Exits", 87, "process ended"),
    ],
)
def test_a_failure_stores_nothing_of_the_partition(gateway, topic, stored, name, code, message):
    of = topic(partitions=2)
    key = "produce.request.interceptors.failed.error.code"
    running = gateway({**chain(name), key: code}, POLICIES)
    batch = encode_batch(values(b"a", b"b"))
    with RawClient(running.address) as client:
        request = produce_request([(of, [(0, batch), (1, batch)])])
        answers = produced(client.call(request))
    failed = answers[of, 0]
    assert failed.error_code == code
    assert failed.error_message.startswith(
        "The registered produce request interceptors were unable to successfully process the "
        "request: "
    )
    assert message in failed.error_message
    assert "secret" not in failed.error_message
    if name == "Raises":
        assert answers[of, 1].error_code == 0
        assert [(m.partition(), m.value()) for m in stored(of, full=True)] == [(1, b"a"), (1, b"b")]
    else:
        assert stored(of) == []


@pytest.mark.slow
@pytest.mark.kips("B27")
def test_a_deadline_ends_only_the_attempt(gateway, topic, stored):
    name, other = topic(), topic()
    running = gateway(
        {
            **chain("Sleeps"),
            "produce.request.interceptors.timeout.ms": 300,
            "produce.request.interceptors.max.timeout.retries": 2,
            "policy.workers": 1,
        },
        POLICIES,
    )
    slow = encode_batch(values(b"first", b"slow"))
    began = time.monotonic()
    with RawClient(running.address) as hung, RawClient(running.address) as free:
        hung.send(hung.frame(produce_request([(name, [(0, slow)])])))
        wait_until(lambda: "called with slow" in printed(running))
        quick = produced(free.call(produce_request([(other, [(0, encode_batch(values(b"q")))])])))
        assert quick[other, 0].error_code == 0
        request = produce_request([(name, [(0, slow)])])
        answer = produced(hung.response(type(request)))[name, 0]
    assert answer.error_code == 7
    assert "3 attempts" in answer.error_message
    assert time.monotonic() - began > 0.9
    calls = printed(running)
    assert calls.count("called with first") == 3
    assert calls.count("called with slow") == 3
    assert send(running, name, slow).error_code == 7
    assert send(running, name, encode_batch(values(b"fine"))).error_code == 0
    wait_until(lambda: "called with fine" in printed(running))
    assert printed(running).count("called with first") == 3, "it is not retried at once"
    assert values_of(stored(name)) == [b"fine"]


@pytest.mark.slow
@pytest.mark.kips("B27")
def test_the_timeout_of_the_client_ends_the_attempt(gateway, topic):
    name = topic()
    running = gateway(chain("Sleeps"), POLICIES)
    answer = send(running, name, encode_batch(values(b"slow")), timeout_ms=3000)
    assert answer.error_code == 7
    assert "the client's own timeout" in answer.error_message


@pytest.mark.kips("B29")
def test_damaged_records_reach_no_interceptor(gateway, topic, stored):
    name = topic()
    running = gateway(chain("Prefix"), POLICIES)
    body = encode_batch(values(b"x" * 100), codec="lz4", payload=b"\x04\x22\x4d\x18 no frame")
    assert send(running, name, body).error_code == 2
    assert stored(name) == []
    assert not printed(running)


@pytest.mark.kips("B36")
def test_policies_judge_changed_records_and_name_the_clients_positions(gateway, topic):
    name = topic()
    running = gateway(
        {**chain("Mutate", "Upper"), "record.validator.classes": "policies.Judge"}, POLICIES
    )
    answer = send(running, name, encode_batch(values(b"a", b"b")))
    assert (answer.error_code, errors(answer)) == (87, [(0, "seen"), (1, "seen")])

    running = gateway({**chain("Odd"), "record.validator.classes": "policies.Judge"}, POLICIES)
    answer = send(running, name, encode_batch(values(b"1", b"2", b"3", b"bad")))
    assert (answer.error_code, errors(answer)) == (87, [(3, "seen")])
    assert "batchIndex=3" in answer.error_message


@pytest.mark.slow
@pytest.mark.kips("B36")
def test_record_errors_of_the_broker_name_the_clients_positions(gateway, topic):
    name = topic(**{"cleanup.policy": "compact"})
    allowed = {"penstock.quarantine.internal.topics": "true"}
    running = gateway(chain("NoKey", **allowed), POLICIES)
    records = [Record(NOW, b"k", value, ()) for value in (b"1", b"2", b"1", b"nokey")]
    answer = send(running, name, encode_batch(records))
    assert answer.error_code == 87
    assert [index for index, _ in errors(answer)] == [3]


def test_a_batch_that_grew_too_large_is_refused_before_it_is_sent(gateway, topic, stored):
    name = topic(**{"max.message.bytes": "20000"})
    running = gateway(chain("Grow"), POLICIES)
    answer = send(running, name, encode_batch(values(b"x" * 30)))
    assert answer.error_code == 10
    assert re.search(r"has \d+ bytes .* 20000 of max.message.bytes", answer.error_message)
    assert send(running, name, encode_batch(values(b"x"))).error_code == 0
    assert values_of(stored(name)) == [b"x" * 1000]


@pytest.mark.slow
def test_a_request_that_grew_too_large_is_stored_in_parts(gateway, topic, stored):
    """A broker, here another gateway, closes the connection of a request that is too large."""
    name, limit, partitions = topic(partitions=5), 100_000, set(range(5))
    behind = gateway({"socket.request.max.bytes": limit}, POLICIES)
    settings = {"upstream.bootstrap.servers": behind.address, "socket.request.max.bytes": limit}
    running = gateway({**chain("Grow"), **settings}, POLICIES)
    stored_by_request = []
    while partitions:
        batches = [(number, encode_batch(values(b"x" * 30))) for number in sorted(partitions)]
        with RawClient(running.address) as client:
            found = produced(client.call(produce_request([(name, batches)])))
        codes = {number: answer.error_code for (_, number), answer in found.items()}
        assert set(codes.values()) <= {0, 7}
        partitions = {number for number, code in codes.items() if code}
        stored_by_request.append(len(codes) - len(partitions))
    assert stored_by_request == [3, 2]
    assert values_of(stored(name)) == [b"x" * 30_000] * 5


def librdkafka(running, **settings) -> Producer:
    timeout_ms = int(FLUSH_S * 1000)
    return Producer({"bootstrap.servers": running.address, "log_level": 0, "linger.ms": 5,
                     "message.timeout.ms": timeout_ms, "transaction.timeout.ms": timeout_ms,
                     **settings})  # fmt: skip


def reported(failures: list):
    return lambda error, message: failures.append((error, message.value())) if error else None


@pytest.mark.cases(1)
@pytest.mark.kips("B21", "B22")
@pytest.mark.parametrize(
    ("name", "codec", "made"),
    [
        ("NoOp", "zstd", lambda number: b"%d" % number),
        ("Mutate", "none", lambda number: b"mutated-%d" % number),
        ("Odd", "zstd", lambda number: None if number % 2 else b"%d" % number),
    ],
)
def test_an_idempotent_producer(gateway, topic, stored, codec, name, made):
    of = topic()
    running = gateway(chain(name), POLICIES)
    failures: list = []
    producer = librdkafka(
        running,
        **{"enable.idempotence": True, "batch.num.messages": 5, "compression.type": codec},
    )
    for number in range(2000):
        producer.produce(of, b"%d" % number, on_delivery=reported(failures))
        producer.poll(0)
    assert producer.flush(FLUSH_S) == 0
    assert failures == []
    expected = [value for value in map(made, range(2000)) if value is not None]
    assert values_of(stored(of)) == expected


@pytest.mark.slow
@pytest.mark.kips("B47")
def test_an_idempotent_producer_over_a_restart(gateway, topic, stored):
    name = topic()
    running = gateway(chain("Odd"), POLICIES)
    failures: list = []
    producer = librdkafka(running, **{"enable.idempotence": True, "batch.num.messages": 7})
    for number in range(3000):
        producer.produce(name, b"%d" % number, on_delivery=reported(failures))
        producer.poll(0.001)
        if number in {700, 1900}:
            running.restart(kill=True)
    assert producer.flush(FLUSH_S) == 0
    assert failures == []
    assert values_of(stored(name)) == [b"%d" % n for n in range(0, 3000, 2)]


@pytest.mark.slow
@pytest.mark.kips("B48")
def test_a_transaction_whose_records_are_all_dropped_commits(gateway, topic, kafka):
    name, other = topic(), topic()
    running = gateway(chain("Odd"), POLICIES)
    producer = librdkafka(running, **{"transactional.id": name})
    producer.init_transactions(60)
    for batch, topics, abort in (
        ((b"1", b"3"), (name,), False),
        ((b"5", b"2"), (name,), False),
        ((b"4", b"6"), (name,), True),
        ((b"7",), (name, other), True),
        ((b"9",), (other, name), False),
        ((b"8",), (name,), False),
    ):
        producer.begin_transaction()
        for of in topics:
            for value in batch:
                producer.produce(of, value)
        producer.flush(30)
        if abort:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(60)
    found = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert values_of(found) == [b"2", b"8"]


@pytest.mark.parametrize(
    ("mode", "codes", "kept"),
    [("strip", set(), [b"0", b"2", b"4"]), ("refuse", {87}, [])],
)
def test_other_configurations_with_idempotent_producers(gateway, topic, stored, mode, codes, kept):
    name = topic()
    running = gateway({**chain("Odd"), "produce.request.interceptors.idempotence": mode}, POLICIES)
    failures: list = []
    # One batch, whatever holds this thread up: `flush` sends it.
    producer = librdkafka(running, **{"enable.idempotence": True, "linger.ms": 30_000})
    for number in range(6):
        producer.produce(name, b"%d" % number, on_delivery=reported(failures))
    assert producer.flush(30) == 0
    assert {error.code() for error, _ in failures} == codes
    assert values_of(stored(name)) == kept


@pytest.mark.slow
def test_producer_state_of_a_removed_interceptor_stays(gateway, topic, stored):
    """A producer whose records were dropped continues after the configuration changed."""
    name = topic()
    running = gateway(chain("Odd"), POLICIES)
    failures: list = []
    producer = librdkafka(running, **{"enable.idempotence": True, "batch.num.messages": 3})
    for number in range(10):
        producer.produce(name, b"%d" % number, on_delivery=reported(failures))
    assert producer.flush(30) == 0
    text = running.file.read_text()
    running.file.write_text(re.sub("produce.request.interceptors=.*", "", text))
    running.restart()
    for number in range(10, 20):
        producer.produce(name, b"%d" % number, on_delivery=reported(failures))
    assert producer.flush(30) == 0
    assert failures == []
    expected = [b"%d" % n for n in [*range(0, 10, 2), *range(10, 20)]]
    assert values_of(stored(name)) == expected


def test_transactions_continue_after_a_refusal(gateway, topic, kafka):
    name = topic()
    running = gateway({**chain("Odd"), "record.validator.classes": "policies.Judge"}, POLICIES)
    producer = librdkafka(running, **{"transactional.id": name})
    producer.init_transactions(60)
    committed = []
    for number, last in enumerate((b"2", b"bad", b"4", b"6")):
        producer.begin_transaction()
        producer.produce(name, b"%d1" % number)
        producer.produce(name, last)
        try:
            producer.commit_transaction(60)
            committed.append(last)
        except KafkaException as error:
            assert error.args[0].txn_requires_abort()
            producer.abort_transaction(30)
    assert committed[0] == b"2"
    assert b"bad" not in committed
    found = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert values_of(found) == committed
