"""Errors of schemas."""


class InvalidSchemaError(ValueError):
    """A schema that cannot be used; the text is for the operator, and safe to show."""
