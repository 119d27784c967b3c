"""How tasks reach the cluster: sent to the executors, and kept out of Spark's records.

The properties travel in the serialised function of a task. Spark shows none of it: its UI, its
event log and its plans show its own settings, the options of sources and sinks, and the names of
functions. PEM stores travel as contents, so that no file has to be on an executor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from penstock.configuration.clients.stores import with_contents
from penstock.kafka.client.connections.connection import Connection, connect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, repr=False)
class ClusterAccess:
    """What a task needs for a connection.

    Attributes:
        properties: The keys after `upstream.`, with the contents of stores.
        file: The configuration file, for errors; it need not be where the task runs.
    """

    properties: Mapping[str, str]
    file: Path

    @classmethod
    def of(cls, properties: Mapping[str, str], file: Path) -> Self:
        """Read the stores.

        Args:
            properties: The keys after `upstream.`, as a Java client takes them.
            file: The configuration file; relative locations start at its folder.

        Raises:
            ConfigurationError: A store cannot be read, or is a Java key store.
        """
        return cls(with_contents(properties, file), file)

    def connect(self) -> Connection:
        """Return this process's connection.

        Raises:
            ConfigurationError: No connection can be made of the keys.
        """
        return connect(self.properties, self.file)

    def __repr__(self) -> str:
        """Return the names of the keys; values can be secrets."""
        return f"ClusterAccess({', '.join(sorted(self.properties))})"
