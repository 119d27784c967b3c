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
        answer = read(body)
    except UnreadableAnswerError:
        return False
    code = answer.get("error_code") if isinstance(answer, dict) else None
    return isinstance(code, int) and code in _UNKNOWN


def schema(body: bytes) -> RegisteredSchema:
    """Read the answer about a schema; `schema_id` and `guid` are those that it names.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    answer = read(body)
    if not isinstance(answer, dict):
        raise UnreadableAnswerError("is not a JSON object")
    references = _list(answer.get("references"), "references")
    if len(references) > _MOST_REFERENCES:
        raise UnreadableAnswerError(f"has more than {_MOST_REFERENCES} references")
    return RegisteredSchema(
        schema_type=_name(answer.get("schemaType") or "AVRO", "schemaType"),
        text=_text(answer.get("schema"), "schema"),
        references=tuple(_reference(reference) for reference in references),
        schema_id=None if answer.get("id") is None else _positive(answer["id"], "id"),
        guid=None if answer.get("guid") is None else _guid(answer["guid"]),
        metadata=_object(answer.get("metadata"), "metadata"),
        rule_set=_object(answer.get("ruleSet"), "ruleSet"),
    )


def version(body: bytes) -> int:
    """Read the number of the version out of the answer about a subject's version.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    answer = read(body)
    return _positive(answer.get("version") if isinstance(answer, dict) else None, "version")


def context(body: bytes, default: str) -> str:
    """Read the context of the subject out of the answer about a subject's version.

    Args:
        default: The context where it does not say: older registries and others have none.

    Raises:
        UnreadableAnswerError: It is invalid.
    """
    answer = read(body)
    subject = answer.get("subject") if isinstance(answer, dict) else None
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


def id_in_context(body: bytes, context_name: str) -> int | None:
    """Read the id that a GUID has in a context; None where it has none there.

    Raises:
        UnreadableAnswerError: It is not an answer about a GUID's ids.
    """
    for entry in _objects(body):
        if (entry.get("context") or DEFAULT_CONTEXT) == context_name:
            return _positive(entry.get("id"), "id")
    return None


def _objects(body: bytes) -> list[Mapping[str, Any]]:
    entries = _list(read(body), "the answer")
    if not all(isinstance(entry, dict) for entry in entries):
        raise UnreadableAnswerError("is not a list of objects")
    return entries


def _reference(reference: Any) -> SchemaReference:
    if not isinstance(reference, dict):
        raise UnreadableAnswerError("has a reference that is not an object")
    number = reference.get("version")
    return SchemaReference(
        _name(reference.get("name"), "name"),
        _name(reference.get("subject"), "subject"),
        _LATEST if number == _LATEST else _positive(number, "version"),
    )


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise UnreadableAnswerError(f"has no text for {what}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnreadableAnswerError(f"has a {what} that is not Unicode text") from None
    return value


def _name(value: Any, what: str) -> str:
    text = _text(value, what)
    if not 0 < len(text) <= _LONGEST_NAME:
        raise UnreadableAnswerError(f"has a {what} of {len(text)} characters")
    return text


def _positive(value: Any, what: str) -> int:
    if type(value) is not int or not 0 < value < 2**31:
        raise UnreadableAnswerError(f"has no positive number for {what}")
    return value


def _guid(value: Any) -> str:
    try:
        return str(UUID(_name(value, "guid")))
    except ValueError:
        raise UnreadableAnswerError("has an invalid guid") from None


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnreadableAnswerError(f"has no list where {what} should be")
    return value


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableAnswerError(f"has no object for {what}")
    return value
