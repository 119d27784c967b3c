"""What a policy that consists of rules says about a record that it refuses: all of its objections.

A policy has a method `objections_of_rules(topic, batch)`, which is called with refused records
only, and yields these. Their texts hold nothing of the record.

A policy whose attribute `judges_by_rules` is true refuses those records that it objects to so, with
the text of the first objection. Then the method is called with all records, and judges them.
"""

from __future__ import annotations

from typing import NamedTuple


class RuleObjection(NamedTuple):
    """The objection of a rule to a record.

    Attributes:
        position: The position of the record in the batch.
        rule: What the rule is called; None for an objection of no single rule.
        message: Why.
        fields: The fields of the value, at its top level, that the rule is about.
    """

    position: int
    rule: str | None
    message: str
    fields: tuple[str, ...] = ()
