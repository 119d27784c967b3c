"""What goes wrong where the parts of a record are read."""


class UnreadableError(Exception):
    """Bytes are not what the format says; the text completes "the value ..."."""
