"""Whether a contract follows the standard: by the JSON Schema of ODCS 3.2.

Older versions differ from it in a few words, which are read as those of 3.2.

Source: the package `open-data-contract-standard` of the standard's authors.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from penstock.policies.data_contract.errors import ContractError
from penstock.policies.data_contract.quality import OPERATORS
from penstock.policies.data_contract.variables import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSIONS: Final = ("3.0", "3.1", "3.2")
_LATEST: Final = "v3.2.0"
_EXCLUSIVE: Final = ("exclusiveMaximum", "exclusiveMinimum")
_SHOWN_MOST: Final = 3
_LONGEST: Final = 200
_RANKS: Final = {"anyOf": 1, "oneOf": 1, "unevaluatedProperties": 2}
"""Errors that may follow from errors of a lower rank, at the same place or within it."""


def check_standard(document: Mapping[str, Any], version: str) -> None:
    """Look whether a contract is what the standard's own JSON Schema accepts.

    The words of a later version are taken, too: examples of the standard itself have them.

    Args:
        version: The version of the standard that it names, one of `VERSIONS`.

    Raises:
        ContractError: It is not; the text names the places.
    """
    document = _without_null({**document, "apiVersion": _LATEST})
    if version != VERSIONS[-1]:
        # 3.2 lists the properties of each type of server; policies read none of them.
        document = _in_later_words({**document, "servers": []})
    try:
        errors = list(_validator().iter_errors(document))
    except ValueError:
        raise ContractError(
            "it has a key that is not a text, or a number that JSON lacks"
        ) from None
    if not errors:
        return
    shown = list(dict.fromkeys(_described(error, document) for error in _causes(errors)))
    more = f"; and {len(shown) - _SHOWN_MOST} more" if len(shown) > _SHOWN_MOST else ""
    raise ContractError(f"not as ODCS {version} has it: {'; '.join(shown[:_SHOWN_MOST])}{more}")


def _causes(errors: Sequence[Any]) -> list[Any]:
    """Return errors that do not follow from others: a wrong part counts as unknown, too."""
    causes: list[Any] = []
    for error in sorted(errors, key=lambda error: _RANKS.get(error.kind.name, 0)):
        path = error.instance_path
        rank = _RANKS.get(error.kind.name, 0)
        if not (rank and any(other.instance_path[: len(path)] == path for other in causes)):
            causes.append(error)
    return sorted(causes, key=lambda error: [str(step).zfill(9) for step in error.instance_path])


def _without_null(part: Any) -> Any:
    """Return a part of a contract without words that are null, which the standard ignores."""
    if isinstance(part, list):
        return [_without_null(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        word: _without_null(value)
        for word, value in part.items()
        if value is not None or word == "value"  # of an enumeration
    }


def _in_later_words(part: Any) -> Any:
    """Return a part of a contract of 3.0 or 3.1 without words that 3.2 has in another form.

    These name a rule by `rule`, rules in SQL need no operator, and `exclusiveMaximum` is a boolean
    beside `maximum`.
    """
    if isinstance(part, list):
        return [_in_later_words(item) for item in part]
    if not isinstance(part, dict):
        return part
    translation = {word: _in_later_words(value) for word, value in part.items()}
    rules, options = translation.get("quality"), translation.get("logicalTypeOptions")
    if isinstance(rules, list):
        translation["quality"] = [rule for rule in rules if not _is_of_older(rule)]
    if isinstance(options, dict):
        translation["logicalTypeOptions"] = {
            word: value
            for word, value in options.items()
            if word not in _EXCLUSIVE or not isinstance(value, bool)
        }
    return translation


def _is_of_older(rule: Any) -> bool:
    return (
        isinstance(rule, dict) and "metric" not in rule and not {"rule", "query"}.isdisjoint(rule)
    )


@lru_cache(1)
def _validator() -> Any:
    text = resources.files("open_data_contract_standard").joinpath("schema.json").read_bytes()
    return jsonschema_rs.Draft201909Validator(_with_required(json.loads(text)))


def _with_required(schema: Any) -> Any:
    """Return a schema in which a condition demands properties only where its own are.

    In the standard's own schema, a property without a `logicalType` would have to be a map, too.
    """
    if isinstance(schema, list):
        return [_with_required(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    new_schema = {word: _with_required(part) for word, part in schema.items()}
    condition, then = new_schema.get("if"), new_schema.get("then", {})
    if isinstance(condition, dict) and condition.keys() == {"properties"} and "required" in then:
        new_schema["if"] = {**condition, "required": list(condition["properties"])}
    return new_schema


def _described(error: Any, document: Mapping[str, Any]) -> str:
    message = error.message
    if error.kind.name == "oneOf" and "quality" in error.instance_path:
        message = f"a rule has exactly one of {', '.join(OPERATORS)}"
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]}..."
    place = "".join(_steps(error.instance_path, document)).removeprefix(".")
    return f"{place}: {message}" if place else message


def _steps(path: Sequence[str | int], document: Any) -> Iterator[str]:
    """Yield the steps to a place, with the names of what lists contain."""
    node = document
    for step in path:
        node = node[step]
        if isinstance(step, str):
            yield f".{step}"
        else:
            name = name_of(node)
            yield f"[{step if name is None else name}]"
