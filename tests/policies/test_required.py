"""`Required`: which fields of JSON values have to be there."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import Required
from penstock.policies.json_paths import EVERY, find, parse
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
        (b'{"id":1,"customer":{"email":"a"},"lines":{}}', "field lines[*].sku of the value is missing"),
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
        ({"fields": "a.b,a[*]"}, "one path has names where another has [*]"),
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
    """What `find` sees at a path has to be there: another reading of the same paths."""
    import itertools
    import json

    leaves = [None, 1, "x", [], {}, [None], [{}], {"b": None}, {"b": 1}, [{"b": 1}], [{"b": None}]]
    values = [{}, *({"a": leaf} for leaf in leaves)]
    for path in ("a", "a.b", "a[*]", "a[*].b"):
        found = texts([json.dumps(value).encode() for value in values], {"fields": path})
        for value, text in itertools.zip_longest(values, found):
            assert (text is None) == is_there(value, parse(path)), (path, value, text)


def is_there(value, path):
    if EVERY not in path:
        return any(item is not None for item in find(value, path))
    before, rest = path[: path.index(EVERY)], path[path.index(EVERY) + 1 :]
    arrays = [item for item in find(value, before) if isinstance(item, list)]
    return bool(arrays) and all(
        any(found_item is not None for found_item in find(item, rest))
        for array in arrays
        for item in array
    )
