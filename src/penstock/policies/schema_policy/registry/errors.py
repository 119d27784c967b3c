"""The errors of look-ups."""

from penstock.policy import RetriableException


class UnknownSchemaError(LookupError):
    """The registry does not have this schema, subject or version; the text names it."""


class RegistryAwayException(RetriableException):
    """No URL of the registry can be queried now; other look-ups would fail as well."""


class NoAnswerError(Exception):
    """A registry does not respond, or not with the requested object. The text has the reason.

    Attributes:
        is_away: Whether another request would fare no better now.
        late: Whether the time that it was given is over.
    """

    def __init__(self, text: str, *, away: bool, late: bool = False) -> None:
        super().__init__(text)
        self.is_away = away
        self.late = late
