"""The keys that a built-in policy gets in `configure()`: read, and refused where they are wrong.

A policy with a name gets them without their prefix: `policies.sizes.value.max.bytes` is
`value.max.bytes`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NOT_IN_NAMES: Final = re.compile(r"""[;|"'\[\]{}]|^#""")
"""What names in a list do not have: their authors mean another kind of list, or a comment."""


def names(
    configs: Mapping[str, str],
    key: str,
    example: str,
    split: Callable[[str], Iterable[str]] = lambda text: text.split(","),
) -> tuple[str, ...]:
    """Return the names that a key lists, each once, in their order.

    Args:
        configs: What `configure()` got.
        example: A value that it can have, for the message.
        split: Returns the items of a list.

    Raises:
        ValueError: It is missing or empty.
    """
    name_list = [name.strip() for name in split(configs.get(key, ""))]
    if not all(name_list):
        raise ValueError(
            f"{key} must list names, like {key}={example}, not {configs.get(key, '') or 'nothing'}"
        )
    return tuple(dict.fromkeys(name_list))


def accepts(configs: Mapping[str, str], key: str, default: str) -> bool:
    """Return whether a key is `accept`, not `refuse`.

    Raises:
        ValueError: It is neither.
    """
    return one_of(configs, key, default, ("accept", "refuse")) == "accept"


def one_of(configs: Mapping[str, str], key: str, default: str, allowed: tuple[str, ...]) -> str:
    """Return a key's value, in small letters.

    Raises:
        ValueError: It is not one of the valid values.
    """
    value = configs.get(key, default).strip().lower()
    if value not in allowed:
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, not {value or 'nothing'}")
    return value


def limit(configs: Mapping[str, str], key: str) -> int | None:
    """Return the bytes that a key allows; None where it is not given.

    Raises:
        ValueError: It is not an integer from 0.
    """
    value = configs.get(key)
    if value is None:
        return None
    text = value.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise ValueError(f"{key} must be a number of bytes, from 0, not {text or 'nothing'}")
    return int(text)
