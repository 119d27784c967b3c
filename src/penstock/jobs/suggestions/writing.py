"""Proposals as text: a table for a person, and keys for a configuration file."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.jobs.suggestions.proposals import Proposal, Proposals

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_RULE: Final = "rules."
_PARTS: Final = {
    "JsonSchema": "schema",
    "Rules": "rules",
    "KeyRequired": "key",
    "HeaderRequired": "headers",
}


def table(proposals: Proposals, unit: str = "records") -> Iterator[str]:
    """Yield lines with the proposals, and the share that each would refuse.

    Args:
        unit: What the sample consists of, in the plural.
    """
    yield f"topic {proposals.topic}: {proposals.records:,} {unit}"
    if proposals.proposals:
        yield f"  {'would refuse':>19}  "
    for proposal in proposals.proposals:
        share = proposal.refused_count / proposals.records
        yield f"  {proposal.refused_count:>10,} ({share:6.2%})  {proposal.policy}: {proposal.what}"
    yield from (f"  note: {note}" for note in proposals.notes)
    if not proposals.proposals:
        yield "  nothing is proposed"


def call_of_plan(proposals: Proposals, folder: str) -> Iterator[str]:
    """Yield the lines of a call of `penstock.spark.plan` with the same proposals.

    Args:
        proposals: For rows: a schema, or rules, or both.
        folder: Where the schema is written; empty if it is not.
    """
    yield "from penstock.spark import plan"
    yield ""
    yield "rows_plan = plan("
    rules = {
        key.removeprefix(_RULE): condition
        for proposal in proposals.proposals
        for key, condition in proposal.keys.items()
    }
    if rules:
        yield "    rules={"
        yield from (f"        {name!r}: {condition!r}," for name, condition in rules.items())
        yield "    },"
    if proposals.schema is not None:
        file = str(PurePath(folder, schema_file(proposals.topic)))
        yield f"    schema={file!r}," + ("" if folder else "  # a file of --output DIR")
    yield f"    topic={proposals.topic!r},"
    yield ")"


def properties(proposals: Proposals, *, of_rows: bool = False) -> Iterator[str]:
    """Yield the lines of a configuration file: named policies, and the topic that has them.

    Args:
        of_rows: Whether the sample is of rows, to which nothing happens until they are judged.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    base = _NOT_IN_NAMES.sub("_", proposals.topic)[:80]
    for proposal in proposals.proposals:
        name = names.get(proposal.policy)
        if name is None:
            name = names[proposal.policy] = f"{base}-{_PARTS[proposal.policy]}"
            lines.append(f"policies.{name}.type=penstock.policies.{proposal.policy}")
        lines += _keys(proposal, name, proposals.topic)
    if not names:
        return
    unit = "rows" if of_rows else "records"
    yield (
        f"# Proposed by penstock suggest from {proposals.records} {unit} of "
        f"{_escaped(proposals.topic)}."
    )
    yield f"policies={','.join(names.values())}"
    yield from lines
    topic = _escaped(proposals.topic, key=True)
    yield f"topics.{topic}.penstock.policies={','.join(names.values())}"
    if not of_rows:
        yield "# Counted, and stored as before: remove this line to refuse records."
        yield f"topics.{topic}.penstock.mode=observe"


def schema_file(topic: str) -> str:
    """Return the name of the file for a topic's JSON Schema."""
    return f"{topic}.schema.json"


def _keys(proposal: Proposal, name: str, topic: str) -> list[str]:
    keys = dict(proposal.keys)
    if proposal.policy == "JsonSchema":
        keys["schema"] = schema_file(topic)
    return [
        f"policies.{name}.{_escaped(key, key=True)}={_escaped(value)}"
        for key, value in keys.items()
    ]


def _escaped(text: str, *, key: bool = False) -> str:
    """Return a text as it is written in a `.properties` file."""
    escaped_text = json.dumps(text, ensure_ascii=True)[1:-1].replace('\\"', '"')
    if key:
        escaped_text = re.sub(r"([ :=#!])", r"\\\1", escaped_text)
    return re.sub(r"^ ", r"\\ ", escaped_text)
