"""Packages that are not installed with Penstock alone."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

OF_SCHEMAS: Final = ("fastavro", "google.protobuf", "grpc_tools", "urllib3")
OF_RULES: Final = ("cel_expr_python",)
OF_RULES_OF_SCHEMAS: Final = (*OF_RULES, "protovalidate")


def check_packages(names: tuple[str, ...], extra: str) -> None:
    """Check whether packages are installed, without importing them.

    Packages that are imported only for the first schema of a type would otherwise be missed in the
    middle of a batch.

    Args:
        extra: The extra that installs them.

    Raises:
        ValueError: A package is missing; the text names the extra.
    """
    for name in names:
        try:
            is_there = find_spec(name) is not None
        except (ModuleNotFoundError, ValueError):  # the parent is missing; the import is blocked
            is_there = False
        if not is_there:
            raise ValueError(f"there is no module {name}: pip install 'penstock-kafka[{extra}]'")
