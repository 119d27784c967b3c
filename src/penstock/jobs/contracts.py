"""The measured rules of contracts about complete topics, for a report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.jobs.data_sets import RuleKey
from penstock.jobs.evaluation import evaluator_of
from penstock.jobs.report.document import ContractEntry, ContractRuleEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.plan import RecordPlan
    from penstock.policies.data_contract.data_set import DataSetRules, Totals


def measured_contracts(
    plan: RecordPlan,
    topics: Collection[str],
    measure: Callable[[Collection[str]], Mapping[RuleKey, Totals]],
    *,
    are_known: bool = True,
) -> tuple[ContractEntry, ...]:
    """Measure the rules of contracts about complete topics, and return the results.

    Args:
        plan: The plan, whose policies have the rules.
        topics: The audited topics.
        measure: Reads the records of some of the topics, and returns the sums.
        are_known: Whether no topic can be among the records but these.
    """
    evaluator = evaluator_of(plan)
    if not evaluator.has_data_set_rules():
        return ()
    some = [
        name for name in topics if any(rules.rules for _, rules in evaluator.data_set_rules(name))
    ]
    now_ms = time.time_ns() // 1_000_000
    totals = measure(some) if some or not are_known else {}
    return contracts_of(evaluator, topics, totals, now_ms)


def contracts_of(
    evaluator: Evaluator, topics: Iterable[str], totals: Mapping[RuleKey, Totals], now_ms: int
) -> tuple[ContractEntry, ...]:
    """Return the results, by contract.

    Args:
        topics: Those that were read; topics with sums are added.
    """
    names = sorted({*topics, *(key.topic for key in totals)})
    return tuple(
        _contract(RuleKey(topic, policy, 0), rules, totals, now_ms)
        for topic in names
        for policy, rules in evaluator.data_set_rules(topic)
        if rules.rules or rules.not_judged
    )


def _contract(
    key: RuleKey, rules: DataSetRules, totals: Mapping[RuleKey, Totals], now_ms: int
) -> ContractEntry:
    from penstock.policies.data_contract.data_set import Totals  # noqa: PLC0415

    entries = []
    for number, rule in enumerate(rules.rules):
        measured = rule.measured(totals.get(key._replace(number=number), Totals()), now_ms)
        is_met = rule.holds(measured)
        if is_met is None:
            why = "there are no values to take a share of"
            entries.append(ContractRuleEntry(place=rule.place, name=rule.name, why=why))
            continue
        entries.append(
            ContractRuleEntry(
                place=rule.place,
                name=rule.name,
                metric=rule.metric,
                measured=measured,
                limit=rule.limit,
                held=is_met,
                severity=rule.severity or None,
                is_error=rule.is_error,
            )
        )
    entries += (
        ContractRuleEntry(place=rule.place, name=rule.name, why=rule.why)
        for rule in rules.not_judged
    )
    return ContractEntry(
        topic=key.topic, policy=key.policy, contract=rules.title, rules=tuple(entries)
    )
