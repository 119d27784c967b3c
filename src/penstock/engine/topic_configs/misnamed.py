"""Finds the topic level key that is meant by the name of an unknown config.

No broker knows them: it refuses them with INVALID_CONFIG, like all names that it does not know.
The gateway adds to its message.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from penstock.configuration.declared_keys import VALIDATION
from penstock.configuration.file import (
    CLOSE,
    CLOSE_OF_PENSTOCKS_ALONE,
    FILE_KEYS,
    PENSTOCKS_ALONE,
)
from penstock.configuration.installed_policies import reader_of_topic_key
from penstock.configuration.named_policies import PREFIX as OF_POLICIES
from penstock.configuration.policies import NAMES
from penstock.configuration.topic_keys import KEYS_OF_KAFKA, POLICIES, Scope, keys_in
from penstock.configuration.unread_keys import OF_BUILT_IN_POLICIES
from penstock.engine.topic_configs import definitions

if TYPE_CHECKING:
    from collections.abc import Collection

_UNKNOWN: Final = "Unknown topic config name: "
"""How brokers begin the message (LogConfig.java, validateNames)."""
_OF_TOPICS: Final = "topics."
_SHARED: Final = (
    "record.",
    "records.",
    "produce.",
    "policy.",
    "topic.settings.",
    "confluent.key.",
    "confluent.value.",
    "schema.",
)
_OF_POLICIES: Final = (OF_POLICIES, *OF_BUILT_IN_POLICIES)
_BEGINNINGS: Final = (*PENSTOCKS_ALONE, *_OF_POLICIES, _OF_TOPICS, *_SHARED)
_NAME_MAX: Final = 100
_OF_FILE: Final = "it belongs in the gateway's configuration file"
_NOT_KEPT: Final = (
    "the gateway keeps no topic level keys: its configuration file has no policy for them, or an "
    "empty topic.settings.topic"
)
_NOT_ALLOWED: Final = (
    "the gateway's configuration file does not allow it on topics (topic.settings.keys.allowed)"
)
_MESSAGE_MAX_BYTES: Final = 32_767
"""Older versions of the responses take no longer text."""


def may_be_own(name: str) -> bool:
    """Return whether a name looks like one of Penstock's."""
    is_like_own = name == NAMES or name.lower().startswith(_BEGINNINGS)
    return is_like_own and name not in KEYS_OF_KAFKA


def explained(message: str | None, allowed: Collection[str] | None) -> str | None:
    """Return a broker's message about an unknown config, with the key that is meant.

    Args:
        message: The message of its INVALID_CONFIG error.
        allowed: The topic level keys that may be set on topics; None if the gateway keeps none.

    Returns:
        None if the message has another meaning, or the name is not like Penstock's.
    """
    if not (message and message.startswith(_UNKNOWN)):
        return None
    suggestion = _meant(message.removeprefix(_UNKNOWN), allowed)
    explanation = f"{message}; {suggestion}"
    return explanation if suggestion and len(explanation.encode()) <= _MESSAGE_MAX_BYTES else None


def _meant(name: str, allowed: Collection[str] | None) -> str | None:
    if not may_be_own(name):
        return None
    if name == NAMES:
        on_topic = f"; on a topic, {POLICIES} has the names of policies"
        return _OF_FILE + (on_topic if POLICIES in (allowed or ()) else "")
    if name.startswith(_OF_TOPICS):
        key = next((key for key in allowed or () if name.endswith(f".{key}")), None)
        return _OF_FILE + (f"; on a topic, it is {key}" if key else "")
    if name in definitions.config_keys():
        return _NOT_KEPT if allowed is None else None
    of_file = {*FILE_KEYS, *keys_in(Scope.FILE)}
    if name in of_file or name.startswith(_OF_POLICIES):
        return _OF_FILE
    reader = reader_of_topic_key(name)
    if reader is not None:
        return f"{reader} reads it, and the gateway has no such {VALIDATION}"
    return _close(name.lower(), of_file, allowed)


def _close(name: str, of_file: Collection[str], allowed: Collection[str] | None) -> str | None:
    """Return the key that a misspelt name is like; all keys where the name is Penstock's alone."""
    of_topics = definitions.config_keys()
    is_own = name.startswith(PENSTOCKS_ALONE)
    if len(name) <= _NAME_MAX:
        keys = [*of_topics, *(key for key in of_file if may_be_own(key))]
        cutoff = CLOSE_OF_PENSTOCKS_ALONE if is_own else CLOSE
        for key in difflib.get_close_matches(name, keys, n=1, cutoff=cutoff):
            where = _where(key, allowed) if key in of_topics else _OF_FILE
            return f"did you mean {key}?" + (where and f" {where[0].upper()}{where[1:]}")
    if not is_own:
        return None
    if not allowed:
        return _NOT_KEPT if allowed is None else None
    return f"the topic level keys of Penstock are {', '.join(allowed)}"


def _where(key: str, allowed: Collection[str] | None) -> str:
    """Return why a topic level key cannot be set on topics; empty if it can."""
    if allowed is None:
        return _NOT_KEPT
    return "" if key in allowed else _NOT_ALLOWED
