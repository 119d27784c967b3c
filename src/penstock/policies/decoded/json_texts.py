"""JSON as Python's values, with the numbers as they are written.

The parser is Python's: a column may be a DECIMAL, so no number becomes a double first. It also
reads texts that are not JSON, which are refused here.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.decoded.errors import NotDecodedError, NotJsonError

if TYPE_CHECKING:
    from typing import NoReturn


def read_json(data: bytes) -> Any:
    """Return the value of a JSON text; numbers with a fraction or an exponent are decimals.

    Raises:
        NotJsonError: It is not JSON in UTF-8.
        NotDecodedError: It has a number of thousands of digits, a huge exponent, or thousands of
            levels.
    """
    try:
        return _DECODER.decode(data.decode())
    except (json.JSONDecodeError, UnicodeDecodeError, NotJsonError):
        raise NotJsonError("is not JSON") from None
    except (ValueError, ArithmeticError, RecursionError):
        raise NotDecodedError("has thousands of digits or levels") from None


def _refuse(name: str) -> NoReturn:
    raise NotJsonError(name)


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)
