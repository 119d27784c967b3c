"""The documented record and the schema for Spark agree with the published schema."""

import json
import re
from pathlib import Path

from tests.audit_records import SCHEMA, checked

DOCS = Path(__file__).parents[4] / "docs"


def test_the_documented_record_fits_the_schema():
    (example,) = re.findall(r"```json\n(.*?)```", (DOCS / "monitoring.md").read_text(), re.DOTALL)
    record = json.loads(example.replace("0b9f…", "0" * 32))
    checked(json.dumps(record))


def test_the_schema_for_spark_has_every_field():
    page = (DOCS / "spark.md").read_text()
    (ddl,) = re.findall(r'RECORD = """(.*?)"""', page, re.DOTALL)
    flat, _, nested = ddl.partition("reasons ARRAY<STRUCT<")
    assert [*re.findall(r"(\w+) [A-Z]+,", flat), "reasons"] == SCHEMA["required"]
    reason = SCHEMA["properties"]["reasons"]["items"]
    assert re.findall(r"(\w+): [A-Z]+", nested) == reason["required"]
