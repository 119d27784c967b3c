"""The examples; of those that judge columns `judge` compares each with itself, record by record."""

import importlib.util
import re
import struct
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policy.testing import judge

EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"
GUIDE = Path(__file__).parents[2] / "docs" / "policies.md"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Readings = example("readings").Readings
KnownSchemas = example("known_schemas").KnownSchemas
NoCardNumbers = example("card_numbers").NoCardNumbers


def messages(policy, values, setting=""):
    return [verdict.message for verdict in judge(policy, values, validation_policy=setting)]


def reading(sensor, measured):
    return struct.pack(">qd", sensor, measured)


def test_readings():
    given = [
        reading(1, 20.5), reading(2, 85.1), b"short", None, reading(3, float("nan")),
        reading(-4, -40.0), reading(5, float("-inf")),
    ]  # fmt: skip
    assert messages(Readings, given, "-40..85") == [
        None, "sensor 2 is outside of -40..85", "a reading has 16 bytes", "a reading has 16 bytes",
        "sensor 3 is outside of -40..85", None, "sensor 5 is outside of -40..85",
    ]  # fmt: skip


readings = st.builds(reading, st.integers(-(2**63), 2**63 - 1), st.floats())


@pytest.mark.thorough
@settings(max_examples=60)
@given(st.lists(st.none() | st.binary(max_size=17) | readings, max_size=6))
def test_any_readings(values):
    assert len(judge(Readings, values, validation_policy="-1e10..1e10")) == len(values)


def test_known_schemas():
    refusal = "the value does not begin with the id of a known schema"
    given = [b"\0\0\0\0\7{}", b"\0\0\0\0\7", b"\0\0\0\0\6{}", b"{}", b"", None, b"\1\0\0\0\7"]
    assert messages(KnownSchemas, given, "7,8") == [
        None, None, refusal, refusal, refusal, None, refusal
    ]  # fmt: skip
    assert messages(KnownSchemas, [b"\0\1\0\0\0"], f"{2**24}") == [None]


@pytest.mark.thorough
@settings(max_examples=60)
@given(st.lists(st.none() | st.binary(max_size=6) | st.just(b"\0\0\0\0\7x"), max_size=6))
def test_any_values(values):
    assert len(judge(KnownSchemas, values, validation_policy="7,8")) == len(values)


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (b'{"card": "4111 1111 1111 1111"}', True),
        (b"4111111111111111", True),
        (b"4111-1111-1111-1111!", True),
        (b"4111111111111112", False),
        (b"41111111111111110000000", False),
        (b"4111111111111", False),
        (b"4222222222222", True),
        (b"id 1234567890123", False),
        (b"", False),
        (None, False),
    ],
)
def test_card_numbers(value, refused):
    verdicts = judge(NoCardNumbers, [b"before", value, b"after"])
    expected = ["accepted", "refused" if refused else "accepted", "accepted"]
    assert [verdict.outcome for verdict in verdicts] == expected


@pytest.mark.thorough
@settings(max_examples=60)
@given(st.lists(st.text("41 -x", max_size=22).map(str.encode), max_size=6))
def test_any_digits(values):
    """Digits at the end of one value and at the beginning of the next are not one number."""
    assert len(judge(NoCardNumbers, values)) == len(values)


def test_tenants_write_their_own_records_only():
    own = {"value": b"v", "headers": [("tenant", b"shop-7")]}
    twice = {"value": b"v", "headers": [("tenant", b"shop-7"), ("tenant", b"shop-8")]}
    records = [own, {"value": b"v", "headers": [("tenant", b"shop-8")]}, twice, {"value": b"v"}]
    policy = example("tenants").OwnTenant

    verdicts = judge(policy, records, validation_policy="tenant", principal="User:shop-7")
    assert [verdict.outcome for verdict in verdicts] == [
        "accepted",
        "refused",
        "refused",
        "refused",
    ]
    nobody = judge(policy, records, validation_policy="tenant", client_id="shop-7")
    assert {verdict.message for verdict in nobody} == {"test needs a login"}


def test_the_tenants_of_the_guide_keep_to_their_own_records():
    """The example of docs/policies.md, as it stands there."""
    [code] = re.findall(r"```python\n(.*?class OwnTenant.*?)```", GUIDE.read_text(), re.DOTALL)
    code = code.rpartition("```python\n")[2]
    space: dict = {"__name__": "guide"}
    exec(compile(code, "docs/policies.md", "exec"), space)
    policy = space["OwnTenant"]
    own = [("tenant", b"shop-7")]
    headers = [own, [*own, ("tenant", b"shop-8")], [("tenant", b"")], [("tenant", None)], []]
    records = [{"value": b"v", "headers": header} for header in headers]

    verdicts = judge(policy, records, principal="User:shop-7")
    assert [verdict.outcome for verdict in verdicts] == ["accepted", *["refused"] * 4]
    assert {verdict.outcome for verdict in judge(policy, records, client_id="shop-7")} == {
        "refused"
    }
