"""Both ways of judging, side by side over pairs of schemas and texts."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.policies.json_schema.check import Check
from penstock.policies.json_schema.files import SchemaError, SchemaFiles
from tests.policies.json_schema.pairs import Pairs

if TYPE_CHECKING:
    from pathlib import Path

TEXTS: int = 5
"""How many texts are judged by each schema."""


class Difference(NamedTuple):
    """A text about which the two ways do not agree."""

    schema: dict[str, Any]
    text: bytes
    fast: bool | str
    slow: str | None


class Outcome(NamedTuple):
    """What came of some pairs.

    Attributes:
        pairs: How many pairs were judged by both ways.
        fits: How many of them fit, by the slow way.
        schemas: How many schemas went which way: `fast`, `slow`, or were refused: `refused`.
        why_slow: What kept schemas from the fast way.
        differences: The pairs about which the two do not agree.
    """

    pairs: int
    fits: int
    schemas: Counter[str]
    why_slow: Counter[str]
    differences: list[Difference]


def compare(draft: str, pairs: int, folder: Path, *, seed: int = 0) -> Outcome:
    """Judge pairs by both ways; schemas that are for the slow way alone are counted only."""
    made = Pairs(draft, seed)
    done = fits = 0
    schemas: Counter[str] = Counter()
    why_slow: Counter[str] = Counter()
    differences = []
    while done < pairs:
        schema = made.schema()
        check = compiled(schema, folder)
        way = "refused" if check is None else "fast" if check.fits else "slow"
        schemas[way] += 1
        if check is None or check.fits is None:
            why_slow.update(check.features.slow if check else ())
            continue
        for _ in range(TEXTS):
            text = made.text(schema)
            fast, slow = fast_answer(check, text), check.objection(text, "value")
            done += 1
            fits += slow is None
            if (fast is True) != (slow is None):
                differences.append(Difference(schema, text, fast, slow))
    return Outcome(done, fits, schemas, why_slow, differences)


def compiled(schema: dict[str, Any], folder: Path) -> Check | None:
    """Compile a schema whose definitions are in a second file, too; None where it is refused."""
    definitions = "$defs" if "$defs" in schema else "definitions"
    other = {definitions: schema[definitions]}
    if len(schema) % 2:
        other["$schema"] = schema["$schema"]
    (folder / "other.json").write_text(json.dumps(other))
    (folder / "schema.json").write_text(json.dumps(schema))
    try:
        return Check(SchemaFiles(folder, "schema.json"), formats=False)
    except SchemaError:
        return None


def fast_answer(check: Check, text: bytes) -> bool | str:
    """Return what the fast way says, as a name where it raises."""
    assert check.fits is not None
    try:
        return check.fits(text)
    except Exception as error:
        return type(error).__name__
