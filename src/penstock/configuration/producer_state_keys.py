"""The keys that chose where the state of producers is kept: it is always in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FORMER_FOLDER: Final = "penstock-state"
"""The folder beside the configuration file whose numbers a gateway takes over when it starts."""
_STATE: Final = "produce.request.interceptors.state"
_FOLDER: Final = "produce.request.interceptors.state.dir"
FORMER_KEYS: Final = frozenset({_STATE, _FOLDER})
_IN_CLUSTER: Final = "the state of producers is kept in a topic of the cluster: delete the key"


def former_keys(
    file: Path, properties: Mapping[str, str], shown: Mapping[str, str]
) -> Iterator[str]:
    """Yield a warning for a former key whose value is that of every gateway.

    Args:
        properties: Its keys and values.
        shown: The same before variables were resolved, for errors.

    Raises:
        ConfigurationError: A former key has another value.
    """
    folder = file.parent / FORMER_FOLDER
    if _FOLDER in properties:
        raise ConfigurationError(
            f"{file}: {_FOLDER} is {shown[_FOLDER]!r}, but {_IN_CLUSTER}; copy the files "
            f"producer-state-* of its folder to {folder}, and the first start takes over the "
            "numbers in them"
        )
    if _STATE in properties:
        if properties[_STATE].strip() not in {"cluster", ""}:
            raise ConfigurationError(
                f"{file}: {_STATE} must be cluster; it is {shown[_STATE]!r}, but {_IN_CLUSTER}; "
                f"the first start takes over the numbers in {folder}"
            )
        yield f"{_STATE} has no effect, because {_IN_CLUSTER}"
