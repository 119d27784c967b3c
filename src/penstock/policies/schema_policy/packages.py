"""Packages that are not installed with Penstock alone."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

OF_SCHEMAS: Final = ("fastavro", "google.protobuf", "grpc_tools", "urllib3")
OF_RULES: Final = ("cel_expr_python",)
OF_RULES_OF_SCHEMAS: Final = (*OF_RULES, "protovalidate")


def check_packages(names: tuple[str, ...], extra: str) -> None:
    """Look whether packages are there, without loading them.

    What is loaded only for the first schema of its type would otherwise be missed in the middle
    of a batch.

    Args:
        names: Those that are needed.
        extra: What installs them.

    Raises:
        ValueError: A package is missing; the text says what installs it.
    """
    for name in names:
        try:
            is_there = find_spec(name) is not None
        except (ModuleNotFoundError, ValueError):  # of its parent; of what is barred
            is_there = False
        if not is_there:
            raise ValueError(f"there is no module {name}: pip install 'penstock[{extra}]'")
