"""Reference counts of the instances of KIP-686: one for each topic and class."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    Instance = tuple[str, str]
    """A topic and its class."""


class InstanceUsage:
    """Counts the batches in flight for each instance."""

    def __init__(self) -> None:
        self._in_use: Counter[Instance] = Counter()
        self._names_by_topic: dict[str, set[str]] = {}
        self._retirements: set[Instance] = set()

    def used(self, topic: str, name: str) -> None:
        """Count a batch."""
        self._in_use[topic, name] += 1
        self._names_by_topic.setdefault(topic, set()).add(name)

    def is_known(self, topic: str, name: str) -> bool:
        """Return whether a topic has an instance of a class, which is not to be closed now."""
        return name in self._names_by_topic.get(topic, ())

    def stays(self, topic: str, name: str) -> bool:
        """Return whether a topic has an instance of a class, which is not to be closed at all."""
        return self.is_known(topic, name) and (topic, name) not in self._retirements

    def free(self, topic: str, name: str) -> bool:
        """Count a batch off; return whether its instance is now to be closed."""
        self._in_use[topic, name] -= 1
        return bool(self._retirements) and self._retire((topic, name))

    def retain(self, topic: str, names: Container[str]) -> Iterator[str]:
        """Mark a topic's instances of other classes to be closed, each after its last batch.

        Args:
            topic: The topic, whose class has changed, or which was deleted.
            names: The classes that it still has.

        Returns:
            The classes whose instances can be closed now.
        """
        for name in list(self._names_by_topic.get(topic, ())):
            if name in names:
                self._retirements.discard((topic, name))
            else:
                self._retirements.add((topic, name))
                if self._retire((topic, name)):
                    yield name

    def _retire(self, instance: Instance) -> bool:
        if instance not in self._retirements or self._in_use[instance]:
            return False
        topic, name = instance
        self._retirements.discard(instance)
        del self._in_use[instance]
        self._names_by_topic[topic].discard(name)
        if not self._names_by_topic[topic]:
            del self._names_by_topic[topic]
        return True
