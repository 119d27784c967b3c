"""Schemas written into a folder, for tests, and judged by either implementation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.policies.json_schema.check import Check, compile_check, objection
from penstock.policies.json_schema.files import SchemaFiles
from penstock.policies.json_schema.library import LibraryCheck
from penstock.policies.json_schema.native import MetaschemaNeeded, NativeCheck

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.policies.json_schema.documents import SchemaDocuments

IMPLEMENTATIONS = ["library", "native"]


class Judged:
    """A compiled schema, which judges one text at a time."""

    def __init__(self, check: Check) -> None:
        self.check = check

    def objection(self, text: bytes, field: str = "value") -> str | None:
        return objection(self.check, text, field)


def write(folder: Path, **schemas: Any) -> None:
    """Write each schema into a file of its name: a value as JSON, a text as it is."""
    for name, schema in schemas.items():
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (folder / f"{name}.json").write_text(text)


def compiled(files: SchemaDocuments, implementation: str, *, formats: bool = False) -> Check:
    """Compile by one implementation; by the library what the extension leaves to it."""
    if implementation == "native":
        try:
            return NativeCheck(files, formats=formats)
        except MetaschemaNeeded:
            pass
    return LibraryCheck(files, formats=formats)


def check(
    folder: Path, schema: Any, *, formats: bool = False, implementation: str | None = None
) -> Judged:
    """Compile a schema, with the default implementation if none is given."""
    write(folder, schema=schema)
    files = SchemaFiles(folder, "schema.json")
    if implementation is None:
        return Judged(compile_check(files, formats=formats))
    return Judged(compiled(files, implementation, formats=formats))
