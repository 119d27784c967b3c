"""Errors of reading the parts of a record."""


class UnreadableError(Exception):
    """Bytes do not have the format; the text completes "the value ..."."""
