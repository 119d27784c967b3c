"""JSON Schemas of SchemaStore, as check-jsonschema ships them."""

import json

import pytest

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.files import SchemaFiles
from tests.policies.json_schema.schemas import compiled
from tests.suites.expected import compare, expected
from tests.suites.fetched import sdist

pytestmark = pytest.mark.suites
SUM = "33340a2f885e207411c7a7d1db0a052ba24a4e58c92a47f54231e4a128af2764"


@pytest.mark.parametrize("implementation", ["native", "library"])
def test_each_schema_is_taken(implementation):
    folder = sdist("check_jsonschema", "0.39.0", SUM) / "src/check_jsonschema/builtin_schemas"
    failed, count = {}, 0
    for file in sorted(folder.rglob("*.json")):
        if not isinstance(json.loads(file.read_text("utf-8")), dict):
            continue
        count += 1
        try:
            compiled(SchemaFiles(file.parent, file.name), implementation)
        except SchemaError as error:
            failed[file.name] = str(error)
    rows = (row for row in expected("schema-store") if row.by in {implementation, "all"})
    assert compare(failed, rows) == ([], [])
    assert count > 20
