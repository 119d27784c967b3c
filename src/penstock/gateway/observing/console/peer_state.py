"""The state of one gateway, as gateways read it from each other: lines of JSON.

`/api/state` of a gateway with peers is that of all of them, so peers read another path: nothing of
other gateways is in it. Each line is read by itself, with everything else in between, and is
checked: a peer may be of another version, or lie. What it says of itself is believed, in bounds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from penstock.gateway.observing.console.peer_request import PeerError
from penstock.gateway.observing.console.recent_refusals import MINUTES_MAX, ROWS_MAX, shown
from penstock.gateway.observing.console.subscribers import as_text
from penstock.gateway.observing.metrics.cells import BOUNDS, SERIES_MAX
from penstock.gateway.observing.plan_watch import TOPICS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH: Final = "/api/own"
CONTENT_TYPE: Final = "application/x-ndjson"
LINE_MAX: Final = 64 * 1024
TEXTS_MAX: Final = 20
"""The most texts about what is missing; the page of the gateway itself has all of them."""
BROKERS_MAX: Final = 1000
_LINES_AT_ONCE: Final = 20
_LONG_LINE: Final = 4096
_LINES_MAX: Final = 1 + BROKERS_MAX + SERIES_MAX + TOPICS_MAX + ROWS_MAX
_OTHER: Final = "its answer is not that of a gateway of this version"

_Text = Annotated[str, AfterValidator(shown)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Time = Annotated[float, Field(ge=0, le=2**40)]
_Counts = Annotated[dict[Annotated[str, Field(max_length=40)], _Count], Field(max_length=40)]
_Buckets = Annotated[
    tuple[_Count, ...], Field(min_length=len(BOUNDS) + 1, max_length=len(BOUNDS) + 1)
]
_Minute = Annotated[list[_Count], Field(min_length=2, max_length=2)]
_Minutes = Annotated[list[_Minute], Field(max_length=MINUTES_MAX)]
_Texts = Annotated[list[_Text], Field(max_length=TEXTS_MAX)]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, defer_build=True)


class About(_Model):
    """What does not change while a gateway runs."""

    host: _Text
    listener: _Text
    upstream: _Text
    file: _Text
    version: _Text
    python: _Text
    started: _Time
    mode_of_file: _Text


class Ready(_Model):
    """Whether it serves clients, and why not."""

    is_ready: bool
    missing: _Texts
    troubles: _Texts


class Connections(_Model):
    """The connections of clients."""

    limit: _Count
    states: _Counts


class HeldBytes(_Model):
    """The memory that is held for clients."""

    held: _Count
    limit: _Count


class Workers(_Model):
    """The processes that run policies."""

    states: _Counts
    limit: _Count
    waiting: _Count
    sent: _Count


class Written(_Model):
    """What became of the records of the audit trail."""

    written: _Count
    left_out: _Count


class LastReload(_Model):
    """How the last reload ended."""

    at: _Time
    worked: bool
    why_not: _Text


class Totals(_Model):
    """The counts since the start; see `CountedTotals`."""

    requests: _Count
    records: _Counts
    client_bytes: _Count
    broker_bytes: _Count
    produce: _Buckets
    waiting: _Buckets
    judging: _Buckets
    broker: _Buckets


class Head(_Model):
    """The first line.

    Attributes:
        run: The id of this run of the gateway.
        at: The time of its clock.
        others: How many refusals have no row.
    """

    api: int
    run: Annotated[str, Field(min_length=16, max_length=64, pattern=r"^[0-9a-f-]+$")]
    at: _Time
    gateway: About
    ready: Ready
    connections: Connections
    held_bytes: HeldBytes
    workers: Workers
    audit_trail: Written | None
    settings_generation: _Count
    producers: _Count
    restarts: _Counts
    totals: Totals
    reload: LastReload | None
    others: _Count


class Broker(_Model):
    """Whether a broker can be reached."""

    node: Annotated[int, Field(ge=-(2**31), lt=2**31)]
    address: _Text
    reachable: bool
    why_not: _Text
    seconds_ago: _Time


class Topic(_Model):
    """The records of a topic, by outcome."""

    topic: _Text
    records: _Counts


class Plan(_Model):
    """The digest of a topic's plan."""

    topic: _Text
    plan: Annotated[str, Field(min_length=1, max_length=20)]


class Row(_Model):
    """A reason for refusals; see `RefusalRow`."""

    observed: bool
    outcome: Annotated[str, Field(max_length=40)]
    topic: _Text
    partition: Annotated[int, Field(ge=0, lt=2**31)] | None
    policy: _Text
    code: Annotated[int, Field(ge=-(2**15), lt=2**15)]
    message: _Text
    client: _Text | None
    principal: _Text | None
    address: _Text | None
    dead_letter_topic: _Text | None
    count: _Count
    records: _Count
    first: _Time
    last: _Time
    detail: _Text = ""
    minutes: _Minutes = Field(default_factory=list)


class Line(_Model):
    """One line: one of them."""

    head: Head | None = None
    broker: Broker | None = None
    topic: Topic | None = None
    plan: Plan | None = None
    row: Row | None = None


@dataclass(slots=True)
class GatewayState:
    """What a gateway says of itself.

    Attributes:
        head: The figures; see `Head`.
        brokers: Whether brokers can be reached.
        topics: Records by topic and outcome.
        rows: The reasons for refusals.
        plans: The digests of topics' plans, by topic.
    """

    head: dict[str, Any]
    brokers: list[dict[str, Any]] = field(default_factory=list)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    plans: dict[str, str] = field(default_factory=dict)

    async def encode(self) -> bytes:
        """Write it, in slices."""
        ready = self.head["ready"]
        few = {name: ready[name][:TEXTS_MAX] for name in ("missing", "troubles")}
        lines = [as_text({"head": {**self.head, "ready": {**ready, **few}}})]
        for number, (kind, item) in enumerate(self._items(), 1):
            lines.append(as_text({kind: item}))
            if number % _LINES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return "".join(f"{line}\n" for line in lines).encode("ascii")

    def _items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for broker in self.brokers[:BROKERS_MAX]:
            yield "broker", broker
        for name, counts in self.topics.items():
            yield "topic", {"topic": name, "records": counts}
        for topic, digest in self.plans.items():
            yield "plan", {"topic": topic, "plan": digest}
        for row in self.rows:
            yield "row", row

    def take(self, line: Line) -> None:
        """Add what a line says, but not more than there can be."""
        if line.broker is not None and len(self.brokers) < BROKERS_MAX:
            self.brokers.append(line.broker.model_dump())
        if line.topic is not None and len(self.topics) < SERIES_MAX:
            self.topics[line.topic.topic] = line.topic.records
        if line.plan is not None and len(self.plans) < TOPICS_MAX:
            self.plans[line.plan.topic] = shown(line.plan.plan)
        if line.row is not None and len(self.rows) < ROWS_MAX:
            self.rows.append(line.row.model_dump())


async def decode(body: bytes) -> GatewayState:
    """Read what `encode` wrote, in slices.

    Raises:
        PeerError: It is another text.
    """
    lines = BytesIO(body)
    head = _read(lines).head
    if head is None:
        raise PeerError(_OTHER)
    state = GatewayState(head.model_dump())
    number = 0
    while lines.tell() < len(body):
        start = lines.tell()
        state.take(_read(lines))
        number += 1
        if number > _LINES_MAX:
            raise PeerError(_OTHER)
        if number % _LINES_AT_ONCE == 0 or lines.tell() - start > _LONG_LINE:
            await asyncio.sleep(0)
    return state


def _read(lines: BytesIO) -> Line:
    text = lines.readline(LINE_MAX + 1)
    if len(text) > LINE_MAX:
        raise PeerError(_OTHER)
    try:
        return Line.model_validate_json(text)
    except ValidationError:  # its text has what was sent
        raise PeerError(_OTHER) from None
