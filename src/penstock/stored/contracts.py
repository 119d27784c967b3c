"""What contracts say of topics as a whole, measured, as a report has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.report.document import ContractEntry, ContractRuleEntry
from penstock.stored.data_sets import RuleKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.policies.data_contract.data_set import DataSetRules, Totals
    from penstock.stored.evaluation import Evaluator


def contracts_of(
    evaluator: Evaluator, topics: Iterable[str], totals: Mapping[RuleKey, Totals], now_ms: int
) -> tuple[ContractEntry, ...]:
    """Return what was measured, by contract.

    Args:
        evaluator: The policies.
        topics: Those that were read; topics with sums are added.
        totals: The sums.
        now_ms: The time.
    """
    names = sorted({*topics, *(key.topic for key in totals)})
    return tuple(
        _contract(RuleKey(topic, policy, 0), rules, totals, now_ms)
        for topic in names
        for policy, rules in evaluator.data_set_rules(topic)
        if rules.rules or rules.not_judged
    )


def _contract(
    of: RuleKey, rules: DataSetRules, totals: Mapping[RuleKey, Totals], now_ms: int
) -> ContractEntry:
    from penstock.policies.data_contract.data_set import Totals  # noqa: PLC0415

    entries = []
    for number, rule in enumerate(rules.rules):
        measured = rule.measured(totals.get(of._replace(number=number), Totals()), now_ms)
        entries.append(
            ContractRuleEntry(
                place=rule.place,
                name=rule.name,
                metric=rule.metric,
                measured=measured,
                limit=rule.limit,
                held=rule.holds(measured),
                severity=rule.severity or None,
                is_error=rule.is_error,
            )
        )
    entries += (
        ContractRuleEntry(place=one.place, name=one.name, why=one.why) for one in rules.not_judged
    )
    return ContractEntry(
        topic=of.topic, policy=of.policy, contract=rules.title, rules=tuple(entries)
    )
