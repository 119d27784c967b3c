"""`DataContract`: values judged by contracts of ODCS."""

import json
import random
import re
from pathlib import Path
from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import DataContract
from penstock.policy import (
    RecordProxy,
    TopicIdPartition,
    TopicMetadata,
    UndecidableException,
)
from penstock.policy.testing import judge
from tests.policies.data_contract.records import GOOD, records

HERE = Path(__file__).parent
VERDICTS = json.loads((HERE / "verdicts.json").read_text())


def texts(contract, values, topic="t", **configs):
    path = contract if isinstance(contract, Path) else HERE / "contracts" / contract
    configs = {"contract": str(path), **{key.replace("_", "."): v for key, v in configs.items()}}
    return [
        verdict.message for verdict in judge(DataContract, values, topic=topic, configs=configs)
    ]


@pytest.mark.parametrize(("contract", "name"), list(GOOD))
def test_verdicts_are_those_of_datacontract_cli(contract, name):
    """Compared with the output of `run_datacontract_cli.py`."""
    given = records(GOOD[contract, name])
    found = texts(contract, [json.dumps(value).encode() for value in given], object=name)
    expected = VERDICTS[f"{contract} {name}"]
    assert found[0] is None
    assert any(found)
    for record, text, failed in zip(given, found, expected, strict=True):
        assert (text is None) == (failed == []), (record, text, failed)


@pytest.fixture
def written(tmp_path):
    def write(properties, **more):
        document = {
            "apiVersion": "v3.1.0",
            "kind": "DataContract",
            "id": "c",
            "status": "active",
            "name": "c",
            "version": "1.0.0",
            "schema": [{"name": "o", "properties": properties, **more}],
        }
        (tmp_path / "c.odcs.yaml").write_text(json.dumps(document))  # JSON is YAML
        return tmp_path / "c.odcs.yaml"

    return write


def of_one(written, value, **prop):
    path = written([{"name": "a", **prop}])
    [found] = texts(path, [json.dumps({"a": value}).encode()])
    return None if found is None else found.removeprefix("contract c 1.0.0, o: the value ")


@pytest.mark.parametrize(
    ("prop", "good", "bad", "message"),
    [
        ({"logicalType": "date"}, "2024-02-29", "2023-02-29", "at /a must be a date, like 2024-07-10"),
        ({"logicalType": "date"}, "2000-12-31", "2024-04-31", "at /a must be a date, like 2024-07-10"),
        ({"logicalType": "date"}, None, "1900-02-29", "at /a must be a date, like 2024-07-10"),
        ({"logicalType": "time"}, "23:59:59.5", "24:00:00", "at /a must be a time, like 08:30:00"),
        ({"logicalType": "timestamp"}, "2024-03-10t14:22:35.1+10:00", "2024-03-10T14:22:35",
         "at /a must be a timestamp with its distance from UTC, like 2024-03-10T14:22:35Z"),
        ({"logicalType": "timestamp", "logicalTypeOptions": {"timezone": False}},
         "2024-03-10T14:22:35", "2024-03-10", "at /a must be a timestamp, like 2024-03-10T14:22:35"),
        ({"logicalType": "timestamp", "logicalTypeOptions": {"format": "yyyy-MM-dd HH:mm:ss"}},
         "2024-03-10 14:22:35", "2024-03-10T14:22:35",
         "at /a must be a timestamp of the form yyyy-MM-dd HH:mm:ss"),
        ({"logicalType": "date", "logicalTypeOptions": {"format": "dd.MM.yyyy 'Uhr'"}},
         "10.03.2024 Uhr", "10x03.2024 Uhr", "at /a must be a date of the form dd.MM.yyyy 'Uhr'"),
        ({"logicalType": "string", "logicalTypeOptions": {"format": "uuid"}},
         "123e4567-e89b-12d3-a456-426614174000", "123e4567", "at /a must be a UUID"),
        ({"logicalType": "string", "logicalTypeOptions": {"format": "email"}},
         "a@example.com", "a", 'at /a must be of format "email"'),
        ({"logicalType": "integer", "logicalTypeOptions": {"format": "u8"}}, 255, 256,
         "at /a must be at most 255"),
        ({"logicalType": "integer", "logicalTypeOptions": {"format": "i8", "minimum": 0}}, 127, -1,
         "at /a must be at least 0"),
        ({"logicalType": "number", "logicalTypeOptions": {"multipleOf": 5}}, 10, 12,
         "at /a must be a multiple of 5"),
        ({"logicalType": "array", "logicalTypeOptions": {"minItems": 1, "uniqueItems": True}},
         [1, 2], [1, 1], "at /a has the same item twice"),
        ({"logicalType": "array", "items": {"logicalType": "array", "items": {"logicalType": "string"}}},
         [["x"], [], None], [[1]], "at /a/0/0 must be of type null or string"),
        ({"logicalType": "object", "logicalTypeOptions": {"required": ["x"], "maxProperties": 1}},
         {"x": 1}, {"y": 1}, 'at /a lacks the property "x"'),
        ({"logicalType": "map", "map": {"key": {"name": "k"}, "value": {"name": "v", "logicalType": "integer"}}}, {"x": 1}, {"x": "y"},
         None),
        ({"logicalType": "vector", "logicalTypeOptions": {"dimensions": 2}}, [1, 0.5], [1],
         "at /a has fewer items than 2"),
        ({"logicalType": "vector", "logicalTypeOptions": {"dimensions": 1, "elementType": "int8"}},
         [-128], [0.5], "at /a/0 must be of type integer"),
        ({"logicalType": "vector", "logicalTypeOptions": {"dimensions": 1, "elementType": "uint8"}},
         [255], [256], "at /a/0 must be at most 255"),
        ({"enum": [{"value": "x"}, {"value": 2}]}, 2, "SECRET", None),
        ({"logicalType": "string", "required": True, "enum": [{"value": "x"}]}, "x", None, None),
        ({"required": True}, 0, None, None),
        ({"primaryKey": True}, 0, None, None),
        ({"customProperties": [{"property": "enum", "value": '["x"]'}]}, "x", "y", None),
        ({"quality": [{"rule": "nullValues", "type": "library", "mustBe": 0}]}, 0, None, None),
        ({"quality": [{"metric": "invalidValues", "mustBeLessThan": 1,
                       "arguments": {"validValues": ["x"]}}]}, None, "y", None),
        ({"quality": [{"metric": "invalidValues", "mustBeLessOrEqualTo": 0,
                       "arguments": {"pattern": "^x$"}}]}, "x", "y", None),
        ({"quality": [{"metric": "missingValues", "mustBeLessOrEqualTo": 0,
                       "arguments": {"missingValues": ["-"]}}]}, "x", "-", None),
    ],
)  # fmt: skip
def test_the_types_of_properties(written, prop, good, bad, message):
    assert of_one(written, good, **prop) is None
    found = of_one(written, bad, **prop)
    assert found is not None
    assert message is None or found == message
    assert "SECRET" not in found


def test_texts_that_are_no_json_and_tombstones():
    assert texts("inventory.odcs.yaml", [b"SECRET", None]) == [
        "contract Inventory Events 0.0.1, inventory: the value is not JSON",
        None,
    ]
    assert texts("inventory.odcs.yaml", [None], null_values="refuse") == [
        "contract Inventory Events 0.0.1, inventory: the value is null"
    ]


def loaded(contract, **configs):
    policy = DataContract()
    policy.configure({"contract": str(HERE / "contracts" / contract), **configs})
    return policy


def test_the_object_of_a_topic():
    orders = b'{"line_item_id":"1","order_id":"1","sku":"s","quantity":1}'
    assert texts("orders.odcs.yaml", [orders], topic="line_items") == [None]
    assert texts("orders.odcs.yaml", [orders], topic="orders")[0] is not None
    assert texts("orders.odcs.yaml", [orders], topic="x", object="line_items") == [None]
    assert texts("inventory.odcs.yaml", [b"{}"], topic="anything") == [None]
    policy = loaded("orders.odcs.yaml")
    expected = "the contract Orders 1.0.0 has no object for topic other; it has orders, line_items"
    with pytest.raises(ValueError, match=expected):
        policy.prepare_topic("other", {})
    topic = TopicMetadata(TopicIdPartition(UUID(int=1), "other", 0), "")
    with pytest.raises(UndecidableException, match=expected):
        policy.validate(topic, RecordProxy((), None, b"{}"))


def test_rules_that_are_not_judged_are_named():
    found = list(map(str, loaded("orders.odcs.yaml").not_judged("orders")))
    assert found == [
        "orders.order_id: unique: it is about the data set",
        "orders.order_total: sql: a rule of type sql is not judged",
        "orders: primaryKey order_id: that it is unique is about the data set",
        "orders: sql: a rule of type sql is not judged",
        "orders.order_timestamp: retention: a promise about the data set",
        "orders.order_timestamp: freshness: a promise about the data set",
    ]
    assert [str(rule) for rule in loaded("inventory.odcs.yaml").not_judged("t")] == [
        "inventory: rowCount: rowCount is about the data set"
    ]


def test_rules_that_are_not_judged_are_a_warning_and_in_check():
    policy = loaded("inventory.odcs.yaml")
    assert list(policy.describe_topic("t", {})) == [
        "contract Inventory Events 0.0.1, inventory",
        "  not judged: inventory: rowCount: rowCount is about the data set",
    ]
    assert policy.warnings == [
        (
            "contract: Inventory Events 0.0.1: not judged on the wire: "
            "inventory: rowCount: rowCount is about the data set"
        )
    ]


def test_a_promise_about_several_objects_is_one_warning(tmp_path):
    names = ("a", "b", "c")
    document = {
        "kind": "DataContract", "apiVersion": "v3.1.0", "id": "i", "name": "shop", "version": "1",
        "status": "active",
        "schema": [{"name": name, "properties": [{"name": "id", "required": True}]} for name in names],
        "slaProperties": [
            {"property": "freshness", "value": 1, "unit": "d"},
            {"property": "retention", "value": 1, "unit": "y", "element": "a.id,b.id"},
        ],
    }  # fmt: skip
    (tmp_path / "shop.yaml").write_text(json.dumps(document))
    policy = DataContract()
    policy.configure({"contract": str(tmp_path / "shop.yaml")})
    assert policy.warnings == [
        (
            "contract: shop 1: not judged on the wire: "
            "shop 1: freshness: a promise about the data set; "
            "a.id,b.id: retention: a promise about the data set"
        )
    ]


@pytest.mark.parametrize(
    ("prop", "message"),
    [
        ({"quality": [{"metric": "nullValues", "mustBeLessThan": 5}]}, "a threshold other than 0"),
        ({"quality": [{"metric": "nullValues", "mustBeLessThan": 1, "unit": "percent"}]},
         "a threshold other than 0"),
        ({"quality": [{"metric": "duplicateValues", "mustBe": 0}]}, "duplicateValues is about the"),
        ({"quality": [{"metric": "invalidValues", "mustBe": 0}]}, "neither validValues nor a pat"),
        ({"quality": [{"type": "text", "description": "verified"}]}, "a rule of type text is not"),
        ({"quality": [{"type": "custom", "engine": "soda", "name": "n", "implementation": "x"}]}, "o.a: n: a rule of type"),
        ({"logicalType": "date", "logicalTypeOptions": {"format": "EEE"}}, "format EEE: not all of"),
        ({"logicalType": "date", "logicalTypeOptions": {"minimum": "2020-01-01"}}, "limits of a date"),
        ({"logicalType": "string", "logicalTypeOptions": {"format": "iban"}}, "format iban: the for"),
        ({"quality": [{"rule": "validValues", "validValues": ["pounds"]}]},  # of ODCS 3.0
         "o.a: validValues: validValues is about the data set"),
        ({"physicalType": "VARCHAR(2)"}, "o.a: physicalType VARCHAR(2): a type of another system is"),
        ({"properties": [{"name": "x", "required": True}]}, "o.a: properties: without logicalType"),
        ({"items": {"logicalType": "string"}}, "o.a: items: without logicalType it says nothing"),
        ({"relationships": [{"to": "other.id"}]}, "o.a: relationships: references to other data are"),
        ({"quality": [{"metric": "nullValues", "mustBe": 0, "severity": "warning"}]},
         "o.a: nullValues: severity warning refuses no record"),
        ({"quality": [{"metric": "invalidValues", "mustBe": 0, "severity": "Info",
                       "arguments": {"validValues": ["x"]}}]}, "severity info refuses no record"),
        ({"logicalType": "map", "map": {"key": {"logicalType": "integer"}, "value": {}}},
         "o.a: map.key of type integer: only keys of type string are judged"),
        ({"logicalType": "vector", "logicalTypeOptions": {"dimensions": 2, "normalized": True}},
         "o.a: normalized: lengths of vectors are not judged"),
        ({"quality": [{"rule": "duplicateCount", "mustBe": 0}]},
         "o.a: duplicateCount: duplicateCount is about the data set"),
    ],
)  # fmt: skip
def test_parts_that_are_not_judged(written, prop, message):
    policy = DataContract()
    policy.configure({"contract": str(written([{"name": "a", **prop}]))})
    [found] = policy.not_judged("t")
    assert message in str(found)
    assert message in policy.warnings[-1]


@pytest.mark.parametrize(
    ("prop", "message"),
    [
        ({"logicalType": "text"}, "o.a: logicalType must be one of string, number, integer"),
        ({"logicalType": ["string"]}, "o.a: logicalType must be one of string, number, integer"),
        ({"logicalType": "string", "logicalTypeOptions": {"format": ["uuid"]}},
         "o.a: format must be a text"),
        ({"logicalType": "map", "map": ["key"]}, "o.a: map must be a mapping"),
        ({"logicalType": "array", "items": "string"}, "o.a: items must be a mapping"),
        ({"required": "true"}, "o.a: required must be true or false, not 'true'"),
        ({"primaryKey": 1}, "o.a: primaryKey must be true or false, not 1"),
        ({"logicalType": "string", "logicalTypeOptions": {"minLength": -1}},
         "o.a: minLength must be a whole number, not -1"),
        ({"logicalType": "number", "logicalTypeOptions": {"minimum": "x"}}, "minimum must be a number"),
        ({"logicalType": "number", "logicalTypeOptions": {"multipleOf": 0}}, "multipleOf must be gr"),
        ({"logicalType": "number", "logicalTypeOptions": {"maximum": 1e999}}, "maximum must be a number"),
        ({"logicalType": "string", "logicalTypeOptions": {"pattern": "("}}, "o: the schema"),
        ({"quality": [{"metric": "nullValues"}]}, "o.a: rule nullValues has none of mustBe"),
        ({"quality": [{"type": "library", "name": "n"}]}, "o.a: rule n of type library has no metric"),
        ({"quality": "x"}, "o.a: quality must be a list of mappings"),
        ({"enum": [{"value": []}]}, "o.a: enum must list texts"),
        ({"logicalType": "object", "properties": [{"name": "b"}, {"name": "b"}]},
         "o.a: there are two properties with the name b"),
        ({"logicalType": "object", "properties": [{}]}, "o.a: a property has no name"),
        ({"logicalType": "string", "logicalTypeOptions": {"minLenght": 5}},
         "o.a: logicalTypeOptions: minLenght is unknown; did you mean minLength?"),
        ({"logicalType": "integer", "logicalTypeOptions": {"minimun": 5}}, "did you mean minimum?"),
        ({"logicalType": "date", "logicalTypeOptions": {"formats": "x"}}, "did you mean format?"),
        ({"logicalType": "array", "logicalTypeOptions": {"uniqeItems": True}}, "mean uniqueItems?"),
        ({"logicalType": "array", "logicalTypeOptions": {"uniqueItems": "true"}},
         "o.a: uniqueItems must be true or false, not 'true'"),
        ({"logicalType": "string", "logicalTypeOptions": {"minLength": 5, "maxLength": 3}},
         "o.a: minLength is greater than maxLength"),
        ({"logicalType": "number", "logicalTypeOptions": {"minimum": 1.5, "maximum": 1}},
         "o.a: minimum is greater than maximum"),
        ({"logicalType": "array", "logicalTypeOptions": {"minItems": 2, "maxItems": 1}},
         "o.a: minItems is greater than maxItems"),
        ({"enum": "x"}, "o.a: enum must be a list"),
        ({"logicalTypeOptions": "x"}, "o.a: logicalTypeOptions must be a mapping"),
        ({"quality": [{"metric": "nullValue", "mustBe": 0}]},
         "o.a: metric: nullValue is unknown; did you mean nullValues?"),
        ({"quality": [{"metric": "invalidValue", "mustBe": 0}]}, "did you mean invalidValues?"),
        ({"quality": [{"metric": "rowcount", "mustBe": 1}]}, "did you mean rowCount?"),
        ({"quality": [{"type": "libary", "metric": "nullValues", "mustBe": 0}]},
         "o.a: type of rule nullValues: libary is unknown; did you mean library?"),
        ({"quality": [{"metric": "nullValues", "mustBe": 0, "unit": "percents"}]},
         "o.a: unit of rule nullValues: percents is unknown; did you mean percent?"),
        ({"quality": [{"metric": "nullValues", "mustBe": "zero"}]},
         "o.a: mustBe of rule nullValues must be a number, not 'zero'"),
        ({"quality": [{"metric": "nullValues", "mustBe": False}]}, "must be a number, not False"),
        ({"quality": [{"metric": "missingValues", "mustBeBetween": [0]}]},
         "o.a: mustBeBetween of rule missingValues must be two numbers, not [0]"),
        ({"quality": [{"metric": "missingValues", "mustBeBetween": 0}]}, "be two numbers, not 0"),
    ],
)  # fmt: skip
def test_wrong_properties(written, prop, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        of_one(written, 1, **prop)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "c.yaml is not YAML at line 1"),
        ("a: 1", "c.yaml is not an ODCS contract: it has no kind: DataContract"),
        (
            "kind: DataContract\napiVersion: v2.2.2",
            "apiVersion must be one of ODCS 3.0, 3.1 and 3.2, such as v3.1.0, not 'v2.2.2'",
        ),
        ("kind: DataContract\napiVersion: v3.3.0", "such as v3.1.0, not 'v3.3.0'"),
        ("kind: DataContract\napiVersion: v3.0.0", "schema has no object"),
        ("kind: DataContract\napiVersion: v3.0.0\nschema: [{}]", "an object of schema has no name"),
        ("kind: DataContract\napiVersion: v3.0.0\nschema: [{name: a}, {name: a}]", "two objects"),
        ("kind: DataContract\napiVersion: v3.0.0\nschema: {}", "schema must be a list of mappings"),
        ("kind: DataContract\napiVersion: v3.0.0\ndate: !!timestamp x", "c.yaml is not YAML"),
        ("kind: DataContract\nid: a\nid: b", "not YAML at line 3: id occurs twice in a mapping"),
        (
            "kind: DataContract\nschema: [{name: a, properties: [{required: true, required: false}]}]",
            "c.yaml is not YAML at line 2: required occurs twice in a mapping",
        ),
    ],
)
def test_wrong_contracts(tmp_path, text, message):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        texts(tmp_path / "c.yaml", [b"{}"])


def test_mappings_that_multiply_the_keys_of_others(tmp_path):
    levels = (
        f"x{level}: &x{level} {{<<: [{', '.join([f'*x{level - 1}'] * 8)}]}}"
        for level in range(1, 8)
    )
    lines = ("kind: DataContract", "x0: &x0 {a: 1, b: 2}", *levels)
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    message = "not YAML at line 9: mappings take more than 1000000 keys of others by <<"
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        texts(tmp_path / "c.yaml", [b"{}"])


def test_mappings_that_take_keys_of_others(tmp_path):
    (tmp_path / "c.yaml").write_text(
        """
        kind: DataContract
        apiVersion: v3.1.0
        id: c
        version: 1.0.0
        status: active
        name: c
        schema:
        - name: o
          properties:
          - {name: n, customProperties: [{property: p, value: {deep: &base {<<: &first {required: true}, required: false}}}]}
          - name: a
            <<: *base
          - name: b
            <<: *base
            <<: *first
        """
    )
    assert texts(tmp_path / "c.yaml", [b'{"b":1}', b"{}"]) == [
        None, 'contract c 1.0.0, o: the value lacks the property "b"'
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"maximum": 5, "exclusiveMaximum": True}, [5, 6]),
        ({"maximum": 5, "exclusiveMaximum": False}, [6]),
        ({"minimum": 5, "exclusiveMinimum": True}, [4, 5]),
        ({"exclusiveMaximum": True}, []),
        ({"exclusiveMaximum": 5}, [5, 6]),
    ],
)
def test_exclusive_limits_of_odcs_3_0_and_3_1(written, options, refused):
    path = written([{"name": "a", "logicalType": "integer", "logicalTypeOptions": options}])
    found = texts(path, [b'{"a":%d}' % number for number in (4, 5, 6)])
    assert [number for number, text in zip((4, 5, 6), found, strict=True) if text] == refused


def test_aliases_that_grow_without_end_are_refused(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match="more than 1000000 values"):
        texts(tmp_path / "c.yaml", [b"{}"])


def test_wrong_settings():
    with pytest.raises(ConfigurationError, match="contract must name a file, like"):
        judge(DataContract, [b"{}"], topic="t", configs={})
    with pytest.raises(ConfigurationError, match="none cannot be read: No such file"):
        texts(Path("none"), [b"{}"])
    with pytest.raises(
        ConfigurationError, match=r"object=x: .* has no such object; it has inventory"
    ):
        texts("inventory.odcs.yaml", [b"{}"], object="x")


def test_only_native_judging_is_bounded(written):
    class Batch:
        values = (b'{"available":1}',)

    policy = loaded("inventory.odcs.yaml")
    assert policy.is_bounded("")
    assert policy.all_fit("", Batch)
    Batch.values = (b'{"available":"x"}',)
    assert not policy.all_fit("", Batch)
    assert not loaded("orders.odcs.yaml").is_bounded("")
    named = loaded("orders.odcs.yaml", object="orders")
    assert named.is_bounded("") == policy.is_bounded("")
    mail = {"name": "a", "logicalType": "string", "logicalTypeOptions": {"format": "email"}}
    policy.configure({"contract": str(written([mail]))})
    assert not policy.is_bounded("")


def test_numbers_of_contracts_as_in_python(written):
    """A whole number is the same with a fraction of zero; limits and lists may have either."""
    numbers = random.Random(54)

    def some():
        whole = numbers.randint(-20, 20)
        return numbers.choice([whole, float(whole), whole / 4, whole / 10])

    seen = {True: 0, False: 0}
    for _ in range(50):
        low, high = sorted([some(), some()])
        listed = [some() for _ in range(12)]
        kind = numbers.choice(["integer", "number"])
        options = {"minimum": low, "exclusiveMaximum": high}
        limited = {"name": "a", "logicalType": kind, "logicalTypeOptions": options}
        among = {
            "name": "a",
            "logicalType": "number",
            "enum": [{"value": value} for value in sorted(set(listed))],
        }
        values = [some() for _ in range(20)]
        given = [json.dumps({"a": value}).encode() for value in values]
        for value, of_limits, of_list in zip(
            values, texts(written([limited]), given), texts(written([among]), given), strict=True
        ):
            good = low <= value < high and (kind == "number" or value == int(value))
            assert (of_limits is None) == good, (value, low, high, kind)
            assert (of_list is None) == (value in listed), (value, listed)
            seen[good] += 1
    assert min(seen.values()) > 100


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"columns": [{"name": "a"}]}, "schema[o]: Unevaluated properties are not allowed ('columns'"),
        ({"properties": [{"name": "a", "logicalType": "string", "pattern": "^x"}]},
         "schema[o].properties[a]: Unevaluated properties are not allowed ('pattern' was unexpected)"),
        ({"properties": [{"name": "a", "enum": ["x"]}]},
         'schema[o].properties[a].enum[0]: "x" is not of type "object"'),
        ({"properties": [{"name": "a", "logicalType": "string", "logicalTypeOptions": {"minimum": 5}}]},
         "schema[o].properties[a].logicalTypeOptions: Additional properties are not allowed"),
        ({"quality": [{"metric": "rowCount", "mustBeBetween": [1]}]}, "schema[o].quality[0]: "),
        ({"quality": [{"metric": "median", "mustBe": 1}]}, 'schema[o].quality[0].metric: "median" is not one of'),
        ({"quality": [{"metric": "rowCount"}]}, "schema[o].quality[0]: a rule has exactly one of mustBe"),
        ({"quality": [{"metric": "rowCount", "mustBeGreaterThan": 0, "mustBeLessThan": 9}]},
         "schema[o].quality[0]: a rule has exactly one of mustBe, mustNotBe"),
        ({"properties": [{"name": "a", "description": 5}]},
         "schema[o].properties[a].description: 5 is not of type"),
    ],
)  # fmt: skip
def test_contracts_that_the_standard_rejects_are_errors(written, more, message):
    properties = more.pop("properties", [])
    with pytest.raises(ConfigurationError, match=re.escape(f"not as ODCS 3.1 has it: {message}")):
        texts(written(properties, **more), [b"{}"])


def test_a_word_that_is_null_is_as_if_it_were_not_there(written):
    properties = [{"name": "a", "physicalType": None, "enum": [{"value": "x"}, {"value": None}]}]
    assert (
        texts(written(properties, businessName=None), [b'{"a":null}', b'{"a":"x"}']) == [None] * 2
    )


def test_the_first_places_are_named(written):
    properties = [{"name": name, "physicalType": 5} for name in "abcde"]
    with pytest.raises(ConfigurationError) as error:
        texts(written(properties), [b"{}"])
    assert "schema[o].properties[a].physicalType: 5 is not of type" in str(error.value)
    assert str(error.value).endswith("; and 2 more")


def test_words_of_a_later_version_are_taken(written):
    """As in examples of the standard."""
    path = written([{"name": "a", "logicalType": "timestamp"}])
    path.write_text(path.read_text().replace("v3.1.0", "v3.0.2"))
    assert texts(path, [b'{"a":"2024-01-01T00:00:00Z"}']) == [None]


def test_a_rule_that_only_warns_refuses_nothing_and_is_measured(written):
    """As the audit has it: the two agree."""
    rule = {"metric": "nullValues", "mustBe": 0, "severity": "warning"}
    path = written([{"name": "a", "logicalType": "string", "quality": [rule]}])
    assert texts(path, [b'{"a":null}', b"{}", b'{"a":1}'])[:2] == [None, None]
    policy = DataContract()
    policy.configure({"contract": str(path)})
    [measured] = policy.data_set_rules("t").rules
    assert (measured.metric, measured.is_error) == ("nullValues", False)


@pytest.mark.parametrize("properties", [[], [{"name": "a"}, {"name": "b", "physicalType": "INT"}]])
def test_an_object_that_judges_nothing_is_named(written, properties):
    policy = DataContract()
    policy.configure({"contract": str(written(properties))})
    nothing = "nothing is judged but that a value is a JSON object"
    assert policy.warnings[0] == f"contract: c 1.0.0: o: {nothing}"
    assert f"  {nothing}" in list(policy.describe_topic("t", {}))


def test_an_object_that_judges_something_is_not_named(written):
    policy = DataContract()
    policy.configure({"contract": str(written([{"name": "a", "required": True}]))})
    assert policy.warnings == []


@pytest.fixture
def with_variables(written):
    def write(pattern, version="v3.2.0", **prop):
        options = {"pattern": pattern}
        prop = {"name": "a", "logicalType": "string", "logicalTypeOptions": options, **prop}
        path = written([prop])
        path.write_text(path.read_text().replace("v3.1.0", version))
        return path

    return write


@pytest.mark.parametrize(
    ("pattern", "good"),
    [
        ("^${REGION}$", "eu"),
        ("^${REGION:-us}$", "eu"),
        ("^${UNSET_HERE:-us}$", "us"),
        ("^${EMPTY_HERE:-us}$", "us"),
        ("^${UNSET_HERE:-}x$", "x"),
        ("^${REGION}-${REGION}$", "eu-eu"),
        (r"^\$REGION$", "$REGION"),
    ],
)
def test_variables_of_odcs_3_2(with_variables, monkeypatch, pattern, good):
    monkeypatch.setenv("REGION", "eu")
    monkeypatch.setenv("EMPTY_HERE", "")
    path = with_variables(pattern, description="of ${UNSET_HERE}")
    found = texts(path, [json.dumps({"a": value}).encode() for value in (good, "-")])
    assert found[0] is None
    assert found[1] is not None


def test_a_variable_without_a_value_is_an_error_that_names_the_place(with_variables):
    path = with_variables("^${UNSET_HERE}$")
    message = (
        "schema[o].properties[a].logicalTypeOptions.pattern: the variable UNSET_HERE is not set"
    )
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        texts(path, [b"{}"])


def test_before_odcs_3_2_a_reference_is_a_text(with_variables):
    path = with_variables(r"^\$\{X\}$", "v3.1.0", required=True)
    assert texts(path, [b'{"a":"${X}"}']) == [None]
