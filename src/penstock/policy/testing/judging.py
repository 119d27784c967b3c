"""Functions for unit tests of policies, with a verdict for each record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from penstock.engine.admin_policies import AdminContext, ConfigAlteration, TopicCreation
from penstock.engine.verdict import Outcome, PostponedError
from penstock.policy.clients import ClientContext
from penstock.policy.records import Header, Record
from penstock.policy.testing.single import judge_alteration, judge_creation, judge_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.chain import RecordVerdicts
    from penstock.engine.verdict import PolicyVerdict

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
TOPIC_ID = UUID("00000000-0000-0000-0000-00000000000f")
"""The default topic id."""


class Verdict(NamedTuple):
    """The verdict on a record, with the fields of the `verdict` column of `penstock.spark`.

    Attributes:
        outcome: `accepted`, `refused`, `dropped` by an interceptor, `postponed` by a
            `RetriableException`, or `failed` by another exception.
        policy: The class that decided; empty if the record was accepted.
        code: Kafka's error code; 0 if the record was accepted.
        message: The text for the client, or None.
        key: The key that an interceptor returned, or None.
        value: The value that an interceptor returned, or None.
    """

    outcome: str
    policy: str = ""
    code: int = 0
    message: str | None = None
    key: bytes | None = None
    value: bytes | None = None


def judge(
    policy: Any,
    records: Iterable[Any],
    *,
    topic: str = "test",
    partition: int = 0,
    configs: Mapping[str, str] | None = None,
    validation_policy: str = "",
    topic_configs: Mapping[str, str] = _NOTHING,
    topic_id: UUID = TOPIC_ID,
    principal: str | None = None,
    client_id: str | None = None,
    address: str | None = None,
) -> list[Verdict]:
    """Judge records by a policy as the gateway would.

    The policy is created (if you pass a class), configured, called and closed as in a worker. The
    records are a batch. A `RecordsPolicy` accepts or refuses them together. For other policies, a
    bad record does not change the verdicts on the other records, although the gateway would refuse
    the whole batch.

    If the policy raises a `RetriableException`, all records are `postponed`, with code 7 and the
    message.

    A policy that judges columns (`validate_batch`, `process_batch`) is called several times: with
    all records in a batch, in two batches, in a batch each, and record by record if it has that
    method.

    Args:
        policy: A class or an instance of the interfaces of KIP-686, 729, 905 or 940, or with the
            same methods.
        records: `Record`s, mappings with some of `key`, `value`, `headers`, `timestamp`, or only
            values: bytes, str (as UTF-8), None.
        topic: The topic's name.
        partition: The partition's number.
        configs: What `configure()` receives.
        validation_policy: The topic's `record.validation.policy` (KIP-940).
        topic_configs: The topic's values of keys that the policy declares (KIP-940). Other keys
            have their defaults.
        topic_id: The topic's id (KIP-940).
        principal: The principal of the client, for a policy that takes a context.
        client_id: The client id, for a policy that takes a context.
        address: The address of the client, for a policy that takes a context.

    Returns:
        A verdict for each record, in order.

    Raises:
        TypeError: `policy` has none of the interfaces.
        ConfigurationError: It cannot be created or configured, or does not declare `topic_configs`.
        AssertionError: It judges columns, and its verdict on a record depends on the batch or the
            method.
    """
    views = [_record(record) for record in records]
    try:
        verdict = judge_records(
            policy,
            views,
            topic=topic,
            partition=partition,
            properties=dict(configs or {}),
            setting=validation_policy,
            topic_configs=topic_configs,
            topic_id=topic_id,
            client=ClientContext(principal, client_id, address),
            file=Path("configs"),
        )
    except PostponedError as postponed:
        return _spread(postponed.verdict, len(views))
    if isinstance(verdict, tuple):
        return _each(verdict, len(views))
    return _spread(verdict, len(views))


def judge_topic(
    policy: Any,
    topic: str,
    *,
    num_partitions: int | None = 1,
    replication_factor: int | None = 1,
    replicas_assignments: Mapping[int, Sequence[int]] | None = None,
    topic_configs: Mapping[str, str] = _NOTHING,
    configs: Mapping[str, str] = _NOTHING,
    principal: str | None = None,
    client_id: str | None = None,
    topics: Mapping[str, tuple[int, int]] = _NOTHING,
) -> Verdict:
    """Judge the creation of a topic by a policy of KIP-108, as the gateway would.

    The policy is created (if you pass a class), configured, called and closed as in a worker.

    Args:
        policy: A class or an instance of `CreateTopicPolicy`, with or without context.
        topic: The topic's name.
        num_partitions: The number of partitions; not used with `replicas_assignments`.
        replication_factor: The number of replicas; not used with `replicas_assignments`.
        replicas_assignments: Broker ids by partition.
        topic_configs: The configs in the request.
        configs: What `configure()` receives.
        principal: The principal of the client, for a policy with context.
        client_id: The client id, for a policy with context.
        topics: Partitions and replicas of the existing topics, for a policy with context.

    Raises:
        ConfigurationError: It cannot be created or configured.
    """
    if replicas_assignments is not None:
        num_partitions = replication_factor = None
    creation = TopicCreation(
        topic, num_partitions, replication_factor, replicas_assignments, topic_configs
    )
    context = AdminContext(principal, client_id, topics)
    verdict = judge_creation(policy, creation, context, properties=configs, file=Path("configs"))
    return _shown(verdict)


def judge_configs(
    policy: Any,
    altered: Mapping[str, str | None],
    *,
    resource_type: str = "TOPIC",
    resource_name: str = "test",
    configs: Mapping[str, str] = _NOTHING,
    principal: str | None = None,
    client_id: str | None = None,
    topics: Mapping[str, tuple[int, int]] = _NOTHING,
) -> Verdict:
    """Judge altered configs by a policy of KIP-133, as the gateway would.

    Args:
        policy: A class or an instance of `AlterConfigPolicy`, with or without context.
        altered: The new values of the altered configs; None for a deleted config.
        resource_type: `TOPIC`, `BROKER`, `GROUP` or `CLIENT_METRICS`.
        resource_name: The topic's name, the broker's id, ...
        configs: What `configure()` receives.
        principal: The principal of the client, for a policy with context.
        client_id: The client id, for a policy with context.
        topics: Partitions and replicas of the existing topics, for a policy with context.

    Raises:
        ConfigurationError: It cannot be created or configured.
    """
    alteration = ConfigAlteration(resource_type, resource_name, altered)
    context = AdminContext(principal, client_id, topics)
    verdict = judge_alteration(
        policy, alteration, context, properties=configs, file=Path("configs")
    )
    return _shown(verdict)


def _record(source: Any) -> Record:
    if isinstance(source, Record):
        return source
    if isinstance(source, Mapping):
        unknown = set(source) - {"key", "value", "headers", "timestamp"}
        if unknown:
            raise TypeError(f"a record has no {', '.join(sorted(map(str, unknown)))}")
        headers = source.get("headers") or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return Record(
            source.get("timestamp", -1),
            _bytes(source.get("key")),
            _bytes(source.get("value")),
            tuple(Header(key, _bytes(value)) for key, value in pairs),
        )
    return Record(-1, None, _bytes(source))


def _bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytearray, memoryview)):
        return bytes(content)
    raise TypeError(f"must be bytes, str or None, not {type(content).__name__}")


def _each(decided: RecordVerdicts, count: int) -> list[Verdict]:
    """Return the key and value of each record after an interceptor."""
    # Nothing if the interceptor does not match the topic.
    keys, values = decided.replaced or ((None,) * count,) * 2
    others = dict(decided.verdicts)
    result = []
    for index in range(count):
        verdict = others.get(index)
        if verdict is None:
            result.append(Verdict(Outcome.ACCEPTED.value, key=keys[index], value=values[index]))
        else:
            result.append(_shown(verdict))
    return result


def _spread(verdict: PolicyVerdict, count: int) -> list[Verdict]:
    """Return a verdict for each record."""
    if not verdict.record_errors:
        return [_shown(verdict)] * count
    result = [Verdict(Outcome.ACCEPTED.value)] * count
    for error in verdict.record_errors:
        result[error.index] = Verdict(
            Outcome.REFUSED.value, error.policy, verdict.code, error.message
        )
    return result


def _shown(verdict: PolicyVerdict) -> Verdict:
    return Verdict(verdict.outcome.value, verdict.policy, verdict.code, verdict.message)
