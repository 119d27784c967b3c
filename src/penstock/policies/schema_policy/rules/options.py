"""How rules are read: the keys of the configuration file that Confluent's clients have, too.

Sources: Confluent's `CelExecutor` (`cel.regex.engine`), and its serializer for Avro
(`avro.use.logical.type.converters`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

REGEX_ENGINE: Final = "cel.regex.engine"
LOGICAL_TYPES: Final = "avro.use.logical.type.converters"

KEYS: Final = {
    REGEX_ENGINE: (
        "re2",
        (
            "What `matches` means in rules of types `CEL` and `CEL_FIELD` without this parameter. "
            "`re2`: the pattern is found anywhere in the text, as in CEL and in most of "
            "Confluent's clients. `pcre`: it is the whole text and can look ahead, as in its "
            "client for Java."
        ),
    ),
    LOGICAL_TYPES: (
        "true",
        (
            "Whether rules see Avro's logical types as timestamps and decimals. `false`: as "
            "numbers and bytes."
        ),
    ),
}
"""Keys of the configuration file, with defaults and meanings for the configuration reference."""


class RegexEngine(Enum):
    """What `matches` means."""

    RE2 = "re2"
    """The pattern is found anywhere in the text."""
    PCRE = "pcre"
    """The pattern matches the complete text, and may have look-around."""


class RuleOptions(NamedTuple):
    """The values of `KEYS`.

    Attributes:
        regex_engine: What `matches` means in rules that do not say so.
        logical_types: Whether rules see Avro's logical types.
    """

    regex_engine: RegexEngine = RegexEngine.RE2
    logical_types: bool = True

    @classmethod
    def read(cls, configs: Mapping[str, str]) -> RuleOptions:
        """Read the keys out of a configuration.

        Raises:
            ValueError: An option has an invalid value; the text names it.
        """
        logical = configs.get(LOGICAL_TYPES, "true").strip().lower()
        if logical not in {"true", "false"}:
            raise ValueError(f"{LOGICAL_TYPES} must be true or false, not {logical or 'nothing'}")
        return cls(regex_engine(configs.get(REGEX_ENGINE, "")), logical == "true")


def regex_engine(text: str) -> RegexEngine:
    """Return the engine of a name; the default for none.

    Raises:
        ValueError: There is no such engine.
    """
    try:
        return RegexEngine(text.strip().lower() or "re2")
    except ValueError:
        raise ValueError(f"{REGEX_ENGINE} must be re2 or pcre, not {text.strip()}") from None
