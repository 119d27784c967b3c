"""Schemas of another project: those of fastavro's tests."""

import ast
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import fastavro

from tests.suites.fetched import sdist

VERSION: Final = "1.13.1"
_SUM: Final = "6f05aa2539bf7a19e9eb3bdaf6580c4d0f082a8230f641eaf9c84e4bcf0e6bc4"
_OF_BYTES: Final = ("type", "name", "namespace", "fields", "items", "values", "symbols", "size")
"""What the bytes of a value depend on."""


def schemas() -> list[Any]:
    """Return different schemas as fastavro parses them: with the full name of each type."""
    folder = sdist("fastavro", VERSION, _SUM) / "tests"
    found = {}
    for schema in _schemas_of(folder):
        try:
            parsed = fastavro.parse_schema(_bare(schema))
        except Exception:
            continue
        plain = _bare(parsed)
        found.setdefault(json.dumps(plain, sort_keys=True), plain)
    return list(found.values())


def _schemas_of(folder: Path) -> Iterator[Any]:
    for file in sorted(folder.rglob("*.avsc")):
        with suppress(ValueError):  # some are no JSON, on purpose
            yield json.loads(file.read_text())
    for file in sorted(folder.rglob("*.avro")):
        with file.open("rb") as opened:
            try:
                yield fastavro.reader(opened).writer_schema
            except Exception:
                continue
    for file in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Dict | ast.List):
                yield from _literal(node)


def _literal(node: ast.Dict | ast.List) -> Iterator[Any]:
    try:
        value = ast.literal_eval(node)
    except ValueError:  # it has a variable in it
        return
    if isinstance(value, dict) and "type" in value:
        yield value


def _bare(schema: Any) -> Any:
    """Return a schema without what no byte depends on: logical types, defaults, documentation."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {key: schema[key] for key in _OF_BYTES if key in schema}
    for key in ("type", "items", "values"):
        if key in bare:
            bare[key] = _bare(bare[key])
    if isinstance(bare.get("fields"), list):
        bare["fields"] = [_bare(field) for field in bare["fields"]]
    return bare
