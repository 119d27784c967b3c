"""Policies for a topic, each with the share of a sample's records that it would refuse."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import orjson

from penstock.engine.columns import columns_of
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.jobs.suggestions.conditions import conditions_of
from penstock.jobs.suggestions.profile import Profile
from penstock.jobs.suggestions.schema import schema_of
from penstock.policies import HeaderRequired, JsonSchema, KeyRequired, Rules
from penstock.policy import ClientContext, TopicIdPartition, TopicMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.policy import Record

_JSON_LEAST: Final = 0.9
"""Where fewer values are JSON objects, nothing is proposed for them."""
_SCHEMA: Final = "value.schema.json"
_NOBODY: Final = ClientContext()


class Proposal(NamedTuple):
    """A policy, or a rule of a policy.

    Attributes:
        policy: The class's name.
        keys: Its own keys.
        what: What it requires, for a person.
        refused_count: How many records of the sample it would refuse.
    """

    policy: str
    keys: Mapping[str, str]
    what: str
    refused_count: int


class Proposals(NamedTuple):
    """The proposals for a topic.

    Attributes:
        records: How many records there are in the sample.
        schema: The JSON Schema of values, or None.
        proposals: The proposed policies, with the schema.
        notes: Other remarks.
    """

    topic: str
    records: int
    schema: Mapping[str, Any] | None
    proposals: Sequence[Proposal]
    notes: Sequence[str]


def propose(topic: str, records: Sequence[Record], tolerance: float) -> Proposals:
    """Return the proposals for a sample of records.

    Args:
        records: At least one.
        tolerance: The share of records that may be mistakes.
    """
    proposals: list[Proposal] = []
    notes: list[str] = []
    schema = None
    profile, objects, values = _profile_of(records)
    if values and objects >= values * _JSON_LEAST:
        schema = schema_of(profile, tolerance)
        proposals.append(_by_schema(topic, records, schema))
        proposals += _by_conditions(topic, records, profile, tolerance)
    elif values:
        notes.append(_why_no_schema(records, values, objects))
    proposals += _of_keys_and_headers(topic, records, tolerance)
    return Proposals(topic, len(records), schema, proposals, notes)


def _profile_of(records: Sequence[Record]) -> tuple[Profile, int, int]:
    """Return the profile of values that are JSON objects, how many, and how many values."""
    profile = Profile()
    values = 0
    for record in records:
        if record.value is None:
            continue
        values += 1
        try:
            document = orjson.loads(record.value)
        except orjson.JSONDecodeError:
            continue
        if isinstance(document, dict):
            profile.add(document)
    return profile, profile.count, values


def _by_schema(topic: str, records: Sequence[Record], schema: Mapping[str, Any]) -> Proposal:
    with TemporaryDirectory() as folder:
        (Path(folder) / _SCHEMA).write_text(json.dumps(schema))
        policy = JsonSchema()
        policy.use_folder(Path(folder))
        refused = _refused(policy, {"schema": _SCHEMA}, topic, records)
    required = len(schema.get("required", ()))
    what = f"{len(schema.get('properties', ()))} properties, {required} of them required"
    return Proposal("JsonSchema", {}, what, refused)


def _by_conditions(
    topic: str, records: Sequence[Record], profile: Profile, tolerance: float
) -> list[Proposal]:
    proposals = []
    for condition in conditions_of(profile, tolerance):
        keys = {f"rules.{condition.name}": condition.expression}
        refused = _refused(Rules(), keys, topic, records)
        if refused <= len(records) * tolerance:
            proposals.append(
                Proposal("Rules", keys, f"{condition.expression}  ({condition.basis})", refused)
            )
    return proposals


def _of_keys_and_headers(topic: str, records: Sequence[Record], tolerance: float) -> list[Proposal]:
    proposals = []
    most = len(records) * tolerance
    refused = _refused(KeyRequired(), {}, topic, records)
    if refused <= most:
        proposals.append(Proposal("KeyRequired", {}, "every record has a key", refused))
    names = Counter(
        name for record in records for name in {header.key for header in record.headers}
    )
    often = [
        name for name, count in names.items() if count >= len(records) - most and _is_listable(name)
    ]
    if often:
        keys = {"headers": ",".join(sorted(often))}
        refused = _refused(HeaderRequired(), keys, topic, records)
        if refused <= most:
            what = f"every record has the headers {keys['headers']}"
            proposals.append(Proposal("HeaderRequired", keys, what, refused))
    return proposals


def _is_listable(name: str) -> bool:
    """Return whether a name can stand in a list of a file.

    Blanks at its ends would be left out, and what `${` begins be replaced.
    """
    is_plain = "," not in name and "${" not in name and name.isprintable()
    return name.strip() == name != "" and is_plain


def _why_no_schema(records: Sequence[Record], values: int, objects: int) -> str:
    framed = sum(record.value is not None and record.value[:1] == b"\0" for record in records)
    if framed >= values * _JSON_LEAST:
        return "values begin with the id of a registered schema: see penstock.policies.SchemaPolicy"
    return f"{objects / values:.1%} of the values are JSON objects: nothing is proposed for values"


def _refused(policy: Any, keys: Mapping[str, str], topic: str, records: Sequence[Record]) -> int:
    """Return how many records a policy refuses."""
    policy.configure(keys)
    metadata = TopicMetadata(TopicIdPartition(UUID(int=0), topic, 0), "")
    batch = PolicyBatch(columns_of(records), policy.get_hints())
    client = (_NOBODY,) if isinstance(policy, Rules) else ()
    return sum(1 for _ in policy.validate_batch(metadata, batch, *client))
