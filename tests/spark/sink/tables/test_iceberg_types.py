"""Types of Iceberg that Spark does not show; `make spark-tables` writes real tables."""

import json
from types import SimpleNamespace

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.sink.tables.iceberg_types import check_types, hidden_types

pytestmark = pytest.mark.unit


def field(name, kind):
    return {"id": 1, "name": name, "required": False, "type": kind}


def schema(kind):
    """Return Iceberg's JSON of a table with a column `value`."""
    fields = [field("key", "fixed[4]"), field("more", "uuid"), field("Value", kind)]
    return json.dumps({"type": "struct", "schema-id": 0, "fields": fields})


UUIDS = {"type": "list", "element-id": 2, "element": "uuid", "element-required": False}
HASHES = {"type": "map", "key-id": 3, "key": "string", "value-id": 4, "value": "fixed[16]"}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (struct(field("id", "long"), field("at", "timestamptz"), field("d", "decimal(10, 2)")), []),
        ("binary", []),
        ("fixed[8]", [("value", "fixed[8]")]),
        (struct(field("a", struct(field("b", "uuid")))), [("value.a.b", "uuid")]),
        (struct(field("a", UUIDS), field("b", HASHES)),
         [("value.a[]", "uuid"), ("value.b{}", "fixed[16]")]),
    ],
)  # fmt: skip
def test_types(kind, found):
    assert list(hidden_types(schema(kind))) == found


def test_a_table_with_such_a_type_is_refused():
    java = SimpleNamespace(
        spark=SimpleNamespace(Spark3Util=SimpleNamespace(loadIcebergTable=lambda *_: table)),
        SchemaParser=SimpleNamespace(toJson=schema),
    )
    apache = SimpleNamespace(apache=SimpleNamespace(iceberg=java))
    session = SimpleNamespace(
        sparkContext=SimpleNamespace(_jvm=SimpleNamespace(org=apache)), _jsparkSession=None
    )
    table = SimpleNamespace(schema=lambda: struct(field("id", "uuid")))
    with pytest.raises(ConfigurationError) as raised:
        check_types(session, "lake.db.t")
    assert str(raised.value) == (
        "table:lake.db.t: value.id has Iceberg's type uuid, which is not checked before records are "
        "written: use STRING"
    )
    table.schema = lambda: struct(field("id", "long"))
    check_types(session, "lake.db.t")
