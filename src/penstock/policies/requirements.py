"""What a policy requires of values that are JSON: conditions to be true, and fields to be there.

A policy has a method `value_requirements(topic, text)`, which returns these; `text` is the topic's
`record.validation.policy`. Where all values have fields that are known beforehand, as rows have
their columns, it is known from them whether any value can be accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.policies.schema_policy.rules.checked import Tree


class Requirement(NamedTuple):
    """A condition or a field; a value that does not have it is refused.

    Attributes:
        where: The key of the policy that requires it, for messages.
        condition: A condition that has to be true; None for a field.
        field: The path of the field that has to be there.
        types: The types in JSON Schema of which it has to be one; empty for any.
    """

    where: str
    condition: Tree | None = None
    field: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
