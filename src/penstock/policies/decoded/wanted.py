"""The fields of values that a column has: others are not decoded where that takes memory."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wanted:
    """What is wanted of a value, or of each value of an array."""

    def __init__(
        self, fields: Mapping[str, Wanted] | None = None, each: Wanted | None = None
    ) -> None:
        """Take the fields.

        Args:
            fields: What is wanted of each field, by name; None for all fields.
            each: What is wanted of each value if all fields are; None for everything.
        """
        self._fields = fields
        self._each = each

    def of(self, name: str) -> Wanted | None:
        """Return what is wanted of a field; None if it is not wanted.

        A field whose name differs from that of a column in case only is wanted, since it is an
        error.
        """
        if self._fields is None:
            return self._each or ALL
        return self._fields.get(name) or self._folded.get(name.lower())

    @cached_property
    def _folded(self) -> Mapping[str, Wanted]:
        return {name.lower(): wanted for name, wanted in (self._fields or {}).items()}


ALL: Final = Wanted()
