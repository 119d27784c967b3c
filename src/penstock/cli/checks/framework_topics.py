"""What `penstock check` says of frameworks' own topics, which lose no records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.plans.framework_topics import (
    ALLOWED_BY,
    NAMES_OF_FRAMEWORKS,
    FrameworkTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.plans.plan import Plan
    from penstock.kafka.cluster.metadata import ClusterMetadata

_REFUSED: Final = "bad records are refused, and not set aside or dropped"
_AT_ONCE: Final = 100


def kept_names(plan: Plan) -> str | None:
    """Return which topics lose no records, by the file; None without any."""
    if not (plan.intercepted_topics and plan.keeps_topics_of_frameworks):
        return None
    names = ", ".join(NAMES_OF_FRAMEWORKS)
    return (
        f"topics that the file does not name without a wildcard: if compacted, or named {names}, "
        f"{_REFUSED} ({ALLOWED_BY})"
    )


def kept_topics(
    plan: Plan, topics: Mapping[str, Mapping[str, str]], cluster: ClusterMetadata
) -> Iterator[str]:
    """Yield a line for each topic of the cluster that loses no records.

    Args:
        topics: The topic level keys on each topic.
        cluster: Knows which topics are compacted.
    """
    frameworks = {
        topic: topic_plan.framework
        for topic, own in sorted(topics.items())
        if (topic_plan := plan.for_topic(topic, own)) is not None
    }
    for topic, framework in frameworks.items():
        if framework == FrameworkTopic.BY_NAME:
            yield f"topic {topic}, named as those of frameworks: {_REFUSED}"
    unknown = [topic for topic, kind in frameworks.items() if kind == FrameworkTopic.IF_COMPACTED]
    for start in range(0, len(unknown), _AT_ONCE):
        names = unknown[start : start + _AT_ONCE]
        values, why = cluster.cleanup_policies(names)
        for topic in names:
            if topic not in values:
                yield (
                    f"warning: topic {topic}: it is not known whether it is compacted ({why}); "
                    "batches with bad records get 7 (REQUEST_TIMED_OUT)"
                )
            elif "compact" in values[topic]:
                yield f"topic {topic}, compacted: {_REFUSED}"
