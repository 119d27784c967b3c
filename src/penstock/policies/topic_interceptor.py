"""What all built-in interceptors have: the topics, and settings by class or by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.policies.topic_patterns import compile_pattern
from penstock.policy import ConfigKey, ProduceRequestInterceptor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def _pattern(text: str) -> str:
    """Read a regular expression."""
    pattern = text.strip()
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"a regular expression, not {pattern!r}: {error}") from None
    return pattern


class TopicInterceptor(ProduceRequestInterceptor):
    """An interceptor for the topics in whose names `topics` is found (`re.search`).

    Its settings are attributes of a class that derives from it. As a named policy it takes them
    from the keys of the file, too: an attribute `key_from` is the key `key.from`.
    """

    reads_timestamps = False
    topics: ClassVar[str]
    config_keys: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey(
            "topics",
            documentation=(
                "A regular expression that is found in the topic's name. Default: every topic "
                "that names the policy."
            ),
        ),
    )
    readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {"topics": _pattern}
    """From the text of a key to the value of the attribute; ValueError names the valid values."""

    def configure(self, configs: Mapping[str, str] | None = None) -> None:
        """Read the settings.

        Args:
            configs: The configuration, for a named policy; its keys win over attributes.

        Raises:
            ValueError: A setting is missing or is invalid.
        """
        if configs is not None:
            self.take(configs)
        elif not getattr(self, "topics", None):
            raise ValueError(f"{type(self).__name__}.topics must be set")

    def take(self, configs: Mapping[str, str]) -> None:
        """Take settings from keys.

        Raises:
            ValueError: A setting is invalid.
        """
        for key, reader in self.readers.items():
            if key in configs:
                try:
                    setattr(self, key.replace(".", "_"), reader(configs[key]))
                except ValueError as error:
                    raise ValueError(f"{key} must be {error}") from None
        if getattr(self, "topics", None) is None:
            setattr(self, "topics", "")  # noqa: B010 - of this instance

    def interceptor_topic_pattern(self) -> str:
        """Return `topics`."""
        return self.topics


def items(text: str) -> tuple[str, ...]:
    """Read a comma-separated list."""
    return tuple(glob.strip() for glob in text.split(",") if glob.strip())


def boolean(text: str) -> bool:
    """Read `true` or `false`."""
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def json_or_text(text: str) -> Any:
    """Read a JSON value; any other text stays a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
