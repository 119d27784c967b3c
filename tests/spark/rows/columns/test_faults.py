"""What no row of a frame can have is an error, except of policies that only warn."""

import json

import pytest
from pyspark.sql import types as T

from penstock.spark import load_plan, plan
from penstock.spark.rows.columns.faults import faults_of
from penstock.spark.rows.plan import row_plan_of
from tests.gateways import write_configuration

CONTRACT = {
    "apiVersion": "v3.1.0", "kind": "DataContract", "id": "c", "status": "active", "name": "c",
    "version": "1.0.0",
    "schema": [{"name": "orders", "properties": [
        {"name": "idd", "logicalType": "integer", "required": True},
        {"name": "day", "logicalType": "boolean", "required": True},
        {"name": "amount", "logicalType": "number", "required": True},
        {"name": "note", "logicalType": "string"},
    ]}],
}  # fmt: skip
CUSTOMER = T.StructType([T.StructField("name", T.StringType())])
FIELDS = [
    T.StructField("id", T.IntegerType()),
    T.StructField("amount", T.DoubleType()),
    T.StructField("day", T.DateType()),
    T.StructField("customer", CUSTOMER),
    T.StructField("tags", T.ArrayType(T.StringType())),
]


def faults(row_plan, others=()):
    return faults_of(row_plan.demands, FIELDS, set(others))


@pytest.fixture
def of_file(tmp_path):
    """Returns what no row can have of a plan from a file whose topic has some policies."""

    def faults_of_file(**keys):
        names = {key.split(".")[0] for key in keys}
        properties = {f"policies.{key}": value for key, value in keys.items()}
        properties |= {"policies": ",".join(sorted(names))}
        properties |= {"topics.orders.penstock.policies": ",".join(sorted(names))}
        file = write_configuration(tmp_path, "none:1", 9192, properties)
        found = faults(row_plan_of(load_plan(file, topic="orders"), "judge_rows"))
        texts = [found.error, found.warning]
        return [text and text.replace(f"{file}: ", "FILE: ") for text in texts]

    return faults_of_file


def rules(**conditions):
    keys = {f"a.rules.{name}": condition for name, condition in conditions.items()}
    return {"a.type": "penstock.policies.Rules", **keys}


def test_a_rule_of_a_file_is_named_by_its_key(of_file):
    assert of_file(**rules(positive="value.ammount > 0")) == [
        (
            "FILE: policies.a.rules.positive reads value.ammount, but there is no column ammount, "
            "did you mean amount?; if it may be missing: !has(value.ammount) || ..."
        ),
        None,
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "has(value.x) && value.x > 0",
        "!has(value.x) || value.y > 0",
        "topic != 'orders' || value.x > 0",
        "topic == 'orders' ? value.x > 0 : value.id > 0",
        "value.id > 0 || value.x == 1",
        "value.id != ''",
        "!(value.id in ['1'])",
        "key == 'a' && headers.x == 'y'",
    ],
)
def test_a_rule_that_may_be_true_is_no_error_in_a_file(of_file, condition):
    """A file has rules for all records of a topic, of which rows may be only some."""
    assert of_file(**rules(a=condition)) == [None, None]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("value.id > 0 && value.x == 1", "reads value.x, but there is no column x; there are id,"),
        ("value.x == 1 || value.y == 1", "there is no column x"),
        ("value.x == 1 ? true : true", "there is no column x"),
        ("!(value.x > 1)", "there is no column x"),
        ("value.id == 'x'", "value.id is INT, and is compared with a text; it is a number"),
        ("value.id < 'x' || value.id > 'x'", "value.id is INT, and is compared with a text"),
        ("timestamp(value.day) < now", "value.day is DATE, without a zone"),
    ],
)
def test_a_rule_that_is_never_true_is_an_error_in_a_file(of_file, condition, text):
    assert text in of_file(**rules(a=condition))[0]


def test_all_rules_are_named(of_file):
    error, _ = of_file(**rules(a="value.x > 0", b="value.id > 0", c="value.y > 0"))
    assert error.count("; also FILE: policies.a.rules.") == 1
    assert "policies.a.rules.c reads value.y" in error
    many = plan(rules={f"r{n}": f"value.x{n} > 0" for n in range(8)})
    assert faults(many).error.endswith("; and 3 more")


@pytest.mark.parametrize("mode", ["observe", "mark"])
def test_a_policy_that_only_warns_is_no_error(of_file, mode):
    """It accepts each row, and may be there to find out how many it would refuse."""
    error, warning = of_file(**rules(x="value.x > 0"), **{"a.mode": mode})
    assert error is None
    assert "FILE: policies.a.rules.x reads value.x, but" in warning


@pytest.mark.parametrize("mode", ["enforce", "quarantine"])
def test_other_modes_are_errors(of_file, mode):
    error, warning = of_file(**rules(x="value.x > 0"), **{"a.mode": mode})
    assert "value.x" in error
    assert warning is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("id,custmer.name", "FILE: policies.a.fields requires value.custmer.name, but there is no"),
        ("customer.nmae", "there is no field nmae in value.customer, did you mean name?"),
        ("id.x", "but value.id is INT, which has no fields"),
        ("lines[*].sku", "requires value.lines, but there is no column lines"),
        ("id[*]", "requires value.id as array or object, but value.id is INT"),
        ("tags[*].x.y,customer.name,customer.*,*.x", None),
    ],
)
def test_required_fields(of_file, fields, text):
    error, _ = of_file(**{"a.type": "penstock.policies.Required", "a.fields": fields})
    assert (error is None) if text is None else (text in error)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"required": ["id", "x"]}, "requires value.x, but there is no column x; there are id"),
        ({"properties": {"x": {"type": "string"}}}, None),
        (
            {"required": ["id"], "properties": {"id": {"type": "string"}}},
            "requires value.id as string, but value.id is INT",
        ),
        ({"required": ["id"], "properties": {"id": {"type": ["string", "null"]}}}, None),
        ({"required": ["id"], "properties": {"id": {"type": "integer"}}}, None),
        ({"required": ["amount"], "properties": {"amount": {"type": "string"}}}, None),
        ({"required": ["day"], "properties": {"day": {"type": "string"}}}, None),
        (
            {"required": ["customer"], "properties": {"customer": {"type": "array"}}},
            "requires value.customer as array, but value.customer is STRUCT",
        ),
        (
            {"required": ["customer"],
             "properties": {"customer": {"type": "object", "required": ["email"]}}},
            "requires value.customer.email, but there is no field email in value.customer",
        ),
        (
            {"required": ["customer"],
             "properties": {"customer": {"type": ["object", "null"], "required": ["email"]}}},
            None,
        ),
        ({"anyOf": [{"required": ["x"]}, {"required": ["id"]}]}, None),
    ],
)  # fmt: skip
def test_fields_of_a_schema(of_file, tmp_path, schema, text):
    (tmp_path / "s.json").write_text(json.dumps(schema))
    error, _ = of_file(**{"a.type": "penstock.policies.JsonSchema", "a.schema": "s.json"})
    assert (error is None) if text is None else (f"FILE: policies.a.schema=s.json {text}" in error)
    of_plan = faults(plan(schema=schema)).error
    assert of_plan is None if text is None else of_plan.startswith(f"schema {text}")


def test_a_schema_that_the_topic_names(tmp_path):
    (tmp_path / "s.json").write_text('{"required": ["x"]}')
    file = write_configuration(
        tmp_path, "none:1", 9192,
        {"record.validation.policy.class.name": "penstock.policies.JsonSchema",
         "topics.orders.record.validation.policy": "s.json"},
    )  # fmt: skip
    error = faults(row_plan_of(load_plan(file, topic="orders"), "judge_rows")).error
    assert f"{file}: record.validation.policy=s.json requires value.x, but there" in error


def test_fields_of_a_contract(of_file, tmp_path):
    (tmp_path / "c.yaml").write_text(json.dumps(CONTRACT))
    error, _ = of_file(**{"a.type": "penstock.policies.DataContract", "a.contract": "c.yaml"})
    assert error == (
        "FILE: policies.a.contract=c.yaml requires value.idd, but there is no column idd, did you "
        "mean id?; also FILE: policies.a.contract=c.yaml requires value.day as boolean, but "
        "value.day is DATE"
    )
    of_plan = faults(plan(contract=tmp_path / "c.yaml", topic="orders")).error
    assert of_plan.startswith("contract=c.yaml requires value.idd")


def test_columns_that_are_other_parts_of_the_record(of_file):
    row_plan = plan(rules={"a": "value.id > 0"})
    assert "the column id is another part of the record" in faults(row_plan, ["id"]).error


def test_no_more_names_are_listed_than_somebody_reads():
    fields = [T.StructField(f"column{n}", T.IntegerType()) for n in range(100)]
    error = faults_of(plan(rules={"a": "value.x > 0"}).demands, fields, set()).error
    assert "column19 and 80 more; if" in error
