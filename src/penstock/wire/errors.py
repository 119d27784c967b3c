"""The one error of this package, and the error codes it writes."""

from typing import Final


class WireError(Exception):
    """The peer's bytes are not what the protocol says. The connection cannot go on.

    The text never holds what the bytes hold.
    """


NONE: Final = 0
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
UNSUPPORTED_VERSION: Final = 35
UNKNOWN_TOPIC_ID: Final = 100
