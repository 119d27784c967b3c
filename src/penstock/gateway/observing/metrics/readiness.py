"""Whether a gateway can serve clients, and the missing parts, in words (`/readyz`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.observing.metrics.broker_checks import Reached
    from penstock.kafka.cluster.state_writes import StateWrites


_NO_PORT: Final = "its node id has no port (broker.ports, broker.ids.first)"


class Readiness(NamedTuple):
    """The missing parts.

    Attributes:
        missing: Why clients should be sent elsewhere; empty if they need not be.
        troubles: Other faults.
    """

    missing: Sequence[str]
    troubles: Sequence[str]

    @property
    def text(self) -> str:
        """All of it, a line each."""
        first = "not ready" if self.missing else "ready"
        return "".join(f"{line}\n" for line in (first, *self.missing, *self.troubles))


class Inspected(Protocol):
    """The part of a gateway that readiness depends on."""

    @property
    def schedules(self) -> Sequence[Schedule]:
        """The schedules of the policies in force: of records, of topics."""

    @property
    def is_loaded(self) -> bool:
        """Whether policies are in force."""

    @property
    def settings_are_missing(self) -> bool:
        """Whether topics have settings that are not read yet."""

    @property
    def state_writes(self) -> Mapping[str, StateWrites]:
        """How writes of state have ended, by the kind of state."""

    @property
    def is_listening(self) -> bool:
        """Whether clients are accepted."""

    @property
    def brokers_out_of_reach(self) -> Collection[int]:
        """The node ids of brokers that clients cannot reach, because they have no port."""

    @property
    def is_ending(self) -> bool:
        """Whether it is about to end."""


def inspect(gateway: Inspected, brokers: Mapping[int, Reached]) -> Readiness:
    """Return the reasons why a gateway is not ready."""
    if gateway.is_ending:
        return Readiness(["the gateway is ending"], [])
    reasons = list(_about_policies(gateway))
    if gateway.settings_are_missing:
        reasons.append("settings: those of topics have not been read yet")
    # No other gateway can write the state either, and topics that need none are served.
    troubles = [writes.trouble for writes in gateway.state_writes.values() if writes.trouble]
    out_of_reach = gateway.brokers_out_of_reach
    unreachable = [
        f"broker {node} at {broker.address} cannot be reached: {why_not}"
        for node, broker in sorted(brokers.items())
        if (why_not := broker.why_not or (_NO_PORT if node in out_of_reach else ""))
    ]
    if not brokers:
        reasons.append("brokers: none has been reached yet")
    elif len(unreachable) == len(brokers):
        reasons += unreachable
        unreachable = []
    if not reasons and not gateway.is_listening:
        reasons.append("listeners: no client is accepted yet")
    return Readiness(reasons, troubles + unreachable)


def _about_policies(gateway: Inspected) -> Iterator[str]:
    if not gateway.is_loaded:
        yield "policies: they have not been loaded yet"
        return
    for schedule in gateway.schedules:
        if not schedule.judging:
            yield f"policies: no worker has them: {schedule.pool.last_error or 'one is starting'}"
