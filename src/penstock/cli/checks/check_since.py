"""`penstock check --since`: the verdicts of the policies on the records that topics have got."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.checks.gateway_counts import counted_by_gateway
from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.stream_lines import one_line
from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import ENFORCE, MARK, OBSERVE, QUARANTINE
from penstock.engine.plans.plan import INTERNAL_TOPICS, Plan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.engine.verdict import Outcome
from penstock.engine.workers.supervisor import Supervisor
from penstock.jobs.report.counts import NOT_JUDGED
from penstock.jobs.since import KILLS_MAX, BatchAudit, PathEvents
from penstock.jobs.tasks.whole_batches import CHANGED
from penstock.jobs.topics.excerpt import RECORDS_MAX, excerpt
from penstock.jobs.topics.excerpt_reading import Reading, reader_of
from penstock.jobs.topics.topic_settings import kept_settings
from penstock.kafka.client.connections.connection import connect
from penstock.kafka.client.errors import ClientError, UnreadableBatchError
from penstock.kafka.cluster.compacted_topic import CompactedTopicError
from penstock.kafka.cluster.errors import ClusterError
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.wire.errors import WireError
from penstock.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from penstock.configuration import Configuration
    from penstock.engine.path_counts import PathCount, PathTally
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.workers.supervisor import Patterns
    from penstock.jobs.report.counts import AuditCounts, Sample
    from penstock.kafka.cluster.offsets import Topic

BYTES_MAX: Final = 2**30
_REASONS_MAX: Final = 10
_NAMED_MAX: Final = 5
_IN_WORDS: Final = {
    Outcome.ACCEPTED.value: "would be stored as they are",
    Outcome.REFUSED.value: "would be refused",
    Outcome.FAILED.value: "would be refused, because a policy fails",
    Outcome.POSTPONED.value: "could not be judged now, and would have to be sent again",
    Outcome.DROPPED.value: "would be dropped by interceptors",
    CHANGED: "would be rewritten by interceptors",
    NOT_JUDGED: "were not judged: they cannot be read, or no policy is to blame",
}


_IN_PAST: Final = {
    OBSERVE: "observed",
    MARK: "marked",
    QUARANTINE: "in quarantine",
    ENFORCE: "enforced",
}


class _JudgedTopic(NamedTuple):
    """A topic that is judged, and its policies."""

    topic: Topic
    plan: TopicPlan


class _Findings(NamedTuple):
    """What came of it.

    Attributes:
        offsets: How many offsets there are since then: the most that there can be of records.
        lost_offsets: How many of them retention removed while they were to be read.
        is_excerpt: Whether only a part of them was to be read.
        is_all: Whether all that was to be read was judged.
        reading_client: The topics of which a policy reads the client.
        paths: How often the paths of policies led to a field.
    """

    audit: BatchAudit
    offsets: int
    lost_offsets: int
    is_excerpt: bool
    is_all: bool
    reading_client: tuple[str, ...]
    paths: PathTally


def judge_since(
    options: argparse.Namespace,
    configuration: Configuration,
    patterns: Patterns,
    start_time: datetime,
) -> int:
    """Judge what topics have got, print what would have become of it, and return the exit code.

    Args:
        options: Of the command.
        configuration: Names the cluster and the policies.
        patterns: The topics of the interceptors.
        start_time: From when on.

    Raises:
        ConfigurationError: No topic is observed, or a named topic does not exist.
        CommandError: The cluster does not answer, or nothing could be judged.
    """
    properties = configuration.upstream_properties
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    plan = Plan(configuration.policies)
    plan.set_interceptor_patterns(patterns)
    try:
        cluster = Cluster(properties, configuration.path)
        selected_topics = _topics(cluster, configuration, properties, plan, options.topic)
        findings = asyncio.run(
            _judge(options, configuration, properties, cluster, selected_topics, start_time)
        )
    except (ClusterError, ClientError, CompactedTopicError, UnreadableBatchError, WireError,
            UnreadableTopicConfigsError) as error:  # fmt: skip
        raise CommandError(f"{properties['bootstrap.servers']}: {error}") from None
    print(
        f"records since {start_time.isoformat(timespec='seconds')}, judged as if they were sent now"
    )
    for entry in selected_topics.values():
        print(
            "\n".join(
                lines_of(entry.topic.name, entry.plan, findings.audit.counts[entry.topic.name])
            )
        )
    for line in _notes(findings):
        print(f"note: {line}")
    for line in counted_by_gateway(configuration, selected_topics):
        print(line)
    return _exit_code(options, findings)


def _exit_code(options: argparse.Namespace, findings: _Findings) -> int:
    whole = findings.audit.total()
    if whole.outcomes.total() and not whole.judged:
        raise CommandError("none of the records could be judged")
    over = options.fail_over is not None and any(
        counts.share > options.fail_over for counts in findings.audit.counts.values()
    )
    return ExitCode.CHECK_FAILED if over else ExitCode.DONE


def _topics(
    cluster: Cluster,
    configuration: Configuration,
    properties: Mapping[str, str],
    plan: Plan,
    topic_option: str | None,
) -> dict[str, _JudgedTopic]:
    """Return the topics that are judged: those that are named, or all that are observed.

    The mode of a topic is that of the gateway: the topic's own key wins over the file.
    """
    names = cluster.names()  # first: its error says that the cluster cannot be reached
    index = kept_settings(configuration, properties)
    own = {*INTERNAL_TOPICS, configuration.topic_settings_topic, configuration.audit_topic,
           configuration.produce_request_interceptors_state_topic}  # fmt: skip
    if topic_option is not None:
        topics: Sequence[Topic] = cluster.topics(topic_option)
    else:
        candidates = [
            name
            for name in sorted(names.difference(own))
            if index.names(name) or _is_observed(plan.for_topic(name))
        ]
        topics = cluster.existing_topics(",".join(candidates)) if candidates else ()
    selected_topics, unjudged_topics = {}, []
    for topic in topics:
        topic_plan = plan.for_topic(topic.name, index.of(topic.name, topic.topic_id))
        if topic_plan is None:
            unjudged_topics.append(topic.name)
        elif topic_option is not None or topic_plan.observed is not None:
            selected_topics[topic.name] = _JudgedTopic(topic, topic_plan)
    if topic_option is not None and unjudged_topics:
        print(f"warning: no policy judges {_some(unjudged_topics)}", file=sys.stderr)
    if not selected_topics:
        raise ConfigurationError(
            f"{configuration.path}: "
            + (f"no policy judges {topic_option}" if topic_option else
               "no topic that exists is observed: set penstock.mode=observe, or name topics with "
               "--topic")
        )  # fmt: skip
    return selected_topics


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _is_observed(plan: TopicPlan | None) -> bool:
    return plan is not None and plan.observed is not None


async def _judge(
    options: argparse.Namespace,
    configuration: Configuration,
    properties: Mapping[str, str],
    cluster: Cluster,
    selected_topics: Mapping[str, _JudgedTopic],
    start_time: datetime,
) -> _Findings:
    topics = [entry.topic for entry in selected_topics.values()]
    ranges = await asyncio.to_thread(cluster.ranges, topics, start_time.isoformat())
    part = excerpt(ranges, options.max_records or RECORDS_MAX)
    ids = {topic.name: topic.topic_id for topic in topics}
    gap_sizes: list[int] = []
    reader = reader_of(
        connect(properties, configuration.path),
        ids,
        lambda gap: gap_sizes.append(gap.end - gap.first),
    )
    reading = Reading(
        part.pieces,
        reader,
        BYTES_MAX,
        max_decompressed_bytes=configuration.decompressed_batch_max_bytes,
    )
    events = PathEvents()
    pool = Supervisor(configuration, spare=False, observer=events)
    await pool.start()
    try:
        audit = BatchAudit(pool, {name: entry.plan for name, entry in selected_topics.items()}, ids)
        to_read = sum(piece.range.offsets for piece in part.pieces)
        what = topics[0].name if len(topics) == 1 else f"{len(topics):,} topics"
        with Progress().phase(f"judging {what}", lambda: audit.records, to_read):
            is_all = await audit.judge(iter(reading))
        reading_client = tuple(
            name for name, entry in selected_topics.items() if pool.needs_client(entry.plan)
        )
    finally:
        await pool.close()
    offsets = sum(offset_range.offsets for offset_range in ranges)
    is_excerpt = not part.is_whole or reading.is_cut
    return _Findings(
        audit, offsets, sum(gap_sizes), is_excerpt, is_all, reading_client, events.paths
    )


def lines_of(topic: str, plan: TopicPlan, counts: AuditCounts) -> Iterator[str]:
    """Return what came of a topic's records, for a person."""
    mode = _IN_PAST[plan.mode]
    outcomes, batches = counts.outcomes, counts.batches
    total = outcomes.total()
    yield f"topic {topic}, {mode}: {total:,} records in {_batches(batches.total())}"
    for outcome, words in _IN_WORDS.items():
        records = outcomes[outcome]
        if records or (total and outcome == Outcome.REFUSED):
            share = "" if outcome == NOT_JUDGED else f" ({records / max(counts.judged, 1):.2%})"
            some = batches[outcome]
            batch_note = f", in {_batches(some)}" if some and outcome != Outcome.ACCEPTED else ""
            yield f"  {records:>11,} {words}{share}{batch_note}"
            yield from _by_policy(counts, outcome)
    shown, rest = counts.reasons.most_common(_REASONS_MAX)
    if shown:
        yield "  reasons, and the records to blame"
    for reason, count in shown:
        message = one_line(reason.message or "no reason is given")
        samples = counts.samples.get(reason)
        first = f"  (the first seen at {_place(samples[0])})" if samples else ""
        yield f"  {count:>11,} {reason.policy}: {message}{first}"
    if rest:
        yield f"  {rest:>11,} for other reasons"


def _batches(count: int) -> str:
    return f"{count:,} batch" if count == 1 else f"{count:,} batches"


def _place(sample: Sample) -> str:
    return f"{sample.partition}:{sample.offset}"


def _by_policy(counts: AuditCounts, outcome: str) -> Iterator[str]:
    for entry, records in counts.policies.most_common():
        if entry.outcome == outcome:
            yield f"  {records:>11,}   by {entry.policy or 'the gateway itself'}"


def _unfound(paths: Sequence[PathCount]) -> Iterator[str]:
    yield from map(str, paths[:_REASONS_MAX])
    if len(paths) > _REASONS_MAX:
        yield f"and {len(paths) - _REASONS_MAX:,} more paths"


def _notes(findings: _Findings) -> Iterator[str]:
    record_count = findings.audit.total().outcomes.total()
    if not findings.offsets:
        yield "there are no records since then"
    if findings.reading_client:
        yield (
            f"a policy of {_some(findings.reading_client)} may read the client, which is None "
            "here: brokers do not store it"
        )
    yield from _unfound(findings.paths.unfound())
    if findings.is_excerpt:
        yield (
            f"{record_count:,} of at most {findings.offsets:,} records were read, in pieces from "
            "all of that time; --max-records reads more, penstock audit reads everything"
        )
    if not findings.is_all:
        yield (
            f"ended after {KILLS_MAX} batches at which a policy was too late, or ended its process"
        )
    if findings.lost_offsets:
        yield f"{findings.lost_offsets:,} offsets were removed before they were read (retention)"
