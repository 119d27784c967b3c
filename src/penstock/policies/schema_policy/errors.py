"""What is wrong with a schema."""


class InvalidSchemaError(ValueError):
    """A schema that cannot be used; the text is for the operator, and safe to show."""
