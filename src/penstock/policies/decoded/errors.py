"""The error about a value that cannot be decoded."""


class NotDecodedError(ValueError):
    """A value cannot be decoded. The text follows "the value", and has no content of it."""
