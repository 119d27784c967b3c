"""A value of a union that does not show which of the union's types it is of."""

from __future__ import annotations

from typing import Final


class Unclear:
    """Its kind."""

    def __repr__(self) -> str:
        return "UNCLEAR"


UNCLEAR: Final = Unclear()
"""The value: the stored number or bytes are known, but not their meaning."""
