"""Is it worse than last time? The shares of two reports, compared.

Worse means that records are turned away (refused or failed) more often than at the baseline: a
larger share of the records that were judged in a topic, by more than the tolerance. It is decided
for each topic, for each policy in it, and for each reason; one rise is enough. Shares and not
numbers, since there are more records the longer a topic lives; exact shares, so that the same share
is never worse by a rounding error.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from penstock.jobs.report.document import BaselineEntry, Share, WorseEntry

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.jobs.report.document import Report


class _Why(NamedTuple):
    """Why records are turned away; None for any."""

    policy: str | None = None
    code: int | None = None
    message: str | None = None
    level: int = 0
    """0 for the topic, 1 for a policy, 2 for a reason: messages can be None, too."""


@dataclass
class _TopicCounts:
    """The counts of a topic in a report.

    Attributes:
        judged_count: How many records were judged.
        turned_away: How many of them were turned away, in all, by policy and by reason.
        least: How many records a reason can have that the report does not list.
    """

    judged_count: int = 0
    turned_away: Counter[_Why] = field(default_factory=Counter)
    least: int = 0


def compare(
    now: Report, earlier_report: Report, file: Path, tolerance: float = 0.0
) -> BaselineEntry:
    """Compare a report with an earlier report.

    Args:
        now: The report of this audit.
        file: Where the earlier report was read from.
        tolerance: By how much a share may rise; 0.01 is one percentage point.
    """
    topics, baseline = _topics(now), _topics(earlier_report)
    allowed = Fraction(str(tolerance))
    worse = [
        entry
        for topic, counts in sorted(topics.items())
        if topic in baseline and baseline[topic].judged_count
        for entry in _worse(topic, counts, baseline[topic], allowed)
    ]
    return BaselineEntry(
        file=str(file),
        topics=tuple(sorted(topics.keys() & baseline.keys())),
        written=earlier_report.about.written,
        tolerance=tolerance,
        worse=tuple(worse),
        notes=tuple(_notes(now, earlier_report, topics, baseline)),
    )


def topics_of(report: Report) -> frozenset[str]:
    """Return the topics of a report."""
    return frozenset(_topics(report))


def _topics(report: Report) -> dict[str, _TopicCounts]:
    """Return the shares of a report by topic; by source where an old report has no topic."""
    topics: dict[str, _TopicCounts] = {}
    for entry in report.topics:
        topics[entry.topic] = _TopicCounts(entry.judged, Counter({_Why(): entry.turned_away}))
    source = report.about.source
    if not topics:
        topics[source] = _TopicCounts(report.judged, Counter({_Why(): report.turned_away}))

    def of(topic: str | None) -> Counter[_Why]:
        return topics.setdefault(source if topic is None else topic, _TopicCounts()).turned_away

    for policy in report.policies:
        away = policy.count if policy.turned_away is None else policy.turned_away
        of(policy.topic)[_Why(policy.policy, level=1)] += away
    for reason in report.reasons:
        if reason.turns_away:
            why = _Why(reason.policy, reason.code, reason.message, level=2)
            of(reason.topic)[why] += reason.count
    if report.reasons and report.reasons_left_out:
        for topic in topics.values():
            topic.least = min(report.reasons[-1].count, report.reasons_left_out)
    return topics


def _worse(
    topic: str, now: _TopicCounts, earlier_counts: _TopicCounts, allowed: Fraction
) -> Iterable[WorseEntry]:
    """Return what got worse in a topic: it, then its policies, then its reasons."""
    risen = []
    for why, count in now.turned_away.items():
        unlisted = earlier_counts.least if why.level == 2 else 0
        then = earlier_counts.turned_away.get(why, unlisted)
        rise = Fraction(count, now.judged_count or 1) - Fraction(then, earlier_counts.judged_count)
        if rise > allowed:
            risen.append((why.level, -rise, str(why), why, count, then))
    for _, _, _, why, count, then in sorted(risen, key=lambda row: row[:3]):
        yield WorseEntry(
            topic=topic,
            policy=why.policy,
            code=why.code,
            message=why.message,
            before=Share(count=then, judged=earlier_counts.judged_count),
            now=Share(count=count, judged=now.judged_count),
        )


def _notes(
    now: Report,
    earlier_report: Report,
    topics: dict[str, _TopicCounts],
    baseline: dict[str, _TopicCounts],
) -> Iterable[str]:
    if now.about.fingerprint != earlier_report.about.fingerprint:
        yield "the baseline was judged by another plan: another file, other keys or other topics"
    for topic in sorted(topics.keys() | baseline.keys()):
        if topic not in baseline:
            yield f"{topic} is not in the baseline, so nothing is said about it"
        elif topic not in topics:
            yield f"{topic} is in the baseline only"
        elif not baseline[topic].judged_count:
            yield f"no record of {topic} was judged at the baseline, so nothing is said about it"
        elif not topics[topic].judged_count:
            yield f"no record of {topic} was judged this time"


def in_words(worse: WorseEntry) -> str:
    """Return what got worse, as a line for people."""
    what = [worse.topic or "(no topic)"]
    if worse.policy is not None:
        what.append(worse.policy or "(no policy)")
    if worse.code is not None:
        what.append(f"{worse.code} {worse.message or ''}".strip())
    return f"{', '.join(what)}: {_share(worse.now)}, before {_share(worse.before)}"


def _share(share: Share) -> str:
    return f"{share.count:,} of {share.judged:,} ({share.share:.4%})"
