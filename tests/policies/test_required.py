"""`Required`: which fields of JSON values have to be there."""

import json
import random
from collections import Counter

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import Required
from penstock.policies.json_paths import EVERY, parse
from penstock.policy import RecordIntrospectionHints
from penstock.policy.testing import judge

FIELDS = {"fields": "id,customer.email,lines[*].sku"}


def texts(values, configs=FIELDS):
    return [verdict.message for verdict in judge(Required, values, topic="t", configs=configs)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b'{"id":1,"customer":{"email":"a"},"lines":[]}', None),
        (b'{"id":1,"customer":{"email":"a"},"lines":[{"sku":"x"},{"sku":0}]}', None),
        (None, None),
        (b'{"customer":{"email":"a"},"lines":[]}', "field id of the value is missing"),
        (b'{"id":null,"customer":{"email":"a"},"lines":[]}', "field id of the value is null"),
        (b'{"id":1,"customer":{},"lines":[]}', "field customer.email of the value is missing"),
        (b'{"id":1,"customer":"SECRET","lines":[]}', "field customer.email of the value is missing"),
        (b'{"id":1,"customer":{"email":"a"},"lines":{}}', None),
        (b'{"id":1,"customer":{"email":"a"},"lines":{"x":{"sku":1}}}', None),
        (b'{"id":1,"customer":{"email":"a"},"lines":{"x":{"sku":1},"y":{}}}',
         "field lines[*].sku of the value is missing"),
        (b'{"id":1,"customer":{"email":"a"},"lines":1}',
         "field lines[*].sku of the value is missing"),
        (b'{"id":1,"customer":{"email":"a"},"lines":[{"sku":1},{}]}',
         "field lines[*].sku of the value is missing"),
        (b"[]", "field id of the value is missing"),
        (b"SECRET", "the value is not JSON"),
        (b"\xff", "the value is not JSON, which is UTF-8"),
    ],
)  # fmt: skip
def test_fields_have_to_be_there(value, message):
    [found] = texts([value])
    assert found == message


def test_the_first_field_of_the_list_is_named():
    assert texts([b"{}"], {"fields": "b,a"}) == ["field b of the value is missing"]


def test_null_may_be_accepted_and_tombstones_refused():
    configs = {"fields": "a.b", "null.fields": "accept", "null.values": "refuse"}
    assert texts([b'{"a":{"b":null}}', b'{"a":null}', None], configs) == [
        None,
        "field a.b of the value is missing",
        "the value is null",
    ]


def test_a_path_may_lead_on_from_another():
    for fields in ("a,a.b", "a.b,a"):
        assert texts([b'{"a":{"b":1}}', b'{"a":null}', b'{"a":1}'], {"fields": fields})[0] is None
        assert None not in texts([b'{"a":null}', b'{"a":1}', b"{}"], {"fields": fields})


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, "fields must list names, like fields=id,customer.email, not nothing"),
        ({"fields": "a,,b"}, "fields must list names"),
        ({"fields": "a[0]"}, "fields: 'a[0]' is not a path"),
        ({"fields": "a.b*"}, "has * only as a whole name"),
        ({"fields": ".".join("a" * 101)}, "fields: a path has more than 100 steps"),
        ({"fields": ",".join(map(str, range(1001)))}, "fields lists 1001 paths; there may be 1000"),
        ({"fields": "a", "null.fields": "x"}, "null.fields must be one of accept, refuse, not x"),
        ({"fields": "a", "null.values": ""}, "null.values must be one of"),
    ],
)
def test_wrong_settings(configs, message):
    with pytest.raises(ConfigurationError) as raised:
        judge(Required, [b"{}"], topic="t", configs=configs)
    assert message in str(raised.value)


def test_only_values_are_looked_at():
    policy = Required()
    policy.configure({"fields": "a"})
    assert policy.get_hints() == RecordIntrospectionHints(False, 0, policy.get_hints()[2])


def test_messages_and_verdicts_agree_with_the_paths():
    """What a path leads to has to be there: another reading of the same paths."""
    random_ = random.Random(52)
    paths = ["a", "a.b", "a[*]", "a.*.b", "*", "*.a", "*.*", "['*']", "b.a.*", "*.a.*.b"]
    counts = Counter()
    for _ in range(300):
        some = random_.sample(paths, random_.randrange(1, 4))
        values = [document(random_) for _ in range(10)]
        found = texts([json.dumps(value).encode() for value in values], {"fields": ",".join(some)})
        for value, text in zip(values, found, strict=True):
            assert (text is None) == all(is_there(value, parse(path)) for path in some), (
                value,
                some,
            )
            counts[text is None] += 1
    assert min(counts.values()) > 200


def document(random_, depth=0):
    kind = random_.randrange(1 if depth == 4 else 6)
    if kind in {1, 2, 3}:
        return {
            name: document(random_, depth + 1) for name in random_.sample(["a", "b", "*"], kind)
        }
    if kind == 4:
        return [document(random_, depth + 1) for _ in range(random_.randrange(3))]
    return random_.choice([1, "x", True, {}, []] * 3 + [None])


def is_there(value, path):
    if not path:
        return value is not None
    if path[0] is EVERY and isinstance(value, (dict, list)):
        inner = list(value.values()) if isinstance(value, dict) else value
        return all(is_there(each, path[1:]) for each in inner)
    return isinstance(value, dict) and path[0] in value and is_there(value[path[0]], path[1:])


def test_a_hundred_wildcards_are_a_small_schema():
    deep = ".".join("*" * 100)
    assert texts([b"[1]", b"[" * 100 + b"]" * 100, b"[" * 100 + b"1" + b"]" * 100],
                 {"fields": f"{deep},a{'.*' * 99}"}) == [
        f"field {deep} of the value is missing",
        f"field a{'.*' * 99} of the value is missing",
        f"field a{'.*' * 99} of the value is missing",
    ]  # fmt: skip
