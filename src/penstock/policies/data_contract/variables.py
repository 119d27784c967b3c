"""References to variables of the environment in a contract: `${NAME}` and `${NAME:-default}`.

Source: "Variables" of ODCS 3.2 (RFC 0050). A value is never silently empty.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.data_contract.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_VERSION: Final = "3.2"
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_USED: Final = ("id", "name", "version", "schema", "slaProperties")
"""The words of a contract that are used here; the others stay as they are."""
_FOR_PEOPLE: Final = frozenset({
    "authoritativeDefinitions", "businessName", "classification", "context", "description",
    "examples", "implementation", "query", "synonyms", "tags", "transformDescription",
    "transformLogic", "transformSourceObjects",
})  # fmt: skip
"""Words within these that judge nothing."""


def resolved(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a contract with the values of the variables that it refers to.

    Raises:
        ContractError: A variable is not set, or empty, and has no default; the text names it.
    """
    return {
        key: _resolved(value, key) if key in _USED else value for key, value in document.items()
    }


def _resolved(value: Any, place: str) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _value(match, place), value)
    if isinstance(value, list):
        return [
            _resolved(item, f"{place}[{name_of(item) or number}]")
            for number, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return {
            key: inner if key in _FOR_PEOPLE else _resolved(inner, f"{place}.{key}")
            for key, inner in value.items()
        }
    return value


def _value(match: re.Match[str], place: str) -> str:
    value = os.environ.get(match[1]) or match[2]
    if value is None:
        raise ContractError(
            f"{place}: the variable {match[1]} is not set; ${{{match[1]}:-default}} has a default"
        )
    return value


def name_of(item: Any) -> str | None:
    """Return the name of an item of a list, for places in messages; None if it has none."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None
