"""The options in `sasl.jaas.config`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTION: Final = re.compile(
    r"""([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}


def jaas_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options in `sasl.jaas.config`, by name; none without it."""
    return {
        match[1]: match[4] or _unescaped(match[2] or match[3] or "")
        for match in _OPTION.finditer(properties.get("sasl.jaas.config", ""))
    }


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _CONTROLS.get(match[1], match[1]), text)
