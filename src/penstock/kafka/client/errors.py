"""The errors of the client. `retriable` is whether the same request may succeed later."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from penstock.errors import MalformedError, UnavailableError
from penstock.kafka.wire.errors import RETRIABLE

_DENIED: Final = frozenset(
    {
        int(ErrorCode.topic_authorization_failed),
        int(ErrorCode.group_authorization_failed),
        int(ErrorCode.cluster_authorization_failed),
        int(ErrorCode.transactional_id_authorization_failed),
    }
)


class ClientError(UnavailableError):
    """The cluster cannot be used now, or not in this way. The message is for users."""

    retriable: bool = False


class BrokerUnreachableError(ClientError):
    """A broker does not accept a connection, lost it, or does not respond in time."""

    retriable = True


class ConnectionLostError(BrokerUnreachableError):
    """A broker, or the network, has ended a connection on which a request was pending."""


class NoAnswerError(BrokerUnreachableError):
    """The time of a caller was over. It may have been too short for a broker to respond."""


class LoginError(ClientError):
    """TLS or SASL was refused by either side. The message holds no secret."""

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class UnsupportedVersionError(ClientError):
    """A broker does not serve the version of a request."""


class ResponseError(ClientError):
    """A broker responded with an error code.

    Attributes:
        code: Kafka's error code.
        reason: The broker's message; empty if it has sent none.
    """

    def __init__(self, code: int, subject: str, reason: str | None = None) -> None:
        """Take a code.

        Args:
            code: Kafka's error code.
            subject: The subject of the request, such as `topic t, partition 3`.
            reason: The broker's message, if it has sent one.
        """
        super().__init__(f"{subject}: {describe(code)}" + (f": {reason}" if reason else ""))
        self.code = code
        self.reason = reason or ""
        self.retriable = code in RETRIABLE


class DeniedError(ResponseError):
    """The cluster's ACLs do not allow it."""


class TopicRecreatedError(ClientError):
    """The topic was deleted, and created again: its offsets mean other records now."""


class TruncatedError(ClientError):
    """Records that were read, or whose offsets were known, are gone from the end of the log.

    An unclean leader election does that.
    """


class NotReadableYetError(ClientError):
    """Records of a range are not readable yet: a transaction is open, or replicas lag."""

    retriable = True


class UnreadableBatchError(MalformedError):
    """A stored batch cannot be read.

    Attributes:
        reason: The fault; never content of the batch.
    """

    def __init__(self, offset: int, reason: str, place: str = "") -> None:
        """Take where it is.

        Args:
            offset: Its base offset, or the requested offset.
            place: Topic and partition.
        """
        where = f"{place}, offset {offset}" if place else f"offset {offset}"
        super().__init__(f"{where}: a batch cannot be read: {reason}")
        self.offset = offset
        self.reason = reason


def response_error(code: int, subject: str, reason: str | None = None) -> ResponseError:
    """Return the error for a code other than 0; see `ResponseError`."""
    kind = DeniedError if code in _DENIED else ResponseError
    return kind(code, subject, reason)


def describe(code: int) -> str:
    """Return a code with its name and meaning."""
    try:
        error_code = ErrorCode(code)
    except ValueError:
        return f"error {code}"
    return f"{error_code.name.upper()} ({code})"
