"""The ready-made interceptors."""

import hashlib
import hmac
import json

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import DropRecords, HashJsonFields, RedactJsonFields
from penstock.policy.testing import judge

KEY = b"0123456789abcdef"


class Redact(RedactJsonFields):
    topics = "^t"
    fields = ("card", "customer.email", "items[*].code", "[*].card")


def only(policy, value):
    [verdict] = judge(policy, [value], topic="t")
    return verdict


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"card": 4111, "n": 1}', b'{"card":"***","n":1}'),
        (b'{"customer": {"email": "a@b", "x": 1}}', b'{"customer":{"email":"***","x":1}}'),
        (b'{"items": [{"code": 1}, {}, 5, {"code": 2}]}',
         b'{"items":[{"code":"***"},{},5,{"code":"***"}]}'),
        (b'[{"card": 1}]', b'[{"card":"***"}]'),
        (b'{"c\\u0061rd": 1}', b'{"card":"***"}'),
        (b'{"card": 1, "n": 123456789012345678901234567890}',
         b'{"card":"***","n":123456789012345678901234567890}'),
        ('{"card": 1, "n": "\u00e4"}'.encode(), '{"card":"***","n":"\u00e4"}'.encode()),
        (b'{"card": 1, "n": "\\ud800"}', b'{"card":"***","n":"\\ud800"}'),
        (b'{ "other" : 1.50 }', b'{ "other" : 1.50 }'),
        (b'{"customer": "email"}', b'{"customer": "email"}'),
        (b"17", b"17"),
        (None, None),
    ],
)  # fmt: skip
def test_fields_are_replaced_and_nothing_else(value, expected):
    verdict = only(Redact, value)
    assert (verdict.outcome, verdict.value) == ("accepted", expected)


@pytest.mark.parametrize(
    "value", [b"", b"no", b'{"card": NaN}', b"\xff", b"[" * 100_000, b'{"card": 1, "n": 1e999}']
)
def test_what_nobody_can_read_does_not_pass(value):
    verdict = only(Redact, value)
    assert (verdict.outcome, verdict.value) == ("failed", None)


def test_what_is_not_json_may_be_let_through():
    class Lenient(Redact):
        pass_what_is_not_json = True

    assert only(Lenient, b"no").value == b"no"


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
    assert only(Hashed, b'{"a": null}').value == b'{"a":null}'

    class FromFile(Hashed):
        key_from = f"file:{tmp_path / 'key'}"

    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert only(FromFile, b'{"a": "x"}')[1:] == only(Hashed, b'{"a": "x"}')[1:]
    assert only(FromFile, b'{"a": "x"}').value == only(Hashed, b'{"a": "x"}').value


class Drop(DropRecords):  # settings as users write them
    topics = "^t"
    headers = {"test": None, "source": "replay"}
    fields = {"kind": {"demo", "test"}, "items[*].bad": True}


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
        (b"not JSON", "accepted"),
        (None, "accepted"),
    ],
)
def test_records_are_dropped_by_header_or_field(record, outcome):
    verdict = only(Drop, record)
    assert verdict.outcome == outcome


@pytest.mark.parametrize(
    ("base", "settings", "told"),
    [
        (RedactJsonFields, {}, "topics must be set"),
        (RedactJsonFields, {"topics": "x"}, "fields must be set"),
        (RedactJsonFields, {"topics": "x", "fields": "card"}, "must be a tuple"),
        (RedactJsonFields, {"topics": "x", "fields": ("a[1]",)}, "is no path"),
        (RedactJsonFields, {"topics": "(", "fields": ("a",)}, "interceptor_topic_pattern"),
        (HashJsonFields, {"topics": "x", "fields": ("a",)}, "env:NAME or file:PATH"),
        (HashJsonFields, {"topics": "x", "fields": ("a",), "key_from": "env:NO_SUCH"}, "16 bytes"),
        (HashJsonFields, {"topics": "x", "fields": ("a",), "key_from": "file:/no"}, "No such file"),
        (DropRecords, {"topics": "x"}, "needs a condition"),
    ],
)
def test_wrong_settings_are_told_at_start(base, settings, told):
    with pytest.raises(ConfigurationError, match=told.replace("(", r"\(")):
        only(type("Mine", (base,), settings), b"{}")
