"""Avro's logical types in rules."""

import pytest

from penstock.policies.schema_policy.rules.options import RuleOptions
from tests.policies.schema_policy.rules.judged import field_rule, judge, rule, rules_of

INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "at", "type": INSTANT, "confluent:tags": ["T"]},
        {"name": "micros", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "amount", "type": DECIMAL, "confluent:tags": ["D"]},
        {
            "name": "fixed",
            "type": {
                "type": "fixed",
                "name": "F",
                "size": 2,
                "logicalType": "decimal",
                "precision": 4,
                "scale": 1,
            },
        },
        {
            "name": "key",
            "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        },
        {"name": "times", "type": {"type": "array", "items": INSTANT}},
        {"name": "by", "type": {"type": "map", "values": DECIMAL}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "odd", "type": {"type": "string", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    ],
}
VALUE = {
    "at": 1_700_000_000_123,
    "micros": 5,
    "amount": b"\x04\xd2",  # 12.34
    "fixed": b"\xff\xff",  # -0.1
    "key": bytes(range(16)),
    "times": [0, 1000],
    "by": {"a": b"\x64"},  # 1.00
    "day": 20_000,
    "odd": "x",
    "local": 5,
}


@pytest.mark.parametrize(
    "text",
    [
        "message.at == timestamp('2023-11-14T22:13:20.123Z')",
        "message.at < now",
        "message.at.getFullYear() == 2023",
        "message.micros == timestamp('1970-01-01T00:00:00.000005Z')",
        "decimals.eq(message.amount, decimal('12.34'))",
        "decimals.eq(message.fixed, decimal('-0.1'))",
        "string(decimal(message.amount)) == '12.34'",
        "message.key == '00010203-0405-0607-0809-0a0b0c0d0e0f'",
        "message.times.all(t, t <= timestamp(1))",
        "decimals.eq(message.by.a, decimal(1))",
        "message.day == 20000 && message.odd == 'x' && message.local == 5",
    ],
)
def test_rules_see_what_they_are(text):
    assert judge(rules_of(SCHEMA, rule(text)), VALUE) is None


def test_null_stays_null():
    rules = rules_of(SCHEMA, rule("message.micros == null || message.micros > timestamp(0)"))
    assert judge(rules, {**VALUE, "micros": None}) is None
    assert "failed" in judge(rules, {**VALUE, "micros": 0})


def test_fields_and_rules_within_the_schema():
    expected = (
        field_rule("value > timestamp(0) && message.at == value && typeName == 'LONG'", "T"),
        field_rule("decimals.gt(value, decimal(0)) && typeName == 'BYTES'", "D"),
    )
    assert judge(rules_of(SCHEMA, *expected), VALUE) is None
    assert judge(rules_of(SCHEMA, *expected), {**VALUE, "amount": b"\xff"}) == (
        "rule \"r\" failed at amount: decimals.gt(value, decimal(0)) && typeName == 'BYTES'"
    )
    within = {
        **SCHEMA,
        "confluent:rules": [{"expr": "this.at > timestamp(0)"}],
        "fields": [
            {**field, "confluent:rules": [{"expr": "decimals.lt(this, decimal(13))"}]}
            if field["name"] == "amount"
            else field
            for field in SCHEMA["fields"]
        ],
    }
    assert judge(rules_of(within), VALUE) is None
    assert "failed at amount" in judge(rules_of(within), {**VALUE, "amount": b"\x7f\xff"})
    assert "failed" in judge(rules_of(within), {**VALUE, "at": -1})


def test_values_that_cel_does_not_have_are_refused():
    rules = rules_of(SCHEMA, rule("message.day > 0"))
    assert judge(rules, {**VALUE, "at": 2**62}) == (
        "its rules have no result: a timestamp is not between the years 1 and 9999"
    )
    assert "a decimal is too large" in judge(rules, {**VALUE, "amount": b"\x01" * 2000})
    of_field = rules_of(SCHEMA, field_rule("value > timestamp(0)", "T"))
    assert "no result at at: a timestamp" in judge(of_field, {**VALUE, "at": 2**62})


def test_as_numbers_and_bytes():
    options = RuleOptions(logical_types=False)
    text = (
        "message.at == 1700000000123 && timestamp.of(message.at, 'millis') < now"
        " && decimals.eq(decimal(message.amount, 2), decimal('12.34'))"
    )
    rules = rules_of(SCHEMA, rule(text), options=options)
    assert judge(rules, VALUE) is None
