"""What look-ups end with, besides what they find."""

from penstock.policy import RetriableException


class UnknownSchemaError(LookupError):
    """A registry says that there is no such schema, subject or version; the text says which."""


class RegistryAwayException(RetriableException):
    """No URL of the registry can be queried now; other look-ups would fail as well."""


class NoAnswerError(Exception):
    """A registry does not answer, or not with the requested object. The text says how it fails.

    Attributes:
        away: Whether another request would fare no better now.
        late: Whether the time that it was given is over.
    """

    def __init__(self, text: str, *, away: bool, late: bool = False) -> None:
        super().__init__(text)
        self.away = away
        self.late = late
