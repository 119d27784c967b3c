"""`SchemaPolicy`: the required content of records, by the schemas of a registry or of files."""

import json
from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.columns import columns_of
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.policies import SchemaPolicy
from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
from penstock.policies.schema_policy.registry.cache import SUBJECTS_SECONDS, Registry
from penstock.policies.schema_policy.registry.client import RegistryClient
from penstock.policies.schema_policy.registry.settings import RegistrySettings
from penstock.policies.schema_policy.registry_judge import RegistryJudge
from penstock.policies.schema_policy.settings import TopicSettings
from penstock.policies.schema_policy.unusable import EVENT, UnusableSchemas
from penstock.policy import (
    Header,
    Record,
    TopicIdPartition,
    TopicMetadata,
    UndecidableException,
)
from penstock.policy.counting import take_events
from penstock.policy.testing import judge
from tests.policies.schema_policy.clock import Clock
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault
from tests.policies.schema_policy.orders import CONTRACT, JSON_ORDER, ORDER, ORDER_2, avro, framed

pytestmark = pytest.mark.system

PROTO_ORDER = 'syntax = "proto3"; package shop; message Other { } message Order { int64 id = 1; }'
VALUES = {"confluent.value.schema.validation": "true"}
KEYS = {"confluent.key.schema.validation": "true"}
RULES = VALUES | {"schema.validation.level": "rules"}
SECRET = "4111-1111"


def order(schema_id, number=1, note=SECRET):
    return framed(schema_id, avro({"id": number, "note": note}))


def verdicts(registry, records, topic_configs=VALUES, topic="orders", **configs):
    """Judge; return the outcome and the message of each record."""
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    if registry is not None:
        configs = {"schema.registry.url": registry.url} | configs
    found = judge(SchemaPolicy, records, topic=topic, configs=configs, topic_configs=topic_configs)
    assert all(SECRET not in (verdict.message or "") for verdict in found)
    return [(verdict.outcome, verdict.message) for verdict in found]


def only(found):
    (verdict,) = found
    return verdict


def accepts(found):
    return [outcome for outcome, _ in found] == ["accepted"] * len(found)


def test_each_bad_record_of_a_batch_has_its_reason(registry):
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    other = registry.register("elsewhere", json.dumps(JSON_ORDER), "JSON")
    records = [
        order(schema_id),
        order(schema_id)[:-1],
        order(schema_id) + b"\x00",
        framed(schema_id, b""),
        b"",
        b"\x00\x00",
        b'{"id": 1}',
        framed(0, b"x"),
        framed(99, b"x"),
        framed(other, b'{"id": 1}'),
        None,
        order(schema_id),
    ]
    found = verdicts(registry, records)
    assert [outcome for outcome, _ in found] == ["accepted", *["refused"] * 9, *["accepted"] * 2]
    fits_not = "the value does not fit schema orders-value version 1 (id 1): Avro: "
    texts = [message for _, message in found]
    assert all(text.startswith(fits_not) for text in texts[1:4])
    assert "too short" in texts[5]
    assert texts[8] == "the value has schema id 99, which the registry does not know"
    assert texts[9] == "the value has schema id 2, which is not under subject orders-value"


@pytest.mark.parametrize(
    ("schema_type", "text", "good", "bad"),
    [
        ("JSON", json.dumps(JSON_ORDER), b'{"id": 1}', b'{"id": "4111-1111"}'),
        ("PROTOBUF", PROTO_ORDER, b"\x02\x02\x08\x01", b"\x02\x02\x12\x094111-1111"),
        ("PROTOBUF", PROTO_ORDER, b"\x00", b"\x00\x12\x094111-1111"),
        ("PROTOBUF", PROTO_ORDER, b"\x00", b"\x02\x06\x08\x01"),
        ("AVRO", json.dumps(ORDER), avro({"id": 1}), b"\x02\x04"),
    ],
)
def test_payloads_of_each_type(registry, schema_type, text, good, bad):
    schema_id = registry.register("orders-value", text, schema_type)
    found = verdicts(
        registry, [framed(schema_id, good), framed(schema_id, bad), framed(schema_id, good)]
    )
    assert [outcome for outcome, _ in found] == ["accepted", "refused", "accepted"]
    assert found[1][1].startswith("the value does not fit schema orders-value version 1 (id 1): ")


def test_a_preparation_is_used_only_for_its_batch(registry):
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    policy = SchemaPolicy()
    policy.configure({"schema.registry.url": registry.url})
    topic = TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), "", VALUES)
    good = PolicyBatch(columns_of([Record(0, None, order(schema_id))] * 2))
    bad = PolicyBatch(columns_of([Record(0, None, order(schema_id)[:size]) for size in (None, -1)]))
    policy.prepare_batch(topic, good)
    assert [at for at, _ in policy.validate_batch(topic, bad)] == [1]
    policy.prepare_batch(topic, good)
    registry.goes_away()
    assert list(policy.validate_batch(topic, good)) == []
    policy.prepare_batch(topic, bad)
    assert [at for at, _ in policy.validate_batch(topic, bad)] == [1]
    policy.close()


def test_at_the_level_of_ids_payloads_are_not_looked_at(registry):
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    level = VALUES | {"schema.validation.level": "id"}
    assert accepts(verdicts(registry, [framed(schema_id, b"\xff" * 20)], level))
    assert only(verdicts(registry, [framed(5, b"")], level))[0] == "refused"


def test_keys_and_values_have_subjects_of_their_own(registry):
    key = registry.register("orders-key", '"long"')
    value = registry.register("orders-value", json.dumps(ORDER))
    good = {"key": framed(key, b"\x02"), "value": order(value)}
    assert accepts(verdicts(registry, [good], KEYS | VALUES))
    swapped = {"key": order(value), "value": framed(key, b"\x02")}
    assert only(verdicts(registry, [swapped], KEYS | VALUES)) == (
        "refused",
        "the key has schema id 2, which is not under subject orders-key",
    )
    assert accepts(verdicts(registry, [good | {"value": b"anything"}], KEYS))


def test_nulls_pass_unless_they_are_refused(registry):
    assert accepts(verdicts(registry, [{"key": None, "value": None}], KEYS | VALUES))
    refusing = {"schema_null_values": "refuse", "schema_null_keys": "refuse"}
    nulls = [{"key": None, "value": None}]
    assert only(verdicts(registry, nulls, KEYS | VALUES, **refusing)) == (
        "refused",
        "the key is null",
    )
    assert only(verdicts(registry, nulls, VALUES, **refusing))[1] == "the value is null"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "orders-shop.Order"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
    ],
)
@pytest.mark.parametrize(
    ("schema_type", "text", "good"),
    [
        ("AVRO", json.dumps(ORDER), avro({"id": 1})),
        ("JSON", json.dumps(JSON_ORDER | {"title": "shop.Order"}), b'{"id": 1}'),
        ("PROTOBUF", PROTO_ORDER, b"\x02\x02"),
    ],
)
def test_subjects_may_be_named_after_records(registry, strategy, subject, schema_type, text, good):
    schema_id = registry.register(subject, text, schema_type)
    by_record = VALUES | {"confluent.value.subject.name.strategy": strategy}
    assert accepts(verdicts(registry, [framed(schema_id, good)], by_record))
    other = registry.register("orders-value", text + " ", schema_type)
    assert only(verdicts(registry, [framed(other, good)], by_record))[1].endswith(
        f"which is not under subject {subject}"
    )


def test_a_protobuf_message_of_another_type_is_under_another_subject(registry):
    schema_id = registry.register("shop.Order", PROTO_ORDER, "PROTOBUF")
    by_record = VALUES | {"confluent.value.subject.name.strategy": "RecordNameStrategy"}
    found = verdicts(
        registry, [framed(schema_id, b"\x02\x02"), framed(schema_id, b"\x00")], by_record
    )
    assert found == [
        ("accepted", None),
        ("refused", "the value has schema id 1, which is not under subject shop.Other"),
    ]


def test_the_latest_version_alone_may_be_wanted(registry):
    old = registry.register("orders-value", json.dumps(ORDER))
    new = registry.register("orders-value", json.dumps(ORDER_2))
    good = framed(new, avro({"id": 1, "to": "x"}, ORDER_2))
    assert accepts(verdicts(registry, [order(old), good]))
    found = verdicts(registry, [order(old), good], VALUES | {"schema.versions": "latest"})
    assert found == [
        (
            "refused",
            "the value has schema id 1, version 1 of subject orders-value, whose latest is 2",
        ),
        ("accepted", None),
    ]


@pytest.mark.parametrize(
    ("location", "in_header", "in_prefix"),
    [
        ("any", "accepted", "accepted"),
        ("header", "accepted", "refused"),
        ("prefix", "refused", "accepted"),
    ],
)
def test_ids_may_be_in_headers(registry, location, in_header, in_prefix):
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    guid = bytes.fromhex(registry.guid(schema_id).replace("-", ""))
    payload = avro({"id": 1})
    by_id = (Header("__value_schema_id", framed(schema_id, b"")),)
    by_guid = (Header("x", b""), Header("__value_schema_id", b"\x01" + guid))
    records = [{"value": payload, "headers": headers} for headers in (by_id, by_guid)]
    records.append({"value": framed(schema_id, payload)})
    found = verdicts(registry, records, VALUES | {"schema.id.location": location})
    assert [outcome for outcome, _ in found] == [in_header, in_header, in_prefix]


@pytest.mark.parametrize(("position", "outcome"), [("last", "accepted"), ("first", "refused")])
def test_the_id_that_kafka_streams_adds_to_a_forwarded_id_counts(registry, position, outcome):
    forwarded = registry.register("clicks-value", '"string"')
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    headers = tuple(
        Header("__value_schema_id", framed(number, b"")) for number in (forwarded, schema_id)
    )
    record = {"value": avro({"id": 1}), "headers": headers}
    found = verdicts(registry, [record], VALUES | {"schema.id.header.position": position})
    assert only(found)[0] == outcome


def test_a_version_that_was_deleted_softly_is_not_written_with(registry):
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    registry.register("orders-value", json.dumps(ORDER_2))
    registry.delete("orders-value", 1)
    assert only(verdicts(registry, [order(schema_id)]))[0] == "refused"


def test_schemas_refer_to_others(registry):
    registry.register("line", json.dumps({"type": "fixed", "name": "Line", "size": 2}))
    text = json.dumps({"type": "record", "name": "O", "fields": [{"name": "l", "type": "Line"}]})
    schema_id = registry.register("orders-value", text, references=[("Line", "line", 1)])
    found = verdicts(registry, [framed(schema_id, b"ab"), framed(schema_id, b"abc")])
    assert [outcome for outcome, _ in found] == ["accepted", "refused"]


def in_context(registry, name, records, topic_configs=VALUES):
    url = {"schema.registry.url": registry.url_of(name)}
    configs = url | {"schema.registry.timeout.ms": "60000"}
    found = judge(
        SchemaPolicy, records, topic="orders", configs=configs, topic_configs=topic_configs
    )
    return [(verdict.outcome, verdict.message) for verdict in found]


@pytest.mark.parametrize("versions", ["any", "latest"])
def test_the_context_of_the_url_has_the_topics_subjects(registry, versions):
    registry.register("orders-value", '"string"')
    registry.register(":.team:other-value", '"int"')
    schema_id = registry.register(":.team:orders-value", json.dumps(ORDER))
    assert schema_id == 2
    configs = VALUES | {"schema.versions": versions}
    assert accepts(in_context(registry, ".team", [order(2)], configs))
    assert only(in_context(registry, ".team", [framed(1, b"\x02")], configs)) == (
        "refused",
        "the value has schema id 1, which is not under subject orders-value",
    )
    outcome, text = only(in_context(registry, ".else", [order(2)], configs))
    assert (outcome, "does not know" in text) == ("refused", True)


def test_references_lead_to_other_contexts_and_on_within_them(registry):
    registry.register("size", json.dumps({"type": "fixed", "name": "Size", "size": 9}))
    registry.register(":.lib:size", json.dumps({"type": "fixed", "name": "Size", "size": 2}))
    line = {"type": "record", "name": "Line", "fields": [{"name": "s", "type": "Size"}]}
    registry.register(":.lib:line", json.dumps(line), references=[("Size", "size", 1)])
    text = json.dumps({"type": "record", "name": "O", "fields": [{"name": "l", "type": "Line"}]})
    registry.register(":.team:orders-value", text, references=[("Line", ":.lib:line", 1)])
    found = in_context(registry, ".team", [framed(1, b"ab"), framed(1, b"abc")])
    assert [outcome for outcome, _ in found] == ["accepted", "refused"]


ACCEPT = {"schema.unusable": "accept"}


def counted():
    return {result: amount for event, result, amount in take_events() if event == EVENT}


def test_a_schema_that_cannot_be_used_lets_nothing_pass_and_loses_nothing(registry):
    schema_id = registry.register("orders-value", '{"type": "record"}')
    two = registry.register("orders-value", json.dumps(ORDER))
    take_events()
    configs = {"schema.registry.url": registry.url}
    records = [order(two), framed(schema_id, b"x")]
    found = judge(SchemaPolicy, records, topic="orders", configs=configs, topic_configs=VALUES)
    begins = "schema orders-value version 1 (id 1) cannot be judged by: "
    for answer in found:
        assert (answer.outcome, answer.code) == ("postponed", 7)
        assert answer.message.startswith(begins)
    assert counted()["refused"] > 0
    level = VALUES | {"schema.validation.level": "id"}
    assert accepts(verdicts(registry, [framed(schema_id, b"x")], level))


def test_records_with_an_unusable_schema_pass_if_configured(registry, caplog):
    schema_id = registry.register("orders-value", '{"type": "record"}')
    two = registry.register("orders-value", json.dumps(ORDER))
    take_events()
    records = [
        framed(schema_id, SECRET.encode()),
        order(two),
        framed(schema_id, b"y"),
        order(two)[:-1],
    ]
    found = verdicts(registry, records, VALUES | ACCEPT)
    assert [outcome for outcome, _ in found] == ["accepted"] * 3 + ["refused"]
    assert counted()["accepted"] % 2 == 0
    (line,) = caplog.messages
    assert line.startswith("schema orders-value version 1 (id 1) cannot be judged by: ")
    assert line.endswith("; its records are accepted (schema.unusable=accept)")


def test_rules_that_cannot_be_used_leave_the_payload_to_be_judged(registry):
    rule = CONTRACT["domainRules"][0] | {"expr": "no such thing("}
    schema_id = registry.register(
        "orders-value", json.dumps(ORDER), rule_set={"domainRules": [rule]}
    )
    records = [order(schema_id, 0), order(schema_id)[:-1]]
    found = verdicts(registry, records, RULES | ACCEPT)
    assert [outcome for outcome, _ in found] == ["accepted", "refused"]
    found = verdicts(registry, records[:1], RULES)
    assert found[0][0] == "postponed"
    assert found[0][1].startswith("the rules of schema orders-value version 1 (id 1) cannot be ju")
    assert accepts(verdicts(registry, records[:1]))


def test_a_refusal_wins_over_records_that_cannot_be_judged(registry):
    schema_id = registry.register("orders-value", '{"type": "record"}')
    registry.register("orders-key", json.dumps(ORDER))
    sides = KEYS | VALUES
    found = verdicts(registry, [{"key": b"no id", "value": framed(schema_id, b"x")}], sides)
    assert only(found)[0] == "refused"
    policy = SchemaPolicy()
    policy.configure({"schema.registry.url": registry.url})
    place = TopicMetadata(TopicIdPartition(UUID(int=1), "orders", 0), "", VALUES)
    records = [Record(0, None, value, ()) for value in (framed(schema_id, b"x"), b"no id")]
    batch = PolicyBatch(columns_of(records))
    assert [position for position, _ in policy.validate_batch(place, batch)] == [1]
    with pytest.raises(UndecidableException):
        policy.validate_batch(place, PolicyBatch(columns_of(records[:1])))
    policy.close()


@pytest.mark.parametrize(
    "trouble",
    [
        lambda registry: registry.goes_away(),
        lambda registry: setattr(registry, "status", 500),
        lambda registry: setattr(registry, "status", 401),
        lambda registry: setattr(registry, "status", 429),
        lambda registry: setattr(registry, "fault", Fault.GARBAGE),
        lambda registry: setattr(registry, "fault", Fault.SLOW_BODY),
        lambda registry: setattr(registry, "fault", Fault.HUGE),
        lambda registry: setattr(registry, "fault", Fault.REDIRECT),
    ],
)
def test_a_registry_in_trouble_is_neither_an_objection_nor_an_agreement(registry, trouble):
    schema_id = registry.register("orders-value", json.dumps(ORDER))
    trouble(registry)
    found = verdicts(registry, [order(schema_id), b"no id"], schema_registry_timeout_ms="500")
    assert [outcome for outcome, _ in found] == ["postponed", "postponed"]
    assert registry.url.rpartition(":")[2] not in found[0][1] or "registry" in found[0][1]


def test_the_conditions_of_a_data_contract_hold_at_the_level_of_rules(registry):
    schema_id = registry.register("orders-value", json.dumps(ORDER), rule_set=CONTRACT)
    records = [order(schema_id, 1), order(schema_id, 0), order(schema_id, 1)[:-1]]
    found = verdicts(registry, records, RULES)
    assert [outcome for outcome, _ in found] == ["accepted", "refused", "refused"]
    assert "positive" in found[1][1]
    assert accepts(verdicts(registry, records[:2]))


@pytest.mark.parametrize(
    ("configs", "topic_configs", "message"),
    [
        ({}, VALUES, "schema.registry.url"),
        ({"schema.nul.values": "refuse"}, VALUES, "schema.nul.values is unknown"),
        (
            {"schema.regsitry.url": "http://a"},
            VALUES,
            "schema.protobuf.unknown.fields and schema.registry.*",
        ),
        ({"schema.null.values": "maybe"}, VALUES, "schema.null.values must be accept or refuse"),
        ({}, VALUES | {"schema.file": "none.avsc"}, "none.avsc"),
        ({}, VALUES | {"schema.file": "order.proto"}, "#MESSAGE"),
        ({}, VALUES | {"schema.file": "a.avsc#b"}, "only a .proto has messages"),
        ({}, KEYS | {"schema.file": "a.avsc"}, "names no schema of keys"),
        ({}, VALUES | {"schema.file": "../../etc/passwd"}, "outside"),
        (
            {},
            VALUES | {"schema.file": "a\0b.json"},
            "schema.file=a\0b.json: is not the name of a file",
        ),
        ({}, VALUES | {"schema.file": "other=a.avsc"}, "must be FILE"),
    ],
)
def test_wrong_settings_are_reported(configs, topic_configs, message):
    with pytest.raises(ConfigurationError) as raised:
        judge(SchemaPolicy, [b"x"], configs=configs, topic_configs=topic_configs)
    assert message in str(raised.value)


def test_files_take_the_place_of_a_registry(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "order.json").write_text(json.dumps({"$ref": "parts/id.json", "title": "order"}))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/id.json").write_text(json.dumps(JSON_ORDER))
    (tmp_path / "order.proto").write_text(
        'import "line.proto"; message O { optional Line line = 1; }'
    )
    (tmp_path / "line.proto").write_text("message Line { optional int64 count = 1; }")
    for file, good, bad in (
        ("order.avsc", avro({"id": 1}), b"\x02"),
        ("order.json", b'{"id": 1}', b"{}"),
        ("order.proto#O", b"\x0a\x02\x08\x01", b"\x0a\x02\x10\x01"),
        ("key=order.avsc,value=order.json", b'{"id": 1}', b"{}"),
    ):
        found = verdicts(None, [good, bad, None], VALUES | {"schema.file": file})
        assert [outcome for outcome, _ in found] == ["accepted", "refused", "accepted"], file
        name = file.rpartition("=")[2].partition("#")[0]
        assert found[1][1].startswith(f"the value does not fit schema {name}: ")


def test_fields_that_are_unknown_may_be_accepted(registry):
    schema_id = registry.register("orders-value", PROTO_ORDER, "PROTOBUF")
    records = [framed(schema_id, b"\x02\x02\x50\x01")]
    assert only(verdicts(registry, records))[0] == "refused"
    assert accepts(verdicts(registry, records, schema_protobuf_unknown_fields="accept"))


@pytest.fixture
def judged_by():
    """Makes judges of the values of `orders`, by several URLs: they return objections to a value."""
    clients = []

    def make(clock, *registries):
        urls = ",".join(each_registry.url for each_registry in registries)
        client = RegistryClient(RegistrySettings.from_configs({"schema.registry.url": urls}), clock)
        clients.append(client)
        registry = Registry(client, clock)
        schemas, settings = CompiledSchemas(registry), TopicSettings.read(VALUES)
        made = RegistryJudge(
            "orders", settings, registry, schemas, UnusableSchemas(), is_key=False, clock=clock
        )
        return lambda value: [text for _, text in made.prepared([value], [()]).objections()]

    yield make
    for each_client in clients:
        each_client.close()


def test_if_registries_disagree_the_queried_registry_wins(registry, judged_by):
    """It is unknown which of them is right: they have to be replicas of one registry."""
    clock = Clock()
    with FakeRegistry() as other:
        schema_id = registry.register("orders-value", json.dumps(ORDER))
        assert other.register("elsewhere", json.dumps(JSON_ORDER), "JSON") == schema_id
        two = other.register("orders-value", json.dumps(ORDER_2))
        of_two = framed(two, avro({"id": 1, "to": "x"}, ORDER_2))
        elsewhere = ["the value has schema id 1, which is not under subject orders-value"]

        objections = judged_by(clock, registry, other)
        assert objections(order(schema_id)) == []
        assert objections(framed(schema_id, b'{"id": 1}')) != []
        assert objections(of_two) == [], "only the other registry has it"
        registry.goes_away()
        clock.passes(SUBJECTS_SECONDS - 1)
        assert objections(order(schema_id)) == [], "the earlier response counts"
        clock.passes(2)
        assert objections(order(schema_id)) == elsewhere
        assert objections(of_two) == []

        registry.comes_back()
        objections = judged_by(clock, other, registry)
        assert objections(order(schema_id)) == elsewhere
        assert objections(framed(schema_id, b'{"id": 1}')) == elsewhere


@pytest.mark.parametrize("stale_first", [True, False])
def test_a_copy_that_is_behind_refuses_nothing_that_another_knows(registry, judged_by, stale_first):
    with FakeRegistry() as stale:
        stale.register("orders-value", json.dumps(ORDER))
        registry.register("orders-value", json.dumps(ORDER))
        two = registry.register("orders-value", json.dumps(ORDER_2))
        urls = (stale, registry) if stale_first else (registry, stale)
        objections = judged_by(Clock(), *urls)
        assert objections(order(1)) == []
        assert objections(framed(two, avro({"id": 1, "to": "x"}, ORDER_2))) == []
        assert objections(order(99)) == [
            "the value has schema id 99, which the registry does not know"
        ]


@pytest.mark.parametrize("level", ["id", "payload", "rules"])
@pytest.mark.parametrize("strategy", ["RecordNameStrategy", "TopicRecordNameStrategy"])
def test_unusable_protobuf_is_undecidable_also_if_messages_name_subjects(registry, strategy, level):
    unusable = 'syntax = "proto3"; package shop; import "missing.proto"; message Order { }'
    subject = "shop.Order" if strategy == "RecordNameStrategy" else "orders-shop.Order"
    records = [framed(registry.register(subject, unusable, "PROTOBUF"), b"\x00")]
    by_record = VALUES | {
        "confluent.value.subject.name.strategy": strategy,
        "schema.validation.level": level,
    }
    outcome, message = only(verdicts(registry, records, by_record))
    assert outcome == "postponed"
    assert "schema id 1 cannot be judged by: " in message
    assert accepts(verdicts(registry, records, by_record | ACCEPT))


BUF_ORDER = """
syntax = "proto3"; package shop; import "buf/validate/validate.proto";
message Order { int64 id = 1 [(buf.validate.field).int64.gt = 0]; }
"""


def test_rules_of_buf_validate_are_judged_by_at_the_level_of_rules_alone(registry):
    schema_id = registry.register("orders-value", BUF_ORDER, "PROTOBUF")
    records = [
        framed(schema_id, b"\x00\x08\x01"),
        framed(schema_id, b"\x00"),
        framed(schema_id, b"\x00\x08"),
    ]
    assert verdicts(registry, records, RULES) == [
        ("accepted", None),
        (
            "refused",
            (
                f"the value does not fit schema orders-value version 1 (id {schema_id}): "
                'rule "int64.gt" failed at id: must be greater than 0'
            ),
        ),
        (
            "refused",
            (
                f"the value does not fit schema orders-value version 1 (id {schema_id}): "
                "Protobuf: ends in the middle of a field"
            ),
        ),
    ]
    assert [outcome for outcome, _ in verdicts(registry, records, VALUES)] == [
        "accepted",
        "accepted",
        "refused",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "(buf.validate.field).string.min_len = 1",
        '(buf.validate.field).cel = {id: "x", expression: "this >"}',
    ],
)
def test_rules_of_buf_validate_that_cannot_be_used_are_not_the_records_fault(registry, rule):
    text = BUF_ORDER.replace("(buf.validate.field).int64.gt = 0", rule)
    records = [framed(registry.register("orders-value", text, "PROTOBUF"), b"\x00\x08\x01")]
    outcome, message = only(verdicts(registry, records, RULES))
    assert outcome == "postponed"
    assert "cannot be judged by: its rules of buf.validate: " in message
    assert accepts(verdicts(registry, records, RULES | {"schema.unusable": "accept"}))


def test_rules_of_buf_validate_that_are_found_to_be_unusable_later_are_not_either(registry):
    """Behind a rule that has no result for an empty message, protovalidate compiles no other."""
    text = BUF_ORDER.replace(
        "int64 id = 1 [(buf.validate.field).int64.gt = 0];",
        'int64 id = 1 [(buf.validate.field).cel = {id: "x", expression: "1 / this == 1"}];'
        'int64 to = 2 [(buf.validate.field).cel = {id: "y", expression: "this >"}];',
    )
    records = [framed(registry.register("orders-value", text, "PROTOBUF"), b"\x00\x08\x01")]
    outcome, message = only(verdicts(registry, records, RULES))
    assert outcome == "postponed"
    assert "the rules of schema orders-value version 1" in message
    assert accepts(verdicts(registry, records, RULES | {"schema.unusable": "accept"}))
