"""What a registry's answers say, checked: it may be any program that happens to listen there.

Source: Confluent's "Schema Registry API reference".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
from penstock.policies.schema_policy.registry.contexts import DEFAULT_CONTEXT, QualifiedSubject

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN: Final = frozenset({40401, 40402, 40403, 40404, 40406})
"""Subject, version and schema not found; subject and version deleted softly."""
_MOST_REFERENCES: Final = 1000
_LONGEST_NAME: Final = 1000
_LATEST: Final = -1


class UnreadableAnswerError(ValueError):
    """An answer that is invalid. The text names the fault."""


def read(body: bytes) -> Any:
    """Read JSON.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableAnswerError("is not JSON") from None


def means_unknown(body: bytes) -> bool:
    """Return whether the body of a 404 is a registry's answer that the object does not exist.

    Anything else with that status comes from something that is not the registry's API.
    """
    try:
        found = read(body)
    except UnreadableAnswerError:
        return False
    code = found.get("error_code") if isinstance(found, dict) else None
    return isinstance(code, int) and code in _UNKNOWN


def schema(body: bytes) -> RegisteredSchema:
    """Read the answer about a schema; `schema_id` and `guid` are those that it names.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    found = read(body)
    if not isinstance(found, dict):
        raise UnreadableAnswerError("is not a JSON object")
    references = _list(found.get("references"), "references")
    if len(references) > _MOST_REFERENCES:
        raise UnreadableAnswerError(f"has more than {_MOST_REFERENCES} references")
    return RegisteredSchema(
        schema_type=_name(found.get("schemaType") or "AVRO", "schemaType"),
        text=_text(found.get("schema"), "schema"),
        references=tuple(_reference(reference) for reference in references),
        schema_id=None if found.get("id") is None else _positive(found["id"], "id"),
        guid=None if found.get("guid") is None else _guid(found["guid"]),
        metadata=_object(found.get("metadata"), "metadata"),
        rule_set=_object(found.get("ruleSet"), "ruleSet"),
    )


def version(body: bytes) -> int:
    """Read the number of the version out of the answer about a subject's version.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    found = read(body)
    return _positive(found.get("version") if isinstance(found, dict) else None, "version")


def context(body: bytes, default: str) -> str:
    """Read the context of the subject out of the answer about a subject's version.

    Args:
        body: The answer.
        default: The context where it does not say: older registries and others have none.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    found = read(body)
    subject = found.get("subject") if isinstance(found, dict) else None
    if subject is None:
        return default
    return QualifiedSubject.read(_name(subject, "subject")).context


def subject_versions(body: bytes) -> tuple[tuple[str, int], ...]:
    """Read the subjects and versions that a schema has.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    return tuple(
        (_name(entry.get("subject"), "subject"), _positive(entry.get("version"), "version"))
        for entry in _objects(body)
    )


def id_in_context(body: bytes, wanted: str) -> int | None:
    """Read the id that a GUID has in a context; None where it has none there.

    Raises:
        UnreadableAnswerError: It is not an answer about a GUID's ids.
    """
    for entry in _objects(body):
        if (entry.get("context") or DEFAULT_CONTEXT) == wanted:
            return _positive(entry.get("id"), "id")
    return None


def _objects(body: bytes) -> list[Mapping[str, Any]]:
    found = _list(read(body), "the answer")
    if not all(isinstance(entry, dict) for entry in found):
        raise UnreadableAnswerError("is not a list of objects")
    return found


def _reference(found: Any) -> SchemaReference:
    if not isinstance(found, dict):
        raise UnreadableAnswerError("has a reference that is not an object")
    number = found.get("version")
    return SchemaReference(
        _name(found.get("name"), "name"),
        _name(found.get("subject"), "subject"),
        _LATEST if number == _LATEST else _positive(number, "version"),
    )


def _text(found: Any, what: str) -> str:
    if not isinstance(found, str):
        raise UnreadableAnswerError(f"has no text for {what}")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise UnreadableAnswerError(f"has a {what} that is not Unicode text") from None
    return found


def _name(found: Any, what: str) -> str:
    text = _text(found, what)
    if not 0 < len(text) <= _LONGEST_NAME:
        raise UnreadableAnswerError(f"has a {what} of {len(text)} characters")
    return text


def _positive(found: Any, what: str) -> int:
    if type(found) is not int or not 0 < found < 2**31:
        raise UnreadableAnswerError(f"has no positive number for {what}")
    return found


def _guid(found: Any) -> str:
    try:
        return str(UUID(_name(found, "guid")))
    except ValueError:
        raise UnreadableAnswerError("has an invalid guid") from None


def _list(found: Any, what: str) -> list[Any]:
    if found is None:
        return []
    if not isinstance(found, list):
        raise UnreadableAnswerError(f"has no list where {what} should be")
    return found


def _object(found: Any, what: str) -> Mapping[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UnreadableAnswerError(f"has no object for {what}")
    return found
