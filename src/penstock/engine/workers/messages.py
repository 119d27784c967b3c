"""The protocol between the gateway and a worker, over a socket pair: bytes and plain values.

A message is its length (4 bytes, without itself), its kind (1 byte) and a body:

- to the worker: LOAD (JSON), JUDGE (the header below, the topic's plan, positions of records
  to be dropped, the client as JSON if a policy takes it, the record bytes), JUDGE_ADMIN
  (attempt, JSON), RETIRE (JSON), LOAD_TOPICS (JSON), SHARED (names and values),
  MARK (number), CLOSE (empty)
- from the worker: RING_VERDICT (as VERDICT, of a batch in its ring),
  READY (JSON), LOAD_FAILED (JSON), TOPICS_LOADED (JSON), RECORDS_CLASS (JSON),
  EVENTS (JSON), SHARED (names and values), VERDICT (attempt, outcome; then the new batch
  if there is one, or JSON if the batch is not accepted)

Positions are 32 bit numbers in this machine's byte order.
"""

from __future__ import annotations

import json
import re
from array import array
from functools import lru_cache
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import (
    ACCEPTED,
    Diverted,
    FailureCause,
    Outcome,
    PolicyVerdict,
    RecordError,
    replaced,
)
from penstock.policy import ClientContext
from penstock.policy.sharing import NAME_MAX, VALUE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.configuration import PolicyConfiguration

LOAD, JUDGE, CLOSE, JUDGE_ADMIN, RETIRE, LOAD_TOPICS, MARK = 1, 2, 3, 4, 5, 6, 7
READY, LOAD_FAILED, VERDICT, TOPICS_LOADED, RECORDS_CLASS, EVENTS = 11, 12, 13, 14, 15, 16
RING_VERDICT: Final = 17
SHARED: Final = 21
"""In both directions."""

PREFIX: Final = Struct(">IB")  # length of kind and body, kind
JUDGE_HEADER: Final = Struct(">QhI16sIII")
"""Attempt, Produce version, partition, topic id, lengths of plan, positions and client."""
_CLIENTS_CACHED: Final = 64
"""Few: a client id may have 32 KiB."""
RECORD_ERRORS_MAX: Final = 10_000
"""The maximum number of record errors in a response; its message has their true number."""
_JUDGE_PREFIX: Final = Struct(">IBQhI16sIII")
_VERDICT: Final = Struct(">IBQIB")  # length, kind, attempt, microseconds, kind of the rest
_VERDICT_BODY: Final = Struct(">QIB")
_MICROSECONDS_MAX: Final = 2**32 - 1
_NOT_ACCEPTED, _ACCEPTED, _REPLACED = 0, 1, 2
_REPLACED_HEAD: Final = Struct(">IIII")
"""Lengths: positions dropped, positions in quarantine, diverted records, dead letters."""
_POSITION: Final = "I"
_QUARANTINED: Final = 2**31
"""Added to a position: no batch has so many records."""
_SHARED: Final = Struct(">HI")  # lengths of name and value
_SHARED_BYTES: Final = 4 * 2**20
"""Where a message of several shared values ends."""


class JudgeTopicCreation(NamedTuple):
    """Whether a topic may be created."""

    creation: TopicCreation
    context: AdminContext


class JudgeConfigAlteration(NamedTuple):
    """Whether configs may be altered."""

    alteration: ConfigAlteration
    context: AdminContext


class TryRecordsPolicy(NamedTuple):
    """Whether a class of KIP-686 can be loaded and configured."""

    name: str


class TryTopic(NamedTuple):
    """Whether the policies of KIP-940 that a topic will have can judge it.

    Attributes:
        plan: `TopicPlan.encoded`, as text.
    """

    plan: str


Trial = TryRecordsPolicy | TryTopic
AdminRequest = JudgeTopicCreation | JudgeConfigAlteration | Trial
_ADMIN_REQUESTS: Final[dict[type, str]] = {
    JudgeTopicCreation: "creation",
    JudgeConfigAlteration: "alteration",
    TryRecordsPolicy: "class",
    TryTopic: "topic",
}
_SUBJECTS: Final[dict[type, Any]] = {
    JudgeTopicCreation: TopicCreation,
    JudgeConfigAlteration: ConfigAlteration,
}


def message(kind: int, body: bytes = b"") -> bytes:
    """Frame a body."""
    return PREFIX.pack(1 + len(body), kind) + body


def load_failed(text: str, *, may_pass: bool) -> bytes:
    """Have the parent know that the policies cannot be loaded, or not now."""
    return message(LOAD_FAILED, json.dumps([text, may_pass]).encode())


def read_load_failed(body: bytes) -> tuple[str, bool]:
    """Read LOAD_FAILED.

    Raises:
        ValueError: It is invalid.
    """
    text, may_pass = json.loads(body)
    return str(text), bool(may_pass)


def load(configuration: PolicyConfiguration, names: Mapping[str, Sequence[str]]) -> bytes:
    """Have a worker load policies of a configuration: class names by the key that names them."""
    return message(LOAD, json.dumps([configuration.encode(), dict(names)]).encode())


def judge_header(
    attempt: int,
    version: int,
    partition: int,
    topic_id: bytes,
    plan_size: int,
    dropped_size: int,
    client_size: int,
    data_size: int,
) -> bytes:
    """Frame a batch to be judged; plan, positions, client and the record bytes follow it."""
    length = 1 + JUDGE_HEADER.size + plan_size + dropped_size + client_size + data_size
    return _JUDGE_PREFIX.pack(
        length, JUDGE, attempt, version, partition, topic_id, plan_size, dropped_size, client_size
    )


@lru_cache(_CLIENTS_CACHED)
def client(context: ClientContext) -> bytes:
    """Encode who sent a batch; the same client has the same bytes, which are held once."""
    return json.dumps(context).encode()


def read_client(data: bytes) -> ClientContext:
    """Decode the result of `client`; return None for no client.

    Raises:
        ValueError: It is invalid.
    """
    return ClientContext(*json.loads(data)) if data else ClientContext()


def records_class(name: str, *, takes_client: bool) -> bytes:
    """Frame the report that a class of KIP-686 was loaded that the file does not name."""
    return message(RECORDS_CLASS, json.dumps([name, takes_client]).encode())


def read_records_class(body: bytes) -> tuple[str, bool]:
    """Read the body of a RECORDS_CLASS.

    Raises:
        ValueError: The body is malformed.
    """
    name, takes_client = json.loads(body)
    return str(name), bool(takes_client)


def events(counts: Iterable[tuple[str, str, int]]) -> bytes:
    """Frame what policies counted: event, result, how often."""
    return message(EVENTS, json.dumps(list(counts)).encode())


def read_events(body: bytes) -> list[tuple[str, str, int]]:
    """Read the body of an EVENTS.

    Raises:
        ValueError: The body is malformed.
    """
    return [(str(event), str(result), int(amount)) for event, result, amount in json.loads(body)]


def shared(values: Iterable[tuple[str, bytes]]) -> list[bytes]:
    """Frame names and values that policies share, in messages of no great size."""
    framed: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for name, value in values:
        encoded = name.encode()
        parts += (_SHARED.pack(len(encoded), len(value)), encoded, value)
        size += len(value)
        if size > _SHARED_BYTES:
            framed.append(message(SHARED, b"".join(parts)))
            parts, size = [], 0
    if parts:
        framed.append(message(SHARED, b"".join(parts)))
    return framed


def read_shared(body: bytes | memoryview) -> list[tuple[str, bytes]]:
    """Read the body of a SHARED.

    Raises:
        ValueError: The body is malformed.
    """
    values: list[tuple[str, bytes]] = []
    start = 0
    while start < len(body):
        if len(body) < start + _SHARED.size:
            raise ValueError("a shared value is cut")
        name_size, value_size = _SHARED.unpack_from(body, start)
        if name_size > NAME_MAX or value_size > VALUE_MAX:
            raise ValueError("a shared value is too large")
        value_start = start + _SHARED.size + name_size
        end = value_start + value_size
        if len(body) < end:
            raise ValueError("a shared value is cut")
        name = bytes(body[start + _SHARED.size : value_start]).decode()
        values.append((name, bytes(body[value_start:end])))
        start = end
    return values


def mark(number: int) -> bytes:
    """Frame a mark: the worker has handled what was sent before it when it reads the mark.

    Args:
        number: Marks are numbered from 1.
    """
    return message(MARK, number.to_bytes(8, "big"))


def judge_admin(attempt: int, request: AdminRequest) -> bytes:
    """Frame a request about a topic."""
    kind = _ADMIN_REQUESTS[type(request)]
    body = json.dumps([kind, *map(_plain, request)], default=dict).encode()
    return message(JUDGE_ADMIN, attempt.to_bytes(8, "big") + body)


def read_judge_admin(body: bytes) -> tuple[int, AdminRequest]:
    """Read the body of a JUDGE_ADMIN.

    Raises:
        ValueError: The body is malformed.
    """
    kind, *fields = json.loads(body[8:])
    request_class = {value: key for key, value in _ADMIN_REQUESTS.items()}[kind]
    if request_class in _SUBJECTS:
        fields = [_SUBJECTS[request_class](*fields[0]), AdminContext(*fields[1])]
    return int.from_bytes(body[:8], "big"), request_class(*fields)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def retire(name: str, topic: str) -> bytes:
    """Frame a request to close a topic's instance of a class of KIP-686."""
    return message(RETIRE, json.dumps([name, topic]).encode())


def load_topics(plans: Iterable[TopicPlan]) -> bytes:
    """Request that a worker loads topics when it is idle."""
    return message(LOAD_TOPICS, json.dumps([plan.encoded.decode() for plan in plans]).encode())


def read_load_topics(body: bytes) -> list[TopicPlan]:
    """Read the body of a LOAD_TOPICS.

    Raises:
        ValueError: The body is malformed.
    """
    return [TopicPlan.decode(plan.encode()) for plan in json.loads(body)]


class TopicsLoaded(NamedTuple):
    """The result of loading topics in a worker.

    Attributes:
        loaded_count: How many are loaded.
        total: How many it was to load.
        problem: Why others are not, of the first of them.
    """

    loaded_count: int
    total: int
    problem: str


def topics_loaded(report: TopicsLoaded) -> bytes:
    """Frame the report about topics that were to be loaded."""
    return message(TOPICS_LOADED, json.dumps(report).encode())


def read_topics_loaded(body: bytes) -> TopicsLoaded:
    """Read the body of a TOPICS_LOADED.

    Raises:
        ValueError: The body is malformed.
    """
    loaded, total, problem = json.loads(body)
    return TopicsLoaded(int(loaded), int(total), str(problem))


def positions(indexes: Iterable[int]) -> bytes:
    """Write positions in a batch."""
    return array(_POSITION, indexes).tobytes()


def positions_before(dropped: Iterable[int], quarantined: Iterable[int]) -> bytes:
    """Write which records of a batch were dropped when it came before.

    Args:
        dropped: The positions of all of them.
        quarantined: Those among them that became dead letters, or were to.
    """
    letters = frozenset(quarantined)
    return positions(
        position | _QUARANTINED if position in letters else position for position in dropped
    )


def read_positions_before(data: bytes | memoryview) -> tuple[Sequence[int], Sequence[int]]:
    """Read what `positions_before` wrote."""
    flagged_positions = read_positions(data)
    return (
        [position & ~_QUARANTINED for position in flagged_positions],
        [position & ~_QUARANTINED for position in flagged_positions if position & _QUARANTINED],
    )


def read_positions(data: bytes | memoryview) -> Sequence[int]:
    """Read what `positions` wrote.

    Raises:
        ValueError: It is invalid.
    """
    return array(_POSITION, bytes(data))


class Ready(NamedTuple):
    """The report of a worker about its loaded policies.

    Attributes:
        patterns: The class name and topic pattern of each interceptor, in order.
        needs_context: Whether a policy of topics takes the context of a request.
        loads_topics: Whether the validation policy has a method to load topics.
        takes_client: The classes of records that are given the client.
        drops_records: Whether an interceptor may drop records.
    """

    patterns: list[tuple[str, re.Pattern[str]]]
    needs_context: bool
    loads_topics: bool
    takes_client: frozenset[str]
    drops_records: bool


def ready(
    patterns: Iterable[tuple[str, re.Pattern[str]]],
    *,
    needs_context: bool,
    loads_topics: bool,
    takes_client: Iterable[str],
    drops_records: bool,
) -> bytes:
    """Frame the report that the policies are loaded."""
    rows = [(name, pattern.pattern, pattern.flags) for name, pattern in patterns]
    body = [rows, needs_context, loads_topics, sorted(takes_client), drops_records]
    return message(READY, json.dumps(body).encode())


def read_ready(body: bytes) -> Ready:
    """Read the body of a READY.

    Raises:
        ValueError: The body is malformed.
    """
    patterns, needs_context, loads_topics, takes_client, drops_records = json.loads(body)
    return Ready(
        [(name, re.compile(pattern, flags)) for name, pattern, flags in patterns],
        needs_context,
        loads_topics,
        frozenset(takes_client),
        drops_records,
    )


def microseconds(seconds: float) -> int:
    """Return a time as verdicts and outcomes have it."""
    return min(int(seconds * 1e6), _MICROSECONDS_MAX)


def verdict(attempt: int, decided: PolicyVerdict, took_s: float = 0.0) -> bytes:
    """Frame a verdict, and how long it took."""
    took = microseconds(took_s)
    if decided is ACCEPTED:
        return _VERDICT.pack(14, VERDICT, attempt, took, _ACCEPTED)
    if decided.replacement is not None:
        replacement = decided.replacement
        parts = (
            positions(replacement.dropped),
            positions(replacement.quarantined),
            _diverted(decided.diverted),
            replacement.letters,
        )
        sizes = _REPLACED_HEAD.pack(*map(len, parts))
        body = b"".join((sizes, *parts, replacement.data))
        return _VERDICT.pack(14 + len(body), VERDICT, attempt, took, _REPLACED) + body
    body = json.dumps(_plain_verdict(decided)).encode()
    return _VERDICT.pack(14 + len(body), VERDICT, attempt, took, _NOT_ACCEPTED) + body


def ring_verdict(number: int, decided: PolicyVerdict, took_s: float) -> bytes:
    """Frame a verdict on a batch of the ring that is not accepted."""
    return message(RING_VERDICT, verdict(number, decided, took_s)[PREFIX.size :])


def _plain_verdict(decided: PolicyVerdict) -> dict[str, Any]:
    """Return a verdict that stores nothing as JSON has it."""
    return {
        "outcome": decided.outcome.value,
        "policy": decided.policy,
        "code": decided.code,
        "message": decided.message,
        "record_errors": _record_errors(decided.record_errors[:RECORD_ERRORS_MAX]),
        "detail": decided.detail,
        "cause": decided.cause and decided.cause.value,
    }


def _record_errors(errors: Iterable[RecordError]) -> list[tuple[str, str | None, list[int]]]:
    """Return errors by policy and text: most of a batch say the same."""
    indexes: dict[tuple[str, str | None], list[int]] = {}
    for error in errors:
        indexes.setdefault((error.policy, error.message), []).append(error.index)
    return [(policy, message, some) for (policy, message), some in indexes.items()]


def _read_record_errors(rows: Iterable[Sequence[Any]]) -> tuple[RecordError, ...]:
    rows = list(rows)
    errors = [
        RecordError(index, message, policy) for policy, message, some in rows for index in some
    ]
    if len(rows) > 1:
        errors.sort(key=attrgetter("index"))
    return tuple(errors)


def _of_plain(fields: dict[str, Any]) -> PolicyVerdict:
    fields["outcome"] = Outcome(fields["outcome"])
    cause = fields["cause"]
    fields["cause"] = None if cause is None else FailureCause(cause)
    fields["record_errors"] = _read_record_errors(fields["record_errors"])
    return PolicyVerdict(**fields)


def _diverted(diverted: Iterable[Diverted]) -> bytes:
    rows = [(_plain_verdict(part.verdict), part.count) for part in diverted]
    return json.dumps(rows).encode() if rows else b""


def _read_diverted(data: bytes) -> tuple[Diverted, ...]:
    if not data:
        return ()
    return tuple(
        Diverted(_of_plain(plain_verdict), int(count)) for plain_verdict, count in json.loads(data)
    )


def read_verdict(body: bytes) -> tuple[int, PolicyVerdict, float]:
    """Read the body of a VERDICT: attempt, verdict, and how many seconds it took.

    Raises:
        ValueError: The body is malformed.
    """
    attempt, took, follows = _VERDICT_BODY.unpack_from(body)
    took_s = took / 1e6
    if follows == _ACCEPTED:
        return attempt, ACCEPTED, took_s
    start = _VERDICT_BODY.size
    if follows == _REPLACED:
        sizes = _REPLACED_HEAD.unpack_from(body, start)
        start += _REPLACED_HEAD.size
        parts = []
        for size in sizes:
            parts.append(body[start : start + size])
            start += size
        verdict = replaced(
            body[start:],
            read_positions(parts[0]),
            _read_diverted(parts[2]),
            quarantined=read_positions(parts[1]),
            letters=parts[3],
        )
        return attempt, verdict, took_s
    return attempt, _of_plain(json.loads(body[start:])), took_s
