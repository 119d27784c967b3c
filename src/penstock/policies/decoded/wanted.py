"""The fields of values that a column has: others need not be decoded."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wanted:
    """The fields that a column has of a value, or of each value of an array."""

    def __init__(
        self, fields: Mapping[str, Wanted] | None = None, each: Wanted | None = None
    ) -> None:
        """Take the fields.

        Args:
            fields: The fields in each field, by name; None for all fields.
            each: The fields in each field if there are all; None for all fields.
        """
        self._fields = fields
        self._each = each

    def of(self, name: str) -> Wanted | None:
        """Return the fields in a field; None if the column does not have it.

        A name may differ in case from the column's: the column refuses such a value.
        """
        if self._fields is None:
            return self._each or ALL
        return self._fields.get(name) or self._folded.get(name.lower())

    @cached_property
    def _folded(self) -> Mapping[str, Wanted]:
        return {name.lower(): selection for name, selection in (self._fields or {}).items()}


ALL: Final = Wanted()
