"""The parts of a gateway that metrics and the console read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.observing.audit_trail.trail import AuditTrail
    from penstock.kafka.cluster.state_writes import StateWrites


class ConnectionState(Enum):
    """The state of a client's connection, in the words of metrics."""

    CONNECTING = "connecting"
    """The connection to the broker is not open yet."""
    OPEN = "open"
    PAUSED = "paused"
    """The client is not read for now: too much of it is held, or is not taken by the broker."""
    ENDING = "ending"
    """Requests in flight get their responses."""
    CLOSING = "closing"
    """The written bytes are being flushed."""


class MeasuredConnection(Protocol):
    """A client's connection, as far as it is measured."""

    @property
    def state(self) -> ConnectionState:
        """The state, in the words of metrics."""

    @property
    def tls_library(self) -> str:
        """The library that has the TLS of the connection; empty without TLS."""

    @property
    def broker_tls_library(self) -> str:
        """The same of the connection to the broker, if there is one."""


class MeasuredMemory(Protocol):
    """The memory budget of all clients, as far as it is measured."""

    @property
    def used_bytes(self) -> int:
        """The memory that is held now."""

    @property
    def max_bytes(self) -> int:
        """The most of it."""


@dataclass(frozen=True, slots=True)
class ProducerFigures:
    """The state of producers whose records were dropped, in figures.

    Attributes:
        count: How many producers there are, counted for each partition.
        topics: The number of topics whose batches native threads leave to Python.
        kept_bytes: The memory of the state that other gateways serve, or that is idle.
        evicted: How many producers were removed to save memory.
        translated: How many batches were sent with changed sequence numbers.
    """

    count: int
    topics: int
    kept_bytes: int
    evicted: int
    translated: int


class Measured(Protocol):
    """A gateway, as far as it is measured."""

    @property
    def connections(self) -> Collection[MeasuredConnection]:
        """The open connections of clients."""

    @property
    def connections_max(self) -> int:
        """The most of them."""

    @property
    def certificate_expires_at(self) -> float | None:
        """When the listener's certificate expires, in seconds since 1970; None without TLS."""

    @property
    def budget(self) -> MeasuredMemory:
        """The memory budget of all clients."""

    @property
    def producers(self) -> ProducerFigures:
        """The state of producers whose records were dropped."""

    @property
    def all_schedules(self) -> Sequence[Schedule]:
        """The schedules of the policies in force, and of those that finish their work."""

    @property
    def audit_trail(self) -> AuditTrail | None:
        """Where refusals are written; None if they are not."""

    @property
    def plan_digests(self) -> Mapping[str, str]:
        """The digests of topics' plans, by topic."""

    @property
    def state_writes(self) -> Mapping[str, StateWrites]:
        """How writes of state have ended, by the kind of state."""

    @property
    def settings_position(self) -> int:
        """The offset up to which the settings of topics have been read; 0 if there are none."""
