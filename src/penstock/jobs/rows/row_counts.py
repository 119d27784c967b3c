"""Counts of judged rows: by outcome, reason, rule and column; in bounded memory, and mergeable."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.engine.verdict import Outcome
from penstock.jobs.report.bounded_counter import BoundedCounter
from penstock.jobs.report.counts import REASONS_KEPT, PolicyOutcome, Reason, by_outcome, reason_of
from penstock.jobs.report.counts import share as share_of
from penstock.jobs.report.document import (
    REASONS_MAX,
    ColumnEntry,
    ReasonEntry,
    Report,
    RuleEntry,
    TopicEntry,
)
from penstock.jobs.report.summary import policy_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.all_objections import AllVerdicts
    from penstock.jobs.report.document import About

LABEL_MAX: Final = 200
"""The maximum number of characters of a sample's label."""


class RuleKey(NamedTuple):
    """A rule of a policy; None for a policy without rules."""

    policy: str
    rule: str | None
    mode: str


@dataclass
class RuleCount:
    """The rows that a rule objects to, and the labels of some of them."""

    count: int = 0
    labels: list[str | None] = field(default_factory=list)


@dataclass
class RowCounts:
    """The counts of some rows.

    Attributes:
        samples: How many labels are kept of each rule.
        outcomes: Rows by outcome; exact.
        reasons: Rows by the reason of their verdict; without those that are accepted.
        policies: Rows that each policy did not accept, by the policy of their verdict; exact.
        rules: Rows that each rule objects to, whatever else does; exact.
        columns: Rows with an objection about a column, except for warnings; exact.
    """

    samples: int
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: BoundedCounter[Reason] = field(default_factory=lambda: BoundedCounter(REASONS_KEPT))
    policies: Counter[PolicyOutcome] = field(default_factory=Counter)
    rules: dict[RuleKey, RuleCount] = field(default_factory=dict)
    columns: Counter[str] = field(default_factory=Counter)

    def add(
        self, topic: str, count: int, decisions: AllVerdicts, labels: Sequence[str | None] | None
    ) -> None:
        """Count rows.

        Args:
            topic: The topic that they are of.
            count: How many they are.
            decisions: The verdicts, and all objections.
            labels: Their labels; None if they have none.
        """
        self.outcomes[Outcome.ACCEPTED.value] += count - len(decisions.verdicts)
        for _, verdict in decisions.verdicts:
            reason = reason_of(topic, verdict)
            self.outcomes[reason.outcome] += 1
            self.reasons.add(reason)
            self.policies[PolicyOutcome(topic, reason.policy or "", reason.outcome)] += 1
        for row, objections in decisions.objections.items():
            keys = {RuleKey(named.policy, named.rule, named.mode) for named in objections}
            for key in keys:
                rule = self.rules.setdefault(key, RuleCount())
                rule.count += 1
                if labels is not None and len(rule.labels) < self.samples:
                    label = labels[row]
                    rule.labels.append(None if label is None else label[:LABEL_MAX])
            refusing = (named for named in objections if not named.only_warns)
            self.columns.update({column for named in refusing for column in named.fields})

    def merge(self, other: RowCounts) -> None:
        """Add the counts of other rows."""
        self.outcomes.update(other.outcomes)
        self.reasons.merge(other.reasons)
        self.policies.update(other.policies)
        self.columns.update(other.columns)
        for key, theirs in other.rules.items():
            rule = self.rules.setdefault(key, RuleCount())
            rule.count += theirs.count
            rule.labels += theirs.labels[: self.samples - len(rule.labels)]

    def encode(self) -> bytes:
        """Return the counts as bytes, which `decode` reads."""
        document = {
            "samples": self.samples,
            "outcomes": self.outcomes,
            "reasons": [[reason, count] for reason, count in self.reasons.items()],
            "left_out": self.reasons.left_out,
            "policies": [[policy, count] for policy, count in self.policies.items()],
            "rules": [[key, rule.count, rule.labels] for key, rule in self.rules.items()],
            "columns": self.columns,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> RowCounts:
        """Return the counts that `encode` made bytes of."""
        document = json.loads(data)
        counts = cls(document["samples"], Counter(document["outcomes"]))
        for reason, count in document["reasons"]:
            counts.reasons.add(Reason(*reason), count)
        counts.reasons.left_out += document["left_out"]
        for policy, count in document["policies"]:
            counts.policies[PolicyOutcome(*policy)] = count
        for key, count, labels in document["rules"]:
            counts.rules[RuleKey(*key)] = RuleCount(count, labels)
        counts.columns.update(document["columns"])
        return counts

    @classmethod
    def merged(cls, encoded: Iterable[bytes], samples: int) -> RowCounts:
        """Return the sum of encoded counts."""
        result = cls(samples)
        for data in encoded:
            result.merge(cls.decode(data))
        return result

    def report(self, topic: str, about: About, rules: Iterable[RuleKey] = ()) -> Report:
        """Return the report of an audit of rows.

        Args:
            topic: The topic that they are said to be of.
            about: What it was about; `written` is now, where it is empty.
            rules: The rules that judge, for those that object to no row.
        """
        total = self.outcomes.total()
        all_rules = self._with_held(rules)
        outcomes: dict[str, Any] = dict(by_outcome(self.outcomes))
        reasons, left_out = self.reasons.most_common(REASONS_MAX)
        share = share_of(self.outcomes)
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        return Report(
            judged=total,
            share=share,
            **outcomes,
            topics=(TopicEntry(topic=topic, judged=total, share=share, **outcomes),),
            reasons=tuple(ReasonEntry(**why._asdict(), count=count) for why, count in reasons),
            reasons_left_out=left_out,
            policies=policy_entries(self.policies),
            rules=tuple(
                RuleEntry(
                    **key._asdict(),
                    count=rule.count,
                    share=rule.count / total if total else 0.0,
                    samples=tuple(rule.labels),
                )
                for key, rule in sorted(all_rules.items(), key=_most_frequent)
            ),
            columns=tuple(
                ColumnEntry(column=column, count=count, share=count / total)
                for column, count in sorted(self.columns.items(), key=lambda item: (-item[1], item))
            ),
            about=about if about.written else about.model_copy(update={"written": now}),
        )

    def _with_held(self, rules: Iterable[RuleKey]) -> dict[RuleKey, RuleCount]:
        """Return the counts of rules, with those that object to no row.

        A policy without rules of a known name may object by other names: it holds where it has
        none.
        """
        objecting = {key.policy for key in self.rules}
        return self.rules | {
            key: RuleCount()
            for key in rules
            if key not in self.rules and (key.rule is not None or key.policy not in objecting)
        }


def _most_frequent(item: tuple[RuleKey, RuleCount]) -> tuple[int, str, str]:
    key, rule = item
    return -rule.count, key.policy, key.rule or ""
