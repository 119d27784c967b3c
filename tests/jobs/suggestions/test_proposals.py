"""What a sample of records suggests, and what is written of it."""

import json
import math
import operator
import random
import re
from io import StringIO

import javaproperties
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from penstock.configuration.properties import load_properties, resolve_variables
from penstock.jobs.suggestions.conditions import conditions_of
from penstock.jobs.suggestions.profile import Profile
from penstock.jobs.suggestions.proposals import propose
from penstock.jobs.suggestions.writing import properties, table
from penstock.policies import HeaderRequired, JsonSchema, Rules
from penstock.policy import Header, Record
from penstock.policy.testing import judge

COMPARED = {">=": operator.ge, ">": operator.gt, "<=": operator.le}


def record(value, key=b"k", headers=()):
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    return Record(0, key, data, tuple(Header(name, b"x") for name in headers))


def orders(count=1000, seed=1):
    chance = random.Random(seed)
    for number in range(count):
        yield {
            "id": f"{number:08x}-0000-4000-8000-000000000000",
            "amount": round(chance.uniform(0.5, 900), 2),
            "currency": chance.choice(["EUR", "USD"]),
            "customer": {"age": chance.choice([None, 30, 40]), "name": f"n{number}"},
            "lines": [{"sku": f"s{number}"}],
            "in": chance.randint(-5, 5),
            **({"discount": chance.random()} if chance.random() < 0.5 else {}),
        }


def refused(found):
    return {
        (proposal.policy, *proposal.keys): proposal.refused_count for proposal in found.proposals
    }


def test_records_without_mistakes_are_not_refused():
    given = [record(order, headers=["trace"]) for order in orders()]
    found = propose("orders", given, 0.01)
    assert set(refused(found).values()) == {0}
    assert set(refused(found)) == {
        ("JsonSchema",),
        ("Rules", "rules.amount"),
        ("Rules", "rules.currency"),
        ("Rules", "rules.customer_age"),
        ("Rules", "rules.discount"),
        ("KeyRequired",),
        ("HeaderRequired", "headers"),
    }
    schema = found.schema
    assert schema["required"] == ["id", "amount", "currency", "customer", "lines", "in"]
    assert schema["properties"]["id"]["format"] == "uuid"
    assert schema["properties"]["amount"] == {"type": "number"}
    assert schema["properties"]["customer"]["properties"]["age"] == {"type": ["integer", "null"]}
    assert schema["properties"]["lines"]["items"]["required"] == ["sku"]
    expressions = {
        name: text for proposal in found.proposals for name, text in proposal.keys.items()
    }
    assert expressions["rules.amount"] == "value.amount > 0 && value.amount <= 2000"
    assert expressions["rules.currency"] == 'value.currency in ["EUR", "USD"]'
    assert expressions["rules.customer_age"] == (
        "value.customer.age == null || value.customer.age > 0 && value.customer.age <= 80"
    )
    assert expressions["rules.discount"].startswith("!has(value.discount) || value.discount > 0")


def test_each_says_how_many_mistakes_it_would_refuse():
    given = [record(order) for order in orders()]
    mistakes = [
        record({**next(orders(1)), "amount": "x"}),
        record({**next(orders(1)), "amount": -1e12}),
        record({**next(orders(1)), "currency": "eur"}),
        record({name: value for name, value in next(orders(1)).items() if name != "currency"}),
        record(b"junk"),
        record(next(orders(1)), key=None),
    ]
    found = refused(propose("orders", given + mistakes, 0.01))
    assert found["JsonSchema",] == 3  # "x", no currency, junk
    assert found["Rules", "rules.amount"] == 3  # "x", -1e12, junk
    assert found["Rules", "rules.currency"] == 2  # eur, junk; the rule has has()
    assert found["KeyRequired",] == 1


def test_values_that_are_not_json_get_no_schema():
    found = propose("t", [record(b"\0\0\0\0\1x")] * 100, 0.01)
    assert found.schema is None
    assert [proposal.policy for proposal in found.proposals] == ["KeyRequired"]
    assert "SchemaPolicy" in found.notes[0]
    found = propose("t", [record(b"text")] * 80 + [record({"a": 1})] * 20, 0.01)
    assert found.notes == ["20.0% of the values are JSON objects: nothing is proposed for values"]


def test_few_records_get_few_proposals():
    found = propose("t", [record({"a": "x", "b": 1})] * 3, 0.01)
    assert [proposal.policy for proposal in found.proposals] == ["JsonSchema", "KeyRequired"]
    found = propose("t", [record(None, key=None)] * 3, 0.01)
    assert (found.proposals, found.schema) == ([], None)
    assert "  nothing is proposed" in list(table(found))
    assert list(properties(found)) == []


@pytest.mark.parametrize(
    "value",
    [
        {str(number): 1 for number in range(1000)},
        {"a": [[[[1]]]], "b": {"c d": 1, "in": 2, "\0": 3, "ä": 4}},
        {"a": 2**70, "b": -0.0, "c": 1e-300},
        {"a": "x" * 10_000},
    ],
)
def test_strange_values(value):
    found = propose("t", [record(value)] * 100, 0.01)
    assert set(refused(found).values()) == {0}


@pytest.mark.parametrize(
    "numbers",
    [(0, 1e308), (-1e308, 1e308), (5e-324, 1e-310), (0, 1.7976931348623157e308), (2**63, -(2**64))],
)
def test_numbers_at_the_edges_are_not_refused(numbers):
    found = propose("t", [record({"a": number}) for number in numbers] * 50, 0.01)
    assert set(refused(found).values()) == {0}


@pytest.mark.parametrize("name", ["", " a", "a,b", "\n", "\b", "${env:HOME}"])
def test_headers_whose_names_no_list_can_have_are_not_proposed(name):
    found = propose("t", [record({"a": 1}, headers=[name, "trace"])] * 50, 0.01)
    (proposed,) = (own.keys for own in found.proposals if own.policy == "HeaderRequired")
    assert proposed == {"headers": "trace"}


EDGES = [0, -0.0, 1e308, -1e308, 5e-324, -5e-324, 2**63, -(2**63), 2**64 - 1, 0.1, 1, 1e-300]
NUMBERS = st.one_of(
    st.sampled_from(EDGES), st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip


@settings(max_examples=1000, deadline=None)
@drawn(st.lists(NUMBERS, min_size=1, max_size=4))
def test_a_range_has_all_numbers_that_it_is_made_of(numbers):
    profile = Profile()
    for number in numbers * 50:
        profile.add({"a": number})
    for condition in conditions_of(profile, 0.0):
        for sign, limit in re.findall(r"value\.a (>=|>|<=) (\S+)", condition.expression):
            assert limit == "0" or math.isfinite(float(limit))
            assert all(COMPARED[sign](number, float(limit)) for number in numbers)


TEXTS = st.sampled_from(
    ["", "\0", '"', "\\", "\u2028", "\x7f", "😀", "ä", "\n", "'", "`", "x" * 50]
)
NAMES = st.sampled_from(["a", "in", "a b", "", "$ref", "_", "__proto__", "has", "x.y", "int", "ä"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)
BYTES = st.sampled_from(
    [None, b"", b"\xff", b"[", b"null", b"[" * 2000, b'{"a":1e400}', b"\0\0\0\0\1"]
)


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None)
@drawn(
    st.lists(st.one_of(st.dictionaries(NAMES, VALUES, max_size=3), BYTES), min_size=1, max_size=3),
    st.lists(st.sampled_from(["", " ", "a", "a,b", "\n", "ä", "\0"]), max_size=2),
)
def test_any_records_have_proposals(values, headers):
    given = [record(value, headers=headers) for value in values]
    found = propose("o.a_b-c", given * 60, 0.01)
    assert {own.policy for own in found.proposals} >= {"KeyRequired"}
    lines = "\n".join(properties(found))
    assert json.loads(json.dumps(found.schema)) == found.schema
    keys = javaproperties.load(StringIO(lines))
    for proposal in found.proposals:
        for key, value in proposal.keys.items():
            assert value in [keys[name] for name in keys if name.endswith(f".{key}")]


def test_the_keys_match_the_proposals(tmp_path):
    given = [record({**order, 'q"\\': 1}, headers=["ä=x"]) for order in orders()]
    found = propose("my orders", given, 0.01)
    keys = javaproperties.load(StringIO("\n".join(properties(found))))
    assert keys["topics.my orders.penstock.mode"] == "observe"
    names = keys["policies"].split(",")
    assert names == ["my_orders-schema", "my_orders-rules", "my_orders-key", "my_orders-headers"]
    assert keys["topics.my orders.penstock.policies"].split(",") == names

    def own(name):
        prefix = f"policies.{name}."
        return {key.removeprefix(prefix): value for key, value in keys.items() if prefix in key}

    written = tmp_path / own(names[0])["schema"]
    written.write_text(json.dumps(found.schema))
    for cls, name in ((Rules, names[1]), (HeaderRequired, names[3])):
        configs = own(name)
        assert configs.pop("type") == f"penstock.policies.{cls.__name__}"
        verdicts = judge(cls, given[:50], topic="t", configs=configs)
        assert {verdict.outcome for verdict in verdicts} == {"accepted"}
    policy = JsonSchema()
    policy.use_folder(tmp_path)
    policy.configure(own(names[0]))


def test_texts_that_look_like_variables_are_themselves(tmp_path):
    texts = ["${env:HOME}", "${amount}", "$5", "{}"]
    given = [record({"price": texts[n % 4]}) for n in range(400)]
    file = tmp_path / "suggested.properties"
    lines = properties(propose("t", given, 0.05))
    file.write_text("\n".join(["upstream.bootstrap.servers=127.0.0.1:1", *lines]))
    values = resolve_variables(file, load_properties(file, file)[0])
    configs = {key.split(".", 2)[2]: values[key] for key in values if key.endswith("rules.price")}
    verdicts = judge(Rules, [*given[:4], record({"price": "/root"})], topic="t", configs=configs)
    assert [each.outcome for each in verdicts] == ["accepted"] * 4 + ["refused"]


def test_only_enumerations_contain_values_of_records():
    given = [record({"name": f"SECRET{n}", "few": "SECRET" if n < 2 else "b"}) for n in range(100)]
    found = propose("t", given, 0.05)
    assert "SECRET" not in "\n".join([*table(found), *properties(found), json.dumps(found.schema)])
