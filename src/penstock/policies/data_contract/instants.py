"""Dates, times and timestamps as regular expressions, which `native/` judges by the bytes.

Without a format they are those of RFC 3339, the colon in the distance from UTC being free; with
one, of Java's `DateTimeFormatter`, as far as its letters mean digits.
"""

from __future__ import annotations

import re
from typing import Final

_LEAP: Final = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE: Final = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    rf"|{_LEAP}-02-29)"
)
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
_OFFSET: Final = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])"
# Each pattern begins in another way: messages show no more than its beginning.
_DEFAULT: Final = {
    "date": (f"^{_DATE}$", "must be a date, like 2024-07-10"),
    "time": (f"^{_CLOCK}{_OFFSET}?$", "must be a time, like 08:30:00"),
    "timestamp": (
        f"^(?:{_DATE}[Tt]{_CLOCK}{_OFFSET})$",
        "must be a timestamp with its distance from UTC, like 2024-03-10T14:22:35Z",
    ),
}
_LOCAL: Final = (
    f"^(?:(?:{_DATE}[Tt ]{_CLOCK}{_OFFSET}?))$",
    "must be a timestamp, like 2024-03-10T14:22:35",
)
_LETTERS: Final = {
    "yyyy": r"[0-9]{4}", "uuuu": r"[0-9]{4}", "YYYY": r"[0-9]{4}", "yy": r"[0-9]{2}",
    "MM": r"(?:0[1-9]|1[0-2])", "M": r"(?:[1-9]|1[0-2])",
    "dd": r"(?:0[1-9]|[12][0-9]|3[01])", "d": r"(?:[1-9]|[12][0-9]|3[01])",
    "DD": r"(?:0[1-9]|[12][0-9]|3[01])",
    "HH": r"(?:[01][0-9]|2[0-3])", "H": r"(?:[0-9]|1[0-9]|2[0-3])",
    "hh": r"(?:0[1-9]|1[0-2])", "h": r"(?:[1-9]|1[0-2])",
    "mm": r"[0-5][0-9]", "m": r"(?:[0-9]|[1-5][0-9])",
    "ss": r"(?:[0-5][0-9]|60)", "s": r"(?:[0-9]|[1-5][0-9]|60)",
    **{"S" * count: f"[0-9]{{{count}}}" for count in range(1, 10)},
    "Z": r"(?:[+-][0-9]{4}|[+-][0-9]{2}:[0-9]{2}|Z)",
    "X": r"(?:Z|[+-][0-9]{2}(?:[0-9]{2})?)", "XX": r"(?:Z|[+-][0-9]{4})",
    "XXX": r"(?:Z|[+-][0-9]{2}:[0-9]{2})", "xxx": r"[+-][0-9]{2}:[0-9]{2}",
    "a": r"(?:AM|PM|am|pm)",
    "T": "T",  # a letter that has no meaning is often written without quotes
}  # fmt: skip
_PART: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']")
_SPECIAL: Final = re.compile(r"[.+*?|(){}^$\[\]\\/-]")


def pattern_of(kind: str, form: str | None, *, has_zone: bool = True) -> tuple[str, str] | None:
    """Return a regular expression for a logical type, and the message about other texts.

    Args:
        kind: `date`, `time` or `timestamp`.
        form: The format, if it has one.
        has_zone: Whether a timestamp without a format needs its distance from UTC.

    Returns:
        None where the format has parts that are not known here.
    """
    if form is None:
        return _LOCAL if kind == "timestamp" and not has_zone else _DEFAULT[kind]
    parts = []
    position = 0
    for part in _PART.finditer(form):
        if part.start() != position:
            return None
        position = part.end()
        text = part[0]
        if text.startswith("'"):
            parts.append(_escaped(text[1:-1].replace("''", "'") or "'"))
        elif part[1] is None:
            parts.append(_escaped(text))
        elif text in _LETTERS:
            parts.append(_LETTERS[text])
        else:
            return None
    if position != len(form) or not parts:
        return None
    return f"^{''.join(parts)}$", f"must be a {kind} of the form {form}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda sign: f"\\{sign[0]}", text)
