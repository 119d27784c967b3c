"""How large the machine is that RE2 makes of a regular expression."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|$)"  # as it is written
    r"|\\."
    r"|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"  # a class
    r"|\((?:\?[^:)]*:?)?"
    r"|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}"
    r"|.",
    re.DOTALL,
)


def size_of(pattern: str) -> int:
    """Return how many characters a pattern has when its counted repetitions are written out.

    RE2 looks at each character of a text once for each state that its machine may be in; this
    many states there may be. The estimate is for patterns that RE2 takes.
    """
    totals = [0]
    last = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text.startswith("("):
            totals.append(0)
            last = 0
        elif text == ")" and len(totals) > 1:
            last = max(totals.pop(), 1)
            totals[-1] += last
        elif token["least"] is not None:
            times = max(int(token["least"]), int(token["most"] or 0), 1)
            totals[-1] += last * (times - 1)
            last *= times
        elif text not in {"*", "+", "?", "|", "^", "$", ")"}:
            last = len(text) if text.startswith("\\Q") else 1
            totals[-1] += last
    return sum(totals)
