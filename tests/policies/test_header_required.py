"""`HeaderRequired`: the headers of a record, and their values."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import HeaderRequired
from penstock.policy.testing import judge

CONFIGS = {"headers": "trace-id, tenant", "headers.tenant.pattern": "^[a-z]{2,5}$"}


def text(headers, configs=CONFIGS):
    [verdict] = judge(HeaderRequired, [{"headers": headers}], topic="t", configs=configs)
    return verdict.message


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"trace-id": b"", "tenant": b"shop"}, None),
        ({"trace-id": None, "tenant": b"shop", "other": b"x"}, None),
        ([("tenant", b"NO"), ("trace-id", b""), ("tenant", b"shop")], None),
        ([("tenant", b"shop"), ("trace-id", b""), ("tenant", b"NO")],
         "header tenant does not match ^[a-z]{2,5}$"),
        ({"tenant": b"shop"}, "header trace-id is missing"),
        ({"trace-id": b""}, "header tenant is missing"),
        ({"trace-id": b"", "tenant": None}, "header tenant has no value"),
        ({"trace-id": b"", "tenant": b"shop\n"}, "header tenant does not match ^[a-z]{2,5}$"),
        ({"trace-id": b"", "tenant": b"\xff"}, "header tenant does not match ^[a-z]{2,5}$"),
        ({}, "header trace-id is missing"),
    ],
)  # fmt: skip
def test_headers_have_to_be_there(headers, message):
    assert text(headers) == message


def test_a_pattern_is_searched_unless_it_is_anchored():
    configs = {"headers": "a", "headers.a.pattern": "b+"}
    assert text({"a": b"abbc"}, configs) is None
    assert text({"a": b"ac"}, configs) == "header a does not match b+"


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "headers must list names, like headers=trace-id,tenant, not nothing"),
        ({"headers": "a", "headers.b.pattern": "x"}, "headers.b.pattern is unknown"),
        ({"headers": "a", "headers.a.patern": "x"}, "headers.a.patern is unknown"),
        ({"headers": "a", "headers.a.pattern": "(?=x)"}, "headers.a.pattern must be a regular"),
        ({"headers": "a", "headers.a.pattern": "("}, "headers.a.pattern must be a regular"),
    ],
)
def test_wrong_settings(configs, message):
    with pytest.raises(ConfigurationError) as raised:
        text({}, configs)
    assert message in str(raised.value)


def test_a_pattern_takes_no_longer_than_the_text_is_long():
    configs = {"headers": "a", "headers.a.pattern": "^(a+)+$"}  # without an end, if it backtracked
    assert text({"a": b"a" * 100_000 + b"!"}, configs) is not None


@pytest.mark.parametrize(
    "text",
    [
        "trace-id; tenant",
        '"trace-id","tenant"',
        '["trace-id", "tenant"]',
        "'trace-id'",
        "trace-id,#  tenant",
        "{trace-id,tenant}",
    ],
)
def test_another_kind_of_list_is_an_error(text):
    with pytest.raises(ValueError, match="must list names without quotes and brackets"):
        HeaderRequired().configure({"headers": text})
