"""Types of Iceberg that Spark shows as others: it takes strings for a UUID, and bytes for `fixed`.

A value that is not of such a type ends each attempt to write, with the value in Java's text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_VALUE: Final = "value"
_FIXED: Final = "fixed["
_UUID: Final = "uuid"


def check_types(spark: SparkSession, name: str) -> None:
    """Check that the column `value` has no such type.

    Raises:
        ConfigurationError: It has.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - only Java knows them
    java, session = jvm.org.apache.iceberg, spark._jsparkSession  # noqa: SLF001
    schema = java.spark.Spark3Util.loadIcebergTable(session, name).schema()
    for place, kind in hidden_types(java.SchemaParser.toJson(schema)):
        instead = "STRING" if kind == _UUID else "BINARY"
        raise ConfigurationError(
            f"{TABLE}{name}: {place} has Iceberg's type {kind}, which is not checked before "
            f"records are written: use {instead}"
        )


def hidden_types(schema: str) -> Iterator[tuple[str, str]]:
    """Yield the places in the column `value` that have such a type, and the type.

    Args:
        schema: Iceberg's JSON of a table's schema.
    """
    for field in json.loads(schema)["fields"]:
        if field["name"].lower() == _VALUE:
            yield from _hidden(field["type"], _VALUE)


def _hidden(kind: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(kind, str):
        if kind == _UUID or kind.startswith(_FIXED):
            yield place, kind
        return
    for field in kind.get("fields", ()):
        yield from _hidden(field["type"], f"{place}.{field['name']}")
    if "element" in kind:
        yield from _hidden(kind["element"], f"{place}[]")
    if "value" in kind:
        yield from _hidden(kind["value"], f"{place}{{}}")
