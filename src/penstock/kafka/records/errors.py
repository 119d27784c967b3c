"""The error of this package."""

from penstock.errors import MalformedError


class UnreadableRecords(MalformedError):  # noqa: N818 - named for what it is about
    """The records cannot be read, so they cannot be judged and must not pass.

    Attributes:
        code: Kafka's error code.
        message: The broker's own words where it has some; never record contents.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
