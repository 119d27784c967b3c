"""What is raised about schemas."""

from __future__ import annotations


class InvalidSchemaError(ValueError):
    """A schema that cannot be used; the text says why, and may be shown to the operator."""
