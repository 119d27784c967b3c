"""The topic level keys that the configuration file sets for topics, by their names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from penstock.configuration.globs import covers, is_glob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.configuration import TopicDefault


class TopicDefaults:
    """The lines `topics.<glob>.<key>`, and the lines for all topics.

    The longest glob that matches wins; of equally long globs, the alphabetically first.
    """

    def __init__(self, defaults: Iterable[TopicDefault]) -> None:
        self._defaults = sorted(defaults, key=lambda default: (-len(default.glob), default.glob))
        self._keys_by_topic: dict[str, list[str]] = {}
        self._lines_by_glob: dict[str, Mapping[str, TopicDefault]] = {}
        for line in self._defaults:
            if not is_glob(line.glob):
                self._keys_by_topic.setdefault(line.glob, []).append(line.key)

    def __iter__(self) -> Iterator[TopicDefault]:
        return iter(self._defaults)

    @property
    def topics(self) -> set[str]:
        """The globs that are the name of a single topic."""
        return set(self._keys_by_topic)

    def keys_of(self, topic: str) -> Sequence[str]:
        """Return the keys of the lines that are for one topic alone."""
        return self._keys_by_topic.get(topic, ())

    def values(self, key: str) -> list[str]:
        """Return the values that a key has for some topic."""
        return [line.value for line in self._defaults if line.key == key]

    def settings(self, topic: str) -> dict[str, str]:
        """Return the keys that hold for a topic."""
        settings: dict[str, str] = {}
        for line in self._defaults:
            if fnmatchcase(topic, line.glob):
                settings.setdefault(line.key, line.value)
        return settings

    def lines_of_pattern(self, glob: str) -> Mapping[str, TopicDefault]:
        """Return the line of each key that holds for all topics that a glob matches.

        Args:
            glob: A glob of the file, or the name of a topic; not a name that a client may choose,
                since globs take longer.
        """
        if not is_glob(glob):
            return _by_key(line for line in self._defaults if fnmatchcase(glob, line.glob))
        if glob not in self._lines_by_glob:
            lines = _by_key(line for line in self._defaults if covers(line.glob, glob))
            self._lines_by_glob[glob] = lines
        return self._lines_by_glob[glob]

    def settings_of_pattern(self, glob: str) -> dict[str, str]:
        """Return the keys that hold for all topics that a glob matches."""
        return {key: line.value for key, line in self.lines_of_pattern(glob).items()}


def _by_key(lines: Iterable[TopicDefault]) -> dict[str, TopicDefault]:
    """Return the first line of each key."""
    lines_by_key: dict[str, TopicDefault] = {}
    for line in lines:
        lines_by_key.setdefault(line.key, line)
    return lines_by_key
