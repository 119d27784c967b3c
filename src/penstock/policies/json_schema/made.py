"""Schemas that Penstock makes of the configuration of a policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.json_schema.check import compile_check
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.texts import SchemaTexts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.policies.json_schema.check import Check

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def compile_made(schema: Mapping[str, Any], *, formats: bool = False) -> Check:
    """Compile a schema of draft 2020-12.

    Args:
        schema: Without `$schema`.
        formats: Whether `format` is judged.

    Raises:
        ValueError: It cannot be used.
    """
    try:
        text = json.dumps({"$schema": DRAFT, **schema})
        return compile_check(SchemaTexts(text, {}), formats=formats)
    except SchemaError as error:
        raise ValueError(str(error)) from None
