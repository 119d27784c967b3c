"""Schemas written into a folder, for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.policies.json_schema.check import Check
from penstock.policies.json_schema.files import SchemaFiles

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, **schemas: Any) -> None:
    """Write each schema into a file of its name: a value as JSON, a text as it is."""
    for name, schema in schemas.items():
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (folder / f"{name}.json").write_text(text)


def check(folder: Path, schema: Any, *, formats: bool = False) -> Check:
    """Compile one schema."""
    write(folder, schema=schema)
    return Check(SchemaFiles(folder, "schema.json"), formats=formats)
