"""The ready-made interceptors."""

import hashlib
import hmac
import json
from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError, read_configuration
from penstock.engine.chain import Chain
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.plan import Plan
from penstock.policies import DropRecords, HashJsonFields, RedactJsonFields, RedactTagged
from penstock.policy.testing import judge
from tests.engine.chains import columns

KEY = b"0123456789abcdef"
CARD = b'{"card": 1, "env": "dev"}'


class Redact(RedactJsonFields):
    topics = "^t"
    fields = ("card", "customer.email", "items[*].code", "[*].card")


def only(policy, value):
    [verdict] = judge(policy, [value], topic="t")
    return verdict


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"card": 4111, "n": 1}', b'{"card": "***", "n": 1}'),
        (b'{"customer": {"email": "a@b", "x": 1}}', b'{"customer": {"email": "***", "x": 1}}'),
        (b'{"items": [{"code": 1}, {}, 5, {"code": 2}]}',
         b'{"items": [{"code": "***"}, {}, 5, {"code": "***"}]}'),
        (b'[{"card": 1}]', b'[{"card": "***"}]'),
        (b'{"c\\u0061rd": 1}', b'{"c\\u0061rd": "***"}'),
        (b'{"card": 1, "n": 123456789012345678901234567890}',
         b'{"card": "***", "n": 123456789012345678901234567890}'),
        ('{"card": 1, "n": "\u00e4"}'.encode(), '{"card": "***", "n": "\u00e4"}'.encode()),
        (b'{"card": 1, "n": "\\ud800"}', b'{"card": "***", "n": "\\ud800"}'),
        (b'{ "other" : 1.50 }', b'{ "other" : 1.50 }'),
        (b'{"customer": "email"}', b'{"customer": "email"}'),
        (b"17", b"17"),
        (None, None),
    ],
)  # fmt: skip
def test_fields_are_replaced_and_nothing_else(value, expected):
    verdict = only(Redact, value)
    assert (verdict.outcome, verdict.value) == ("accepted", expected)


@pytest.mark.parametrize("value", [b"", b"no", b'{"card": NaN}', b"\xff", b"[" * 100_000])
def test_unreadable_values_do_not_pass(value):
    verdict = only(Redact, value)
    assert (verdict.outcome, verdict.value) == ("failed", None)


def test_values_that_are_not_json_may_pass():
    class Lenient(Redact):
        pass_invalid_json = True

    assert only(Lenient, b"no").value == b"no"
    assert only(Lenient, b'{"card": 4111').value == b'{"card": 4111'


@pytest.mark.parametrize(
    "value",
    [
        b'{"card": 4111, "n": %b1%b}' % (b"[" * 5000, b"]" * 5000),
        b'{"card": 4111, "n": NaN}',
        b'{"card": 4111, "n": [-Infinity, %b]}' % (b"9" * 5000),
        b'{"card": 4111, "n": "\xed\xa0\x80"}',
        *('{"card": 4111}'.encode(name) for name in ("utf-8-sig", "utf-16", "utf-16-be", "utf-32")),
    ],
)
def test_json_of_other_parsers_is_refused(value):
    class Lenient(Redact):
        pass_invalid_json = True

    verdict = only(Lenient, value)
    assert (verdict.outcome, verdict.value) == ("failed", None)


def test_a_keyed_hash(monkeypatch, tmp_path):
    class Hashed(HashJsonFields):
        topics = "^t"
        fields = ("a",)
        key_from = "env:HASH_KEY"

    monkeypatch.setenv("HASH_KEY", KEY.decode())
    for value, hashed in (
        (b'{"a": "x"}', b"x"),
        (b'{"a": {"c": 1, "b": [2]}}', b'{"b":[2],"c":1}'),
    ):
        expected = hmac.new(KEY, hashed, hashlib.sha256).hexdigest()
        assert json.loads(only(Hashed, value).value) == {"a": expected}
    assert only(Hashed, b'{"a": null}').value == b'{"a": null}'
    # A number that Python has not is hashed as it is written.
    for number in (b"1e999", b"-" + b"9" * 5000):
        expected = hmac.new(KEY, number, hashlib.sha256).hexdigest()
        assert json.loads(only(Hashed, b'{"a": %b}' % number).value) == {"a": expected}

    class FromFile(Hashed):
        key_from = f"file:{tmp_path / 'key'}"

    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert only(FromFile, b'{"a": "x"}')[1:] == only(Hashed, b'{"a": "x"}')[1:]
    assert only(FromFile, b'{"a": "x"}').value == only(Hashed, b'{"a": "x"}').value


class Drop(DropRecords):  # settings as users write them
    topics = "^t"
    headers = {"test": None, "source": "replay"}
    fields = {"kind": {"demo", "test"}, "items[*].bad": True, "size": 7}


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        ({"value": b"x", "headers": {"test": b"anything"}}, "dropped"),
        ({"value": b"x", "headers": {"source": b"replay"}}, "dropped"),
        ({"value": b"x", "headers": {"source": b"live"}}, "accepted"),
        (b'{"kind": "demo"}', "dropped"),
        (b'{"kind": "order"}', "accepted"),
        (b'{"items": [{"bad": false}, {"bad": true}]}', "dropped"),
        (b'{"items": [{"bad": 1}]}', "accepted"),
        (b'{"items": {"x": {"bad": true}}}', "dropped"),
        (b'{"size": 7.0}', "dropped"),
        (b'{"size": true}', "accepted"),
        (b'{"kind": "demo", "n": ' + b"9" * 5000 + b"}", "dropped"),
        (b'{"kind": "demo", "n": ' + b"[" * 5000 + b"]" * 5000 + b"}", "failed"),
        (b"not JSON", "accepted"),
        (None, "accepted"),
    ],
)
def test_records_are_dropped_by_header_or_field(record, outcome):
    verdict = only(Drop, record)
    assert verdict.outcome == outcome


@pytest.mark.parametrize(
    ("base", "settings", "message"),
    [
        (RedactJsonFields, {}, "topics must be set"),
        (RedactJsonFields, {"topics": "x"}, "fields must be set"),
        (RedactJsonFields, {"topics": "x", "fields": "card"}, "must be a tuple"),
        (RedactJsonFields, {"topics": "x", "fields": ("a[1]",)}, "is not a path"),
        (
            RedactJsonFields,
            {"topics": "x", "fields": ("a",), "replacement": float("nan")},
            "replacement must be a JSON value, not nan",
        ),
        (
            RedactJsonFields,
            {"topics": "x", "fields": ("a",), "replacement": b"x"},
            "replacement must be a JSON value, not b'x'",
        ),
        (RedactJsonFields, {"topics": "(", "fields": ("a",)}, "interceptor_topic_pattern"),
        (HashJsonFields, {"topics": "x", "fields": ("a",)}, "env:NAME or file:PATH"),
        (HashJsonFields, {"topics": "x", "fields": ("a",), "key_from": "env:NO_SUCH"}, "16 bytes"),
        (HashJsonFields, {"topics": "x", "fields": ("a",), "key_from": "file:/no"}, "No such file"),
        (DropRecords, {"topics": "x"}, "needs a condition"),
    ],
)
def test_wrong_settings_are_reported_at_start(base, settings, message):
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        only(type("Mine", (base,), settings), b"{}")


def named(tmp_path, cls, keys, value=b"{}"):
    """Let a built-in interceptor process a value under a name, with these keys."""
    lines = {
        "upstream.bootstrap.servers": "a:1",
        "policies": "one",
        "policies.one.type": cls.__name__,
        "topics.*.penstock.policies": "one",
        **{f"policies.one.{key}": text for key, text in keys.items()},
    }
    configuration = read_configuration(tmp_path / "p.properties", lines)
    plan = Plan(configuration.policies)
    policies = PolicyInstances(configuration.policies, plan.names)
    plan.set_interceptor_patterns(policies.patterns)
    of_topic = plan.for_topic("t")
    if of_topic is None:  # its pattern is not found in the name
        return None
    found = Chain(of_topic, policies).judge_each(0, UUID(int=1), columns(value))
    outcomes = [verdict.outcome.value for _, verdict in found.verdicts]
    return outcomes[0] if outcomes else found.replaced and found.replaced[1][0]


@pytest.mark.parametrize(
    ("cls", "keys", "expected"),
    [
        (RedactJsonFields, {"fields": "card, a.b"}, b'{"card": "***", "env": "dev"}'),
        (RedactJsonFields, {"fields": "card", "replacement": "0"}, b'{"card": 0, "env": "dev"}'),
        (RedactJsonFields, {"fields": "card", "topics": "other"}, None),
        (HashJsonFields, {"fields": "no", "key.from": "env:HASH_KEY"}, CARD),
        (DropRecords, {"fields": "env=dev"}, "dropped"),
        (DropRecords, {"fields": "card=1"}, "dropped"),
        (DropRecords, {"fields": "*=dev"}, "dropped"),
        (RedactJsonFields, {"fields": "['a,b'],*"}, b'{"card": "***", "env": "***"}'),
        (DropRecords, {"fields": "card=true", "headers": "test,env=dev"}, CARD),
    ],
)
def test_under_a_name_settings_are_keys(tmp_path, monkeypatch, cls, keys, expected):
    monkeypatch.setenv("HASH_KEY", KEY.decode())
    found = named(tmp_path, cls, keys, CARD)

    assert found == expected


@pytest.mark.parametrize(
    ("cls", "keys", "message"),
    [
        (RedactJsonFields, {}, "fields must be set"),
        (RedactJsonFields, {"fields": "a[1]"}, "is not a path"),
        (RedactJsonFields, {"fields": "card*"}, r"has \* only as a whole name"),
        (RedactJsonFields, {"fields": "a", "replacement": "NaN"}, "must be a JSON value, not nan"),
        (RedactJsonFields, {"fields": "a", "replacement": "1e999"}, "a JSON value, not inf"),
        (DropRecords, {"fields": "a..b=1"}, r"has no \.\."),
        (RedactJsonFields, {"field": "a"}, r"did you mean policies\.one\.fields\?"),
        (RedactJsonFields, {"fields": "a", "pass.invalid.json": "x"}, "must be one of true"),
        (HashJsonFields, {"fields": "a"}, "env:NAME or file:PATH"),
        (HashJsonFields, {"fields": "a", "replacement": "x"}, None),
        (DropRecords, {}, "needs a condition"),
        (DropRecords, {"fields": "a=-Infinity"}, "that JSON has; there is a=-Infinity"),
        (DropRecords, {"fields": "a"}, "path=value, each path once"),
        (DropRecords, {"headers": "a,a=1"}, "each name once"),
        (RedactTagged, {"tags": "PII"}, "registry must be set"),
        (RedactTagged, {"tags": "PII", "schema.registry.url": "x"}, r"schema\.registry\.url"),
    ],
)
def test_wrong_keys_are_reported_at_start(tmp_path, cls, keys, message):
    if message is None:
        configuration = read_configuration(
            tmp_path / "p.properties",
            {"upstream.bootstrap.servers": "a:1", "policies": "one"}
            | {"policies.one.type": cls.__name__}
            | {f"policies.one.{key}": text for key, text in keys.items()},
        )
        assert "policies.one.replacement is unknown" in configuration.warnings[0]
        return
    with pytest.raises(ConfigurationError, match=message):
        named(tmp_path, cls, keys)


def test_a_derived_class_has_attributes_and_keys():
    made = Redact()
    made.configure({"replacement": "gone", "other": "x"})
    assert (made.topics, made.fields[0], made.replacement) == ("^t", "card", "gone")
    assert Redact.replacement == "***"
