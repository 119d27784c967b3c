"""Errors about values that cannot be decoded."""


class NotDecodedError(ValueError):
    """A value cannot be decoded. The text follows "the value", and has no content of it."""


class NotJsonError(NotDecodedError):
    """A value is not JSON: all values of its topic may be of another format."""
