"""Values of Avro as conditions read them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.policies.schema_policy.fields import avro
from penstock.policies.schema_policy.rules.avro_values import conversion
from penstock.policies.schema_policy.tags import read_patterns

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource


def conversion_of(source: SchemaSource, *, logical_types: bool) -> Callable[[Any], Any]:
    """Return the conversion of a schema's decoded payloads to values for conditions.

    Args:
        logical_types: Whether timestamps and decimals are such, or the numbers and bytes for them.
    """
    root = avro.read_fields(source, read_patterns({}))
    return partial(conversion(root, logical_types=logical_types), root)
