"""Errors of reading the parts of a record."""


class UnreadableError(Exception):
    """Bytes are not what the format says; the text completes "the value ..."."""
