"""Whether a contract follows the standard: by the JSON Schemas of ODCS, which `standard/` has.

Sources: https://github.com/bitol-io/open-data-contract-standard (3.0.2, 3.1.0), and for 3.2.0
datacontract-cli 1.2.8, in which a property without `logicalType` is not taken for a map.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from penstock.policies.data_contract.errors import ContractError
from penstock.policies.data_contract.quality import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSIONS: Final = ("3.0", "3.1", "3.2")
_FOLDER: Final = Path(__file__).parent / "standard"
_SHOWN_MOST: Final = 3
_LONGEST: Final = 200
_RANKS: Final = {"anyOf": 1, "oneOf": 1, "unevaluatedProperties": 2}
"""Errors that may follow from errors of a lower rank, at the same place or within it."""


def check_standard(document: Mapping[str, Any], version: str) -> None:
    """Look whether a contract is what the standard's own JSON Schema accepts.

    The words of a later version are taken, too: examples of the standard itself have them.

    Args:
        document: The contract.
        version: The version of the standard that it names, one of `VERSIONS`.

    Raises:
        ContractError: It is not; the text names the places.
    """
    document = _without_null(document)
    try:
        if any(_validator(other).is_valid(_of_version(document, other)) for other in VERSIONS):
            return
        errors = list(_validator(version).iter_errors(_of_version(document, version)))
    except ValueError:
        raise ContractError(
            "it has a key that is not a text, or a number that JSON lacks"
        ) from None
    shown = list(dict.fromkeys(_described(error, document) for error in _causes(errors)))
    more = f"; and {len(shown) - _SHOWN_MOST} more" if len(shown) > _SHOWN_MOST else ""
    raise ContractError(f"not as ODCS {version} has it: {'; '.join(shown[:_SHOWN_MOST])}{more}")


def _causes(errors: Sequence[Any]) -> list[Any]:
    """Return errors that do not follow from others: a wrong part counts as unknown, too."""
    found: list[Any] = []
    for error in sorted(errors, key=lambda error: _RANKS.get(error.kind.name, 0)):
        path = error.instance_path
        rank = _RANKS.get(error.kind.name, 0)
        if not (rank and any(other.instance_path[: len(path)] == path for other in found)):
            found.append(error)
    return sorted(found, key=lambda error: [str(step).zfill(9) for step in error.instance_path])


def _without_null(written: Any) -> Any:
    """Return a part of a contract without words that are null, which the standard ignores."""
    if isinstance(written, list):
        return [_without_null(item) for item in written]
    if not isinstance(written, dict):
        return written
    return {
        word: _without_null(value)
        for word, value in written.items()
        if value is not None or word == "value"  # of an enumeration
    }


@lru_cache(len(VERSIONS))
def _validator(version: str) -> Any:
    schema = json.loads((_FOLDER / f"odcs-{version}.json").read_text(encoding="utf-8"))
    return jsonschema_rs.Draft201909Validator(schema)


def _of_version(document: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a contract with an `apiVersion` that the schema of a version has."""
    return {**document, "apiVersion": f"v{version}.{2 if version == '3.0' else 0}"}


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
    at = document
    for step in path:
        at = at[step]
        if isinstance(step, str):
            yield f".{step}"
        else:
            name = at.get("name") if isinstance(at, dict) else None
            yield f"[{name if isinstance(name, str) else step}]"
