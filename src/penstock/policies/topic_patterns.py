"""Regular expressions for names of topics, in Python's dialect and in no other."""

from __future__ import annotations

import re
import warnings


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises:
        ValueError: It is invalid, or has a class of POSIX or an operation on sets of Java, which
            Python reads as other characters; the text says why.
    """
    re.purge()  # a pattern that was compiled before gives no warning
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return re.compile(text)
        except FutureWarning:
            raise ValueError(
                "[ within [] has no meaning, as in [[:lower:]], nor have &&, ||, -- and ~~: write "
                "the characters, like [a-z], or a backslash before each of these"
            ) from None
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None
