"""KIP-729 and KIP-940 on the wire."""

import os

import pytest
from confluent_kafka.admin import AdminClient

from penstock.policy import Header, Record
from tests.gateways import wait_until
from tests.integration.modes import set_config
from tests.integration.reading import topic_id, values_of
from tests.kafka.records.encoding import CODECS, encode_batch, values
from tests.raw import RawClient, errors, parse_response, produce_request, produced

VERSION_12 = pytest.param(12, marks=pytest.mark.since("4.0"))
POLICIES = """
from penstock.policy import *

class A(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if b"a" in (value or b""):
            return InvalidRecordException(f"A: {topic_partition.topic}-{topic_partition.partition}")

class B(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if b"b" in (value or b""):
            raise InvalidRecordException("B")

class Everything(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("nothing passes")

class Loud(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        print("looked at", topic_partition.topic)

class HeaderRequired(RecordValidationPolicy):
    def get_hints(self):
        return RecordIntrospectionHints(True, 0, 0)
    def validate(self, topic, record):
        assert record.key is None and record.value is None
        if all(header.key != topic.validation_policy for header in record.headers):
            name = topic.topic_id_partition.topic
            raise InvalidRecordException(
                f"Topic {name} requires records to contain a header with key: "
                + topic.validation_policy)

class Shown(RecordValidationPolicy):
    def get_hints(self):
        return RecordIntrospectionHints(False, 5, 5)
    def validate(self, topic, record):
        raise InvalidRecordException(repr((tuple(topic.topic_id_partition), topic.validation_policy,
            record.key, len(record.value), tuple(record.headers))))
"""


def call(running, topics, **options):
    with RawClient(running.address) as client:
        return produced(client.call(produce_request(topics, **options)))


def header_required(glob: str = "*") -> dict[str, str]:
    return {
        "record.validation.policy.class.name": "policies.HeaderRequired",
        f"topics.{glob}.record.validation.policy": "x-schema",
    }


@pytest.mark.kips("B16")
def test_the_first_reason_of_a_record_counts_and_all_records_are_named(
    shared_gateway, topic, stored
):
    name = topic()
    running = shared_gateway({"record.validator.classes": "policies.A, policies:B"}, POLICIES)
    batch = encode_batch(values(b"fine", b"ab", b"fine", b"b"))

    answer = call(running, [(name, [(0, batch)])])[name, 0]

    assert answer.error_code == 87
    assert errors(answer) == [(1, f"A: {name}-0"), (3, "B")]
    assert answer.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only "
        f"showing the first three errors at most: [RecordError(batchIndex=1, message='A: {name}-0')"
        ", RecordError(batchIndex=3, message='B')]"
    )
    assert stored(name) == []


@pytest.mark.kips("B17")
def test_five_bad_records_are_five_errors_and_three_texts(shared_gateway, topic):
    name = topic()
    running = shared_gateway({"record.validator.classes": "policies.Everything"}, POLICIES)

    answer = call(running, [(name, [(0, encode_batch(values(*[b"v"] * 5)))])])[name, 0]

    assert [0, 1, 2, 3, 4] == [index for index, _ in errors(answer)]
    assert answer.error_message.count("RecordError(") == 3
    assert "due to 5 record errors" in answer.error_message


def test_a_topic_may_give_the_batch_the_first_reason(gateway, topic):
    by_glob, by_topic, other = topic("glob"), topic("own"), topic("other")
    running = gateway(
        {**header_required(), "topics.*glob*.produce.rejection.reasons": "batch"}, POLICIES
    )
    set_config(
        AdminClient({"bootstrap.servers": running.address}),
        by_topic,
        "produce.rejection.reasons",
        "batch",
    )
    good = Record(0, None, b"v", headers=(Header("x-schema", b""),))
    batch = encode_batch([good, *values(b"v", b"w")])

    def refusal(name: str) -> tuple[list, str]:
        answer = call(running, [(name, [(0, batch)])])[name, 0]
        assert answer.error_code == 87
        return errors(answer), answer.error_message

    wait_until(lambda: not refusal(by_topic)[0], what="the topic's own key")
    for name in (by_glob, by_topic):
        reason = f"Topic {name} requires records to contain a header with key: x-schema"
        assert refusal(name) == ([], f"Record 1 of the batch (the first is 0): {reason}")
    assert [index for index, _ in refusal(other)[0]] == [1, 2]


@pytest.mark.kips("B18")
def test_a_record_that_the_broker_would_also_refuse_has_a_single_error(shared_gateway, topic):
    name = topic("compacted", **{"cleanup.policy": "compact"})
    running = shared_gateway({"record.validator.classes": "policies.Everything"}, POLICIES)

    answer = call(running, [(name, [(0, encode_batch(values(b"v", key=None)))])])[name, 0]

    assert answer.error_code == 87
    [(position, text)] = errors(answer)
    assert position == 0
    assert "without key" not in text


@pytest.mark.kips("B19")
def test_without_policies_batches_are_not_decoded(gateway, topic, stored):
    name = topic()
    running = gateway({})
    damaged = encode_batch(values(b"v"), crc=1)

    answers = call(running, [(name, [(0, encode_batch(values(b"v")))])])

    assert running.workers() == []
    assert answers[name, 0].error_code == 0
    assert call(running, [(name, [(0, damaged)])])[name, 0].error_code == 2  # the broker's own
    assert values_of(stored(name)) == [b"v"]


@pytest.mark.kips("B20", "B31", "B45")
@pytest.mark.parametrize("version", [*range(3, 12), VERSION_12])
def test_every_version_gets_a_response_it_can_read(shared_gateway, topic, stored, version):
    name = topic("strict", 2)
    running = shared_gateway(header_required("strict*"), POLICIES)
    good = encode_batch([Record(1, b"k", b"v", (Header("x-schema", b"1"),))])
    bad = encode_batch(values(b"v"))

    for partitions, codes in (
        ([(0, bad), (1, good)], {0: 87, 1: 0}),
        ([(0, bad)], {0: 87}),
        ([(1, good)], {1: 0}),
    ):
        answers = call(running, [(name, partitions)], version=version)
        assert codes == {index: answer.error_code for (_, index), answer in answers.items()}
        if 0 in codes and version >= 8:
            text = f"Topic {name} requires records to contain a header with key: x-schema"
            assert errors(answers[name, 0]) == [(0, text)]
    assert [1, 1] == [partition for partition, *_ in stored(name)]


@pytest.mark.since("4.1")
@pytest.mark.kips("B45")
def test_topic_ids_are_resolved_and_returned(shared_gateway, topic, admin, stored):
    strict, free = topic("strict"), topic("free")
    running = shared_gateway(header_required("strict*"), POLICIES)
    ids = {name: topic_id(admin, name) for name in (strict, free)}
    batch = encode_batch(values(b"v"))

    answers = call(running, [(ids[strict], [(0, batch)]), (ids[free], [(0, batch)])], version=13)

    assert {ids[strict]: 87, ids[free]: 0} == {t: a.error_code for (t, _), a in answers.items()}
    assert values_of(stored(free)) == [b"v"]
    assert stored(strict) == []


@pytest.mark.since("4.1")
@pytest.mark.kips("B45")
def test_an_unknown_topic_id_is_100_and_fails_no_other_topic(shared_gateway, topic, admin):
    from uuid import uuid4

    free = topic("free")
    running = shared_gateway(header_required("strict*"), POLICIES)
    unknown, known = uuid4(), topic_id(admin, free)
    batch = encode_batch(values(b"v"))

    answers = call(running, [(unknown, [(0, batch)]), (known, [(0, batch)])], version=13)

    assert {unknown: 100, known: 0} == {t: a.error_code for (t, _), a in answers.items()}


def test_an_unknown_topic_gets_the_brokers_error(shared_gateway, kafka):
    running = shared_gateway(header_required(), POLICIES)
    request = [("no-such-topic", [(0, encode_batch(values(b"v")))])]

    through = call(running, request)["no-such-topic", 0]
    with RawClient(kafka.bootstrap_servers) as client:
        direct = produced(client.call(produce_request(request)))["no-such-topic", 0]

    assert through == direct
    assert through.error_code == 3


@pytest.mark.kips("B32")
def test_the_policy_does_not_judge_a_topic_without_the_key(shared_gateway, topic, stored):
    name = topic()
    running = shared_gateway(header_required("other*"), POLICIES)

    assert call(running, [(name, [(0, encode_batch(values(b"v")))])])[name, 0].error_code == 0
    assert values_of(stored(name)) == [b"v"]


@pytest.mark.kips("B32", "B33")
def test_hints_bound_the_bytes_that_the_policy_gets_and_the_topic_id_is_real(
    shared_gateway, topic, admin
):
    name = topic()
    properties = {
        "record.validation.policy.class.name": "policies.Shown",
        "topics.t-*.record.validation.policy": "any text",
    }
    running = shared_gateway(properties, POLICIES)
    batch = encode_batch([Record(1, b"long key", b"long value", (Header("h", b"1"),))])
    identity = topic_id(admin, name)

    by_name = call(running, [(name, [(0, batch)])], version=9)[name, 0]
    by_id = call(running, [(identity, [(0, batch)])], version=13)[identity, 0]

    expected = repr(((identity, name, 0), "any text", b"long ", 5, ()))
    assert errors(by_name) == errors(by_id) == [(0, expected)]


@pytest.mark.cases(2)
@pytest.mark.kips("B42")
@pytest.mark.parametrize("codec", CODECS)
def test_a_large_value_with_short_hints(shared_gateway, topic, codec):
    name = topic()
    properties = {
        "record.validation.policy.class.name": "policies.Shown",
        "topics.*.record.validation.policy": "",
    }
    running = shared_gateway(properties, POLICIES)
    value = os.urandom(2**19) + bytes(2**19)
    batch = encode_batch([Record(1, b"k", value)], codec=codec)

    [(index, text)] = errors(call(running, [(name, [(0, batch)])])[name, 0])

    assert index == 0
    assert text.endswith("'', b'k', 5, ())")


@pytest.mark.cases(1)
@pytest.mark.kips("B43")
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_a_decompression_bomb_is_refused_within_the_limit(gateway, topic, codec):
    name = topic()
    running = gateway(
        {
            "record.validator.classes": "policies.A",
            "decompressed.batch.max.bytes": 1_000_000,
            "policy.workers": 1,
        },
        POLICIES,
    )
    bomb = encode_batch(values(b"v"), codec=codec, body=bytes(40_000_000))
    (worker, *_) = running.workers()

    answer = call(running, [(name, [(0, bomb)])])[name, 0]

    assert answer.error_code == 87
    assert "decompressed.batch.max.bytes" in answer.error_message
    assert worker in running.workers()


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("batch", "code", "text"),
    [
        (encode_batch(values(b"v"), crc=7), 2, "Record is corrupt"),
        (encode_batch(values(b"v"), codec="lz4", payload=b"not lz4"), 2, "lz4"),
        (encode_batch(values(b"v"), count=2), 87, "Inconsistent batch offset range"),
        (encode_batch(values(b"v"), attributes=0x20), 87, "control records"),
        (encode_batch(values(b"v"), attributes=5), 87, "compression type id: 5"),
        (encode_batch(values(b"v"), magic=1), 87, "magic version 2"),
        (encode_batch(values(b"v")) * 2, 87, "exactly one record batch"),
        (b"", 87, "at least one record batch"),
        (None, 87, "at least one record batch"),
        (encode_batch(values(b"v"), attributes=8), 32, "CreateTime"),
        (encode_batch(values(b"v"), producer_id=5), 87, "Invalid sequence number"),
    ],
)
def test_batches_that_cannot_be_read_are_refused(shared_gateway, topic, stored, batch, code, text):
    name = topic()
    running = shared_gateway({"record.validator.classes": "policies.A"}, POLICIES)

    answer = call(running, [(name, [(0, batch)])])[name, 0]

    assert answer.error_code == code
    assert text in answer.error_message
    assert stored(name) == []


@pytest.mark.kips("B35", "B37")
def test_no_acks_and_a_refusal_close_the_connection_after_the_good_batches(
    shared_gateway, topic, stored
):
    name = topic("strict", 2)
    running = shared_gateway(header_required("strict*"), POLICIES)
    good = encode_batch([Record(1, b"k", b"v", (Header("x-schema", b"1"),))])
    bad = encode_batch(values(b"v"))

    with RawClient(running.address) as client:
        request = produce_request([(name, [(0, bad), (1, good)])], acks=0)
        client.send(client.frame(request))
        assert client.closed()

    wait_until(lambda: stored(name), what="the good batch")  # nobody waited for the broker
    assert [(1, b"v")] == [(partition, value) for partition, _, value, _ in stored(name)]


@pytest.mark.parametrize("judged", [True, False])
def test_no_acks_without_a_refusal_keep_the_connection_open(shared_gateway, topic, stored, judged):
    name = topic("strict")
    running = shared_gateway(header_required("strict*") if judged else {}, POLICIES)
    good = encode_batch([Record(1, b"k", b"v", (Header("x-schema", b"1"),))])

    with RawClient(running.address) as client:
        client.send(client.frame(produce_request([(name, [(0, good)])], acks=0)) * 3)
        answer = produced(client.call(produce_request([(name, [(0, good)])])))[name, 0]

    assert answer.base_offset == 3
    assert len(stored(name)) == 4


@pytest.mark.kips("B35")
def test_acks_of_the_leader_alone(shared_gateway, topic):
    name = topic()
    running = shared_gateway({"record.validator.classes": "policies.A"}, POLICIES)

    answers = call(running, [(name, [(0, encode_batch(values(b"v")))])], acks=1)
    assert answers[name, 0].error_code == 0


@pytest.mark.kips("B52")
def test_internal_topics_get_the_response_of_the_broker(shared_gateway, kafka):
    running = shared_gateway({"record.validator.classes": "policies.Everything"}, POLICIES)
    with RawClient(kafka.bootstrap_servers) as client:
        from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest

        # creates the topic
        find = FindCoordinatorRequest(key="group", key_type=0)
        wait_until(lambda: client.call(find).error_code == 0, what="the topic")
    request = [("__consumer_offsets", [(0, encode_batch(values(b"v")))])]

    through = call(running, request)["__consumer_offsets", 0]
    with RawClient(kafka.bootstrap_servers) as client:
        direct = produced(client.call(produce_request(request)))["__consumer_offsets", 0]

    assert through == direct
    assert through.error_code == 17


@pytest.mark.kips("B34")
def test_the_class_path_is_searched_first_and_only_for_its_policy(gateway, topic, tmp_path):
    name = topic()
    apart = tmp_path / "apart"
    apart.mkdir()
    (apart / "policies.py").write_text(
        "from penstock.policy import *\n"
        "class HeaderRequired(RecordValidationPolicy):\n"
        "    def validate(self, topic, record):\n"
        "        import policies, orjson\n"
        "        raise InvalidRecordException(policies.__file__ + ' ' + orjson.MINE)\n"
    )
    (apart / "orjson.py").write_text("MINE = 'apart'")
    running = gateway(
        {
            **header_required(),
            "record.validation.policy.class.path": str(apart),
            "record.validator.classes": "policies.A",
        },
        POLICIES,
    )

    [(_, text)] = errors(call(running, [(name, [(0, encode_batch(values(b"v")))])])[name, 0])
    [(_, other)] = errors(call(running, [(name, [(0, encode_batch(values(b"a")))])])[name, 0])

    assert text == f"{apart / 'policies.py'} apart"
    assert other == f"A: {name}-0"


def test_the_whole_request_is_refused_if_the_file_sets_it(gateway, topic, stored):
    strict, free = topic("strict"), topic("free")
    running = gateway(
        {**header_required("strict*"), "produce.rejection.scope": "request"}, POLICIES
    )
    batch = encode_batch(values(b"v"))

    answers = call(running, [(strict, [(0, batch)]), (free, [(0, batch)])])

    assert [87, 87] == [answer.error_code for answer in answers.values()]
    assert "produce.rejection.scope" in answers[free, 0].error_message
    assert stored(free) == []


@pytest.mark.parametrize("version", [8, 9, VERSION_12])
def test_a_refusal_has_the_form_of_a_brokers_refusal(shared_gateway, kafka, topic, version):
    compacted = topic("compacted", **{"cleanup.policy": "compact"})
    name = topic()
    running = shared_gateway({"record.validator.classes": "policies.Everything"}, POLICIES)

    with RawClient(kafka.bootstrap_servers) as client:
        frame = client.frame(
            produce_request(
                [(compacted, [(0, encode_batch(values(b"a", b"b", key=None)))])],
                version=version,
            )
        )
        client.send(frame)
        broker = parse_response(client.receive(), 0, version)
    with RawClient(running.address) as client:
        frame = client.frame(
            produce_request([(name, [(0, encode_batch(values(b"a", b"b")))])], version=version)
        )
        client.send(frame)
        response = parse_response(client.receive(), 0, version)

    of_broker = produced(broker)[compacted, 0]
    of_gateway = produced(response)[name, 0]
    assert response.throttle_time == broker.throttle_time
    for field in ("error_code", "base_offset", "log_append_time"):
        assert getattr(of_gateway, field) == getattr(of_broker, field), field
    assert [i for i, _ in errors(of_gateway)] == [i for i, _ in errors(of_broker)]
    broker_message = errors(of_broker)[0][1]
    assert (
        of_gateway.error_message.replace("nothing passes", broker_message)
        == of_broker.error_message
    )


def test_printed_text_is_logged_with_a_mark(gateway, topic):
    name = topic()
    running = gateway({"record.validator.classes": "policies.Loud"}, POLICIES)

    call(running, [(name, [(0, encode_batch(values(b"v")))])])

    (event,) = running.wait_for("policy output")
    assert event["text"] == f"looked at {name}"
