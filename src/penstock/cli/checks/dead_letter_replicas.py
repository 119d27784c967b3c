"""Dead letter topics that a cluster has too few brokers for, as `penstock check` warns of them."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, NamedTuple

from penstock.configuration.globs import is_glob
from penstock.configuration.topic_keys import DEAD_LETTER_REPLICAS
from penstock.engine.plans.plan import NO_SETTINGS, KeyOrigin
from penstock.jobs.topics.stored_topics import names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.plans.plan import Plan


class _Line(NamedTuple):
    """A line of the file, or the default.

    Attributes:
        is_default: Whether the file does not have it.
    """

    key: str
    value: int
    is_default: bool


def replicas_warnings(
    plan: Plan, topics: Mapping[str, Mapping[str, str]], brokers: int
) -> Iterator[str]:
    """Yield a warning for each line of the file that sets more replicas than there are brokers.

    Args:
        topics: The topics of the cluster, with the topic level keys that were set on each.
        brokers: How many brokers the cluster has.
    """
    for line, names in _missing(plan, topics, brokers).items():
        shown = f"{line.key} (default {line.value})" if line.is_default else f"{line[0]}={line[1]}"
        several = len(names) > 1 or any(map(is_glob, names))
        yield (
            f"warning: {shown}: {line.value} replicas need {line.value} brokers, and the cluster "
            f"has {brokers}: {names_of(sorted(names))} cannot be created, so dead letters cannot "
            f"be stored; set {line.key}={brokers}, or create the topic{'s' if several else ''}"
        )


def _missing(
    plan: Plan, topics: Mapping[str, Mapping[str, str]], brokers: int
) -> dict[_Line, set[str]]:
    """Return the dead letter topics that cannot be created, by what says how many replicas."""
    new = [glob for glob in plan.globs if not fnmatch.filter(topics, glob)]
    missing_topics: dict[_Line, set[str]] = {}
    for topic, own in {**topics, **dict.fromkeys(new, NO_SETTINGS)}.items():
        topic_plan = plan.for_pattern(topic, own)
        if (
            topic_plan is None
            or not topic_plan.quarantines
            or topic_plan.dead_letter_topic in topics
        ):
            continue
        if topic_plan.dead_letter_replicas > brokers:
            line = _line(plan, topic, topic_plan.dead_letter_replicas)
            missing_topics.setdefault(line, set()).add(topic_plan.dead_letter_topic)
    return missing_topics


def _line(plan: Plan, topic: str, value: int) -> _Line:
    for setting in plan.settings_and_origins(topic):
        if setting.key == DEAD_LETTER_REPLICAS:
            of_glob = f"topics.{setting.glob}." if setting.origin is KeyOrigin.PATTERN else ""
            return _Line(f"{of_glob}{DEAD_LETTER_REPLICAS}", value, is_default=False)
    return _Line(DEAD_LETTER_REPLICAS, value, is_default=True)
