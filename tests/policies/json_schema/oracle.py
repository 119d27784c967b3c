"""Both implementations, side by side over pairs of schemas and texts."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.files import SchemaFiles
from tests.policies.json_schema.pairs import Pairs
from tests.policies.json_schema.schemas import Judged, compiled

if TYPE_CHECKING:
    from pathlib import Path

TEXTS: int = 5
"""How many texts are judged by each schema."""


class Difference(NamedTuple):
    """A text, or a schema, about which the two do not agree."""

    schema: dict[str, Any]
    text: bytes
    native: str | None
    library: str | None


class Outcome(NamedTuple):
    """What came of some pairs.

    Attributes:
        pairs: How many pairs were judged by both.
        fits: How many of them fit, by the library.
        refused: How many schemas cannot be used.
        other_reasons: How many texts are refused by both with different reasons.
        differences: The pairs about which the two do not agree.
    """

    pairs: int
    fits: int
    refused: int
    other_reasons: int
    differences: list[Difference]


def compare(draft: str, pairs: int, folder: Path, *, seed: int = 0) -> Outcome:
    """Judge pairs by both implementations."""
    made = Pairs(draft, seed)
    counts: Counter[str] = Counter()
    differences = []
    while counts["pairs"] < pairs:
        schema = made.schema()
        both = [read(schema, folder, name) for name in ("native", "library")]
        if None in both:
            counts["refused"] += 1
            if any(both):
                differences.append(Difference(schema, b"", *(str(reason) for reason in both)))
            continue
        for _ in range(TEXTS):
            text = made.text(schema)
            native, library = (judge.objection(text) for judge in both if judge)
            counts["pairs"] += 1
            counts["fits"] += library is None
            counts["other"] += None not in {native, library} and native != library
            if (native is None) != (library is None):
                differences.append(Difference(schema, text, native, library))
    return Outcome(counts["pairs"], counts["fits"], counts["refused"], counts["other"], differences)


def read(schema: dict[str, Any], folder: Path, implementation: str) -> Judged | None:
    """Compile a schema whose definitions are in a second file, too; None where it is refused."""
    definitions = "$defs" if "$defs" in schema else "definitions"
    other = {definitions: schema[definitions]}
    if len(schema) % 2:
        other["$schema"] = schema["$schema"]
    (folder / "other.json").write_text(json.dumps(other))
    (folder / "schema.json").write_text(json.dumps(schema))
    try:
        return Judged(compiled(SchemaFiles(folder, "schema.json"), implementation))
    except SchemaError:
        return None
