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
_MODULES: Final = "org.apache.kafka.common.security"
_MODULE: Final = {
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
}


def jaas_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options in `sasl.jaas.config`, by name; none without it."""
    return {
        match[1]: match[4] or _unescaped(match[2] or match[3] or "")
        for match in _OPTION.finditer(properties.get("sasl.jaas.config", ""))
    }


def jaas_config(mechanism: str, options: Mapping[str, str]) -> str:
    """Return `sasl.jaas.config` for a mechanism that Kafka has a login module for."""
    given = "".join(f' {name}="{_quoted(value)}"' for name, value in options.items())
    return f"{_MODULE[mechanism]} required{given};"


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _CONTROLS.get(match[1], match[1]), text)


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    for letter, control in _CONTROLS.items():
        text = text.replace(control, f"\\{letter}")
    return text
