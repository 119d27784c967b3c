"""JSON as Python's values, with the numbers as they are written.

The parser is Python's: a column may be a DECIMAL, so no number becomes a double first. It also
reads texts that are not JSON, which are refused here.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.decoded.errors import NotDecodedError

if TYPE_CHECKING:
    from typing import NoReturn


def read_json(data: bytes) -> Any:
    """Return the value of a JSON text; numbers with a fraction or an exponent are decimals.

    Raises:
        NotDecodedError: It is not JSON in UTF-8, or has a number of thousands of digits, or
            thousands of levels.
    """
    try:
        return _DECODER.decode(data.decode())
    except (ValueError, ArithmeticError, RecursionError):
        raise NotDecodedError("is not JSON") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)
