"""`Rules`: records judged by conditions."""

import json
import re

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import Rules
from penstock.policy import ALL
from penstock.policy.testing import judge

ORDERS = {
    "rules.positive": "value.amount > 0",
    "rules.positive.message": "the amount must be above zero",
    "rules.currency": 'value.currency in ["EUR", "USD"]',
}
NOT_THERE = "a field or key that it reads is not there"


def texts(records, configs, **more):
    return [
        verdict.message
        for verdict in judge(Rules, records, topic="orders", configs=configs, **more)
    ]


def text(record, expression, **more):
    configs = {"rules.r": expression, **more.pop("configs", {})}
    [found] = texts([record], configs, **more)
    return found


def test_every_rule_has_to_be_true():
    assert texts(
        [
            b'{"amount":1,"currency":"EUR"}',
            b'{"amount":0,"currency":"CHF"}',
            b'{"amount":1,"currency":"CHF"}',
            b'{"currency":"EUR"}',
            b'{"amount":"SECRET","currency":"EUR"}',
            b"SECRET",
            b"[]",
            None,
        ],
        ORDERS,
    ) == [
        None,
        'rule "positive" failed: the amount must be above zero',
        'rule "currency" failed: value.currency in ["EUR", "USD"]',
        f'rule "positive" has no result: {NOT_THERE}: the amount must be above zero',
        (
            'rule "positive" has no result: a value is null, or has a type that it cannot be used with: '
            "the amount must be above zero"
        ),
        "the value is not JSON",
        (
            'rule "positive" has no result: a value is null, or has a type that it cannot be used with: '
            "the amount must be above zero"
        ),
        None,
    ]


def test_with_and_without_a_schema_in_place_of_conditions(monkeypatch):
    """The verdicts are those of CEL, also if a schema replaces a condition."""
    from penstock.policies.rules import by_schema

    values = [
        json.dumps({"amount": amount, "currency": currency}).encode()
        for amount in (1, 0, -1, 0.5, 2**53, 2**63, 2**64, "1", None, True, [], {})
        for currency in ("EUR", "eur", "", "EUR\0", None, 1)
    ] + [b"{}", b"[]", b"1", b"", b"{", b'{"amount":1,"amount":0,"currency":"EUR"}', b"[" * 300]
    configs = {**ORDERS, "rules.either": "!has(value.x) || size(value.x) < 3"}
    with_schema = texts(values, configs)
    monkeypatch.setattr(by_schema, "schema_of", lambda _tree: None)
    assert texts(values, configs) == with_schema
    assert with_schema.count(None) == 5  # of 1, 0.5 and the three larger numbers


def test_cel_judges_only_the_conditions_that_a_value_may_break(monkeypatch):
    from penstock.policies.rules.condition import Condition

    evaluated = []

    def objection(condition, variables):
        evaluated.append(condition.name)
        return own(condition, variables)

    own = Condition.objection
    configs = {f"rules.{name}": f"value.{name} > 0" for name in "abc"}
    values = ['{"a":1,"b":1,"c":1}', '{"a":1,"b":"","c":1}', '{"a":1,"b":2}', '{"a":0,"b":0,"c":1}']
    monkeypatch.setattr(Condition, "objection", objection)
    first, second, third, last = texts([{"value": value.encode()} for value in values], configs)
    assert (first, last) == (None, 'rule "a" failed: value.a > 0')
    assert second.startswith('rule "b" has no result: ')
    assert third.startswith('rule "c" has no result: ')
    assert set(evaluated) == {"b", "c"}, "a schema says what is true, and what is false"


@pytest.mark.parametrize(
    ("expression", "record", "good"),
    [
        ("key == 'a'", {"key": b"a"}, True),
        ("key == 'a'", {"key": b"b"}, False),
        ("key != null && key.startsWith('a')", {}, False),
        ("headers['trace'] == 'x'", {"headers": [("trace", b"y"), ("trace", b"x")]}, True),
        ("headers.trace == 'x'", {"headers": [("trace", b"x"), ("trace", b"y")]}, False),
        ("!has(headers.trace)", {"headers": {"other": b"x"}}, True),
        ("headers.trace == null", {"headers": {"trace": None}}, True),
        ("headers.trace == b'\\xff'", {"headers": {"trace": b"\xff"}}, True),
        ("size(headers) == 2", {"headers": {"a": b"", "b": b""}}, True),
        ("timestamp > timestamp('2024-01-01T00:00:00Z')", {"timestamp": 1_800_000_000_000}, True),
        ("timestamp > timestamp('2024-01-01T00:00:00Z')", {"timestamp": 1_000_000_000_000}, False),
        ("timestamp < now", {"timestamp": 1_000_000_000_000}, True),
        ("topic == 'orders' && partition == 3", {}, True),
        ("value.a.exists(x, x > 2)", {"value": b'{"a":[1,3]}'}, True),
        ("value.a == value.b", {"value": b'{"a":1,"b":1.0}'}, True),
        ("value == 5", {"value": b"5"}, True),
        ("value['a b'] == 1", {"value": b'{"a b":1}'}, True),
    ],
)
def test_the_variables_of_a_condition(expression, record, good):
    found = text(record, expression, partition=3)
    assert found is None if good else found.startswith('rule "r" ')


def test_a_missing_field_is_refused_unless_has_is_used():
    assert NOT_THERE in text(b"{}", "value.a == 1")
    assert NOT_THERE in text(b"{}", "headers.a == 'x'")
    assert text(b"{}", "!has(value.a)") is None
    assert "the record has no timestamp" in text(b"{}", "timestamp < now")
    assert "not between the years" in text({"timestamp": 2**62}, "timestamp < now")


def test_the_condition_false_closes_a_topic():
    configs = {"rules.closed": "false", "rules.closed.message": "the topic is closed"}
    [refused] = texts([{"value": b'{"x": 1}'}], configs)
    assert "the topic is closed" in refused


def test_a_schema_of_another_policy_is_left_alone():
    configs = {"rules.x": "value.x > 0", "schema.file": "order.avsc"}
    assert judge(Rules, [{"value": b'{"x": 1}'}], topic="orders", configs=configs)[0].code == 0


def test_clients():
    rule = "client.principal == 'User:alice' && client.id == 'c' && client.address == '::1'"
    known = {"principal": "User:alice", "client_id": "c", "address": "::1"}
    assert text(b"{}", rule, **known) is None
    assert text(b"{}", rule, **{**known, "principal": "User:bob"}).startswith('rule "r" failed')
    assert NOT_THERE in text(b"{}", rule)
    assert text(b"{}", "!has(client.principal)") is None


def test_text_after_a_nul_counts():
    assert text(b'{"a":"x\\u0000y"}', "value.a == 'x'") is not None
    assert text(b'{"a":"x\\u0000y"}', "value.a.endsWith('y')") is None
    assert text({"key": b"x\0y"}, "key == 'x'") is not None
    assert text({"headers": {"h": b"x\0y"}}, "headers.h == 'x'") is not None


def test_fields_that_no_rule_reads_are_not_looked_at():
    big = json.dumps({"a": 1, "other": {"\0": 2**70, "deep": [[[]]] * 1000}}).encode()
    assert text(big, "value.a + 0 == 1") is None
    assert text(b'{"a":1,"headers":{}}', "value.a + 0 == 1") is None


def test_tombstones():
    for expression in ("value.a == 1", "value.a + 0 == 1"):
        assert text(None, expression) is None
        refuse = {"null.values": "refuse"}
        assert text(None, expression, configs=refuse) == "the value is null"
    assert text({"key": b"b"}, "key == 'a'").startswith('rule "r" failed')
    assert text({"key": b"b"}, "key == 'a'", configs={"null.values": "refuse"}).startswith("rule")


def test_formats():
    assert text({"value": b"abc"}, "value == 'abc'", configs={"format": "string"}) is None
    assert text({"value": b"\xff"}, "value == 'abc'", configs={"format": "string"}) == (
        "the value is not UTF-8 text"
    )
    assert text({"value": b"\xff\0"}, "value == b'\\xff\\x00'", configs={"format": "bytes"}) is None
    configs = {"key.format": "json"}
    assert text({"key": b'{"id":7}'}, "key.id == 7", configs=configs) is None
    assert text({"key": b"x"}, "key.id == 7", configs=configs) == "the key is not JSON"


def in_folder(folder):
    class InFolder(Rules):
        def use_folder(self, _folder):
            super().use_folder(folder)

    def found(value, expression, **configs):
        [verdict] = judge(InFolder, [value], topic="t", configs={"rules.r": expression, **configs})
        return verdict.message

    return found


def test_avro(tmp_path):
    import io

    import fastavro

    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "amount", "type": "double"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"amount": 1.5, "at": 1_800_000_000_000})
    rule = "value.amount > 1.0 && value.at > timestamp('2024-01-01T00:00:00Z')"
    avro = {"format": "avro", "schema.file": "order.avsc"}
    found = in_folder(tmp_path)
    assert found(out.getvalue(), rule, **avro) is None
    assert found(out.getvalue(), "value.amount > 2.0", **avro).startswith('rule "r" failed')
    assert found(b"x", rule, **avro).startswith("the value does not fit schema order.avsc: ")
    with pytest.raises(ConfigurationError, match="is a schema of AVRO, not of PROTOBUF"):
        found(b"x", rule, **{**avro, "format": "protobuf"})


@pytest.mark.system
def test_protobuf(tmp_path):
    (tmp_path / "order.proto").write_text(
        'syntax = "proto3"; package shop; message Order { int32 amount = 1; string id = 2; }'
    )
    proto = {"format": "protobuf", "schema.file": "order.proto#shop.Order"}
    found = in_folder(tmp_path)
    assert found(b"\x08\x05", "value.amount == 5 && value.id == ''", **proto) is None
    assert found(b"\x08\x05", "value.amount > 5", **proto).startswith('rule "r" failed')
    assert found(b"\xff", "value.amount > 5", **proto).startswith("the value does not fit schema")


@pytest.mark.system
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("value.amuont > 5", "undefined field 'amuont'"),
        ("has(value.amuont)", "undefined field 'amuont'"),
        ("value.lines.all(line, line.cuont > 0)", "undefined field 'cuont'"),
        ("value.amount > 'x'", "no matching overload for '_>_' applied to '(int, string)'"),
        ("value.id", "does not return true or false"),
        ("value.amount > 1.5 && value.at < now && value.lines[0].count > 0", None),
        ("value != null && value.big > 5 && value.big < 10", None),
        ("dyn(value).amount > 5", None),
    ],
)
def test_conditions_over_protobuf_are_checked_with_the_types_of_its_fields(tmp_path, rule, message):
    (tmp_path / "order.proto").write_text(
        'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";'
        "message Order { int32 amount = 1; string id = 2; google.protobuf.Timestamp at = 3;"
        "  repeated Line lines = 4; uint64 big = 5; }"
        "message Line { int32 count = 1; }"
    )
    policy = Rules()
    policy.use_folder(tmp_path)
    configs = {"format": "protobuf", "schema.file": "order.proto#shop.Order", "rules.r": rule}
    if message is None:
        policy.configure(configs)
    else:
        with pytest.raises(ValueError, match=re.escape(message)) as raised:
            policy.configure(configs)
        assert str(raised.value).startswith("rules.r: its condition ")


def test_a_rule_over_the_batch_refuses_all_of_it():
    configs = {
        "rules.size": "count <= 2",
        "rules.size.scope": "batch",
        "rules.size.message": "at most two records",
        "rules.positive": "value.amount > 0",
    }
    good, bad = b'{"amount":1}', b'{"amount":0}'
    sent = {"address": "::1"}
    assert texts([good, bad], configs, **sent) == [None, 'rule "positive" failed: value.amount > 0']
    assert texts([good] * 3, configs, **sent) == ['rule "size" failed: at most two records'] * 3
    assert texts([good] * 3, configs) == [None] * 3  # stored records come in other batches


@pytest.mark.parametrize(
    ("expression", "good"),
    [
        ("count == 3 && distinct_keys == 2 && null_keys == 1 && null_values == 1", True),
        ("total_bytes == 7", True),
        ("last_timestamp - first_timestamp <= duration('2s')", True),
        ("last_timestamp - first_timestamp < duration('2s')", False),
        ("topic == 'orders' && partition == 0 && !has(client.principal)", True),
    ],
)
def test_the_variables_of_a_rule_over_the_batch(expression, good):
    records = [
        {"key": b"a", "value": b"12", "timestamp": 1000},
        {"key": b"a", "timestamp": 3000},
        {"value": b"123", "timestamp": 2000},
    ]
    found = texts(records, {"rules.r": expression, "rules.r.scope": "batch"}, address="::1")
    assert [reason is None for reason in found] == [good] * 3


def test_no_more_is_looked_at_than_rules_read():
    def hints(expression, scope="record"):
        policy = Rules()
        policy.configure({"rules.r": expression, "rules.r.scope": scope})
        return policy.get_hints()

    assert hints("value.a > 0") == (False, 0, ALL)
    assert hints("topic == 'x'") == (False, 0, 0)
    assert hints("has(headers.x)") == (True, 0, 0)
    assert hints("key == 'x'") == (False, ALL, 0)
    assert hints("null_keys == 0", "batch") == (False, 1, 0)
    assert hints("count < 9 && null_values == 0", "batch") == (False, 0, 1)
    assert hints("total_bytes < 9", "batch") == (False, ALL, ALL)


def test_a_rule_without_a_boolean_result_is_refused():
    assert text(b'{"a":""}', "value.a").endswith("gives neither true nor false: value.a")
    assert text(b'{"a":"x"}', "value.a").endswith("gives neither true nor false: value.a")
    assert text(b'{"a":true}', "value.a") is None


def test_deeply_nested_values_are_refused():
    for levels, expected in (
        (127, None),
        (128, "the value has more than 127 levels of arrays and objects"),
        (900, "the value has more than 127 levels of arrays and objects"),
        (100_000, "the value is not JSON"),
    ):
        value = b'{"a":' * levels + b"1" + b"}" * levels
        for rule in ("value.a != 2", "has(value.a)"):
            assert text(value, rule) == expected, (levels, rule)


def test_too_much_work_is_refused():
    value = json.dumps({"a": list(range(20_000))}).encode()
    found = text(value, "value.a.all(x, value.a.all(y, value.a.all(z, x + y + z >= 0)))")
    assert "too much work" in found or "more than 10000 steps" in found


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "there is no rule: set rules.<name> to a condition"),
        ({"rules.a": ""}, "rules.a must be a condition in CEL"),
        ({"rules.a": "value.x >"}, "rules.a: its condition is not valid"),
        ({"rules.a": "valu.x > 1"}, "rules.a: its condition is not valid"),
        ({"rules.a": "1 + 1"}, "rules.a: its condition does not return true or false"),
        ({"rules.a": "topic > 5"}, "rules.a: its condition is not valid"),
        ({"rules.a": "partition == 'x'"}, "rules.a: its condition is not valid"),
        ({"rules.a": "count > 5"}, "it may read key, value, headers, timestamp, topic"),
        (
            {"rules.a": "amount > 5"},
            "'amount' (in container ''); a field is value.amount; it may read",
        ),
        ({"rules.a": "value.x > 5 and value.y > 0"}, "; in CEL, and is &&"),
        ({"rules.a": "value.x = 'a = b or c'"}, "; in CEL, = is =="),
        ({"rules.a": "value.x IS NOT NULL"}, "; in CEL, IS NOT NULL is != null"),
        (
            {"rules.a": "value.x NOT IN ('a')"},
            "; in CEL, NOT IN is !(value.x in ['a', 'b']), a list",
        ),
        ({"rules.a": "value.x in ('a', 'b')"}, "; in CEL, a list is ['a', 'b']"),
        ({"rules.a": "value.x == True"}, "; write true"),
        ({"rules.a": "len(value.x) > 0"}, "; write size(...)"),
        ({"rules.a": "value.x.upper() == 'A'"}, "; write upperAscii()"),
        ({"rules.a": "value.unit price > 0"}, "or is a word of CEL, is value['a b']"),
        ({"rules.a": "value.\xfcnit > 0"}, "or is a word of CEL, is value['a b']"),
        ({"rules.a": "value.in > 0"}, "or is a word of CEL, is value['a b']"),
        ({"rules.a": "value.x > 5", "rules.a.scope": "batch"}, "it may read count, distinct_keys"),
        ({"rules.a": "true", "rules.a.scope": "x"}, "rules.a.scope must be one of record, batch"),
        ({"rules.a": "true", "rules.a.mesage": "x"}, "rules.a.mesage is unknown"),
        ({"rules.b.message": "x", "rules.a": "true"}, "there is no rule rules.b"),
        ({"rules.a b": "true"}, "rules.a b: a rule's name has letters"),
        ({"rules.a": "true", "format": "xml"}, "format must be one of json, avro, protobuf"),
        ({"rules.a": "true", "key.format": "xml"}, "key.format must be one of json"),
        ({"rules.a": "true", "format": "avro"}, "format=avro needs schema.file"),
        ({"rules.a": "true", "null.values": "x"}, "null.values must be one of accept, refuse"),
        ({"rules.a": "true", "rules.a.message": "x" * 501}, "has more than 500 characters"),
        ({f"rules.r{n}": "true" for n in range(201)}, "there are 201 rules, more than 200"),
        ({"rules.a": "value.x.matches('(?=x)')"}, "not a regular expression of RE2"),
    ],
)
def test_wrong_settings(configs, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        texts([b"{}"], configs)


def test_native_judging_is_bounded():
    def bounded(**rules):
        policy = Rules()
        policy.configure({f"rules.{name}": rule for name, rule in rules.items()})
        return policy

    class Batch:
        values = (b'{"a":1}', None)

    assert bounded(a="value.a > 0").all_fit("", Batch)
    assert not bounded(a="value.a > 1").all_fit("", Batch)
    assert not bounded(a="value.a > 0", b="topic == 'x'").is_bounded("")
    assert not bounded(a="value.a > value.b").is_bounded("")


def test_each_rule_is_described():
    policy = Rules()
    policy.configure(
        {
            "rules.a": "value.a > 0",
            "rules.whole": "count < 9",
            "rules.whole.scope": "batch",
            "rules.b": "value.a > value.b",
        }
    )
    assert list(policy.describe_topic("t", {})) == [
        "rule whole, of the batch: count < 9",
        "rule a, natively: value.a > 0",
        "rule b, by CEL: value.a > value.b",
    ]


def test_a_condition_about_the_time_alone_may_come_true_later():
    policy = Rules()
    policy.configure({"rules.later": 'now > timestamp("2999-01-01T00:00:00Z")'})


@pytest.mark.parametrize(
    ("expression", "warns"),
    [
        ("value.paid / value.total < 2", True),
        ("(value.a + value.b) / value['c'] == 1", True),
        ("value.l.all(x, x.a / x.b > 1)", True),
        ("value.paid / 2 == 1", False),
        ("value.paid * 1.0 / value.total < 2", False),
        ("double(value.paid) / value.total < 2", False),
        ("value.paid / double(value.total) < 2", False),
    ],
)
def test_a_condition_that_divides_two_fields_is_a_warning(expression, warns):
    rules = Rules()
    rules.configure({"rules.share": expression})
    assert [text.partition(":")[0] for text in rules.warnings] == ["rules.share"] * warns


def test_rules_over_the_batch_divide_whole_numbers():
    rules = Rules()
    rules.configure({"rules.r": "null_keys / count < 1", "rules.r.scope": "batch"})
    assert rules.warnings == [
        (
            "rules.r: / of two whole numbers drops the fraction, as in CEL: 7 / 2 is 3; "
            "double(value.a) / value.b keeps it"
        )
    ]
