"""Which topics `--topic` means: names and globs, separated by commas."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob

if TYPE_CHECKING:
    from collections.abc import Collection

_INTERNAL: Final = "__"
_NEAR_MAX: Final = 3


def parse(patterns: str) -> tuple[str, ...]:
    """Return the names and globs of `--topic`, each once.

    Raises:
        ConfigurationError: There is nothing before, between or behind commas.
    """
    parts = [part.strip() for part in patterns.split(",")]
    if not all(parts):
        raise ConfigurationError(f"--topic {patterns}: names and globs, separated by commas")
    return tuple(dict.fromkeys(parts))


def select(
    patterns: str, names: Collection[str], *, servers: str, without: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the topics that `--topic` means, each once, in its order; those of a glob by name.

    Args:
        patterns: The option's value.
        names: The names of all topics. Those that begin with two underscores, Kafka's and
            Penstock's own, match no glob; they can be named.
        servers: The cluster, for errors.
        without: Topics that match no glob either: those that are written to.

    Raises:
        ConfigurationError: A topic does not exist, or a glob matches none.
    """
    topics: dict[str, None] = {}
    all_names = frozenset(names)
    for part in parse(patterns):
        if not is_glob(part):
            if part not in all_names:
                raise ConfigurationError(unknown(part, all_names, servers))
            topics[part] = None
            continue
        matching = _matching(part, all_names.difference(without))
        if not matching and (target_topics := _matching(part, all_names)):
            raise ConfigurationError(
                f"--topic {part}: {', '.join(target_topics)} cannot be written to while it is "
                "read, and no other topic matches"
            )
        if not matching:
            raise ConfigurationError(
                f"--topic {part}: no topic on {servers} matches (internal topics, __*, and topics "
                "that you may not describe match no glob)"
            )
        topics |= dict.fromkeys(matching)
    return tuple(topics)


def existing(
    patterns: str, names: Collection[str], *, without: Collection[str] = ()
) -> tuple[str, ...]:
    """Return those of the topics that `--topic` means that exist, as `select` does; perhaps none.

    Args:
        patterns: The option's value.
        names: The names of all topics.
        without: Topics that match no glob either.
    """
    topics: dict[str, None] = {}
    for part in parse(patterns):
        if is_glob(part):
            topics |= dict.fromkeys(_matching(part, frozenset(names).difference(without)))
        elif part in names:
            topics[part] = None
    return tuple(topics)


def means(parts: Collection[str], name: str) -> bool:
    """Return whether a topic is one of those that names and globs mean.

    Args:
        parts: From `parse`.
        name: The topic, which need not exist.
    """
    return name in parts or any(_matching(part, (name,)) for part in parts if is_glob(part))


def _matching(glob: str, names: Collection[str]) -> list[str]:
    return sorted(
        name for name in names if not name.startswith(_INTERNAL) and fnmatchcase(name, glob)
    )


def unknown(name: str, names: Collection[str], servers: str) -> str:
    """Return the error text for a topic that does not exist, with names near it."""
    near = ", ".join(get_close_matches(name, sorted(names), _NEAR_MAX))
    hint = f" (near it: {near})" if near else ""
    return f"there is no topic {name} on {servers}; create it, or name another{hint}"
