"""Why a batch of dead letters is not stored, by a broker's response to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from kio.schema.errors import ErrorCode

from penstock.configuration import ConfigurationError
from penstock.kafka.client.errors import (
    ClientError,
    ConnectionLostError,
    ResponseError,
    describe,
    response_error,
)
from penstock.kafka.error_codes import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    POLICY_VIOLATION,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from penstock.kafka.wire.errors import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    UNKNOWN_PRODUCER_ID,
    UNKNOWN_SERVER_ERROR,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.gateway.produce.dead_letters.outgoing import Place
    from penstock.kafka.client.protocol.produce import ProduceResult

log = structlog.get_logger()

_ERROR: Final = "there was an error"
_STORED: Final = frozenset({NONE, DUPLICATE_SEQUENCE_NUMBER})
_TOO_LARGE: Final[Mapping[int, str]] = {
    MESSAGE_TOO_LARGE: "max.message.bytes",
    int(ErrorCode.record_list_too_large): "segment.bytes",
}
"""The config of the topic, by Kafka's error code."""
_REFUSED: Final = frozenset(
    {INVALID_RECORD, INVALID_TIMESTAMP, POLICY_VIOLATION, UNSUPPORTED_COMPRESSION_TYPE}
)
"""The errors for records that this topic never accepts, such as records without a key in a
compacted topic. Other errors may be repaired: those of the cluster, or of ACLs."""
_OTHER_SEQUENCE: Final = frozenset(
    {
        OUT_OF_ORDER_SEQUENCE_NUMBER,
        UNKNOWN_PRODUCER_ID,
        INVALID_PRODUCER_EPOCH,
        PRODUCER_FENCED,
        int(ErrorCode.invalid_producer_id_mapping),
    }
)


class LettersRefused(str):
    """Why a dead letter topic does not take a letter, however often it is sent."""

    __slots__ = ()


class LetterRefusedError(ClientError):
    """The dead letter topic does not take a letter."""


class LettersTooLargeError(LetterRefusedError):
    """A batch of letters is larger than the dead letter topic allows."""


def failure_of(place: Place, size: int, answer: ProduceResult) -> ClientError | None:
    """Return the error for a response about a batch; None if the batch is stored.

    Args:
        size: The bytes of its first letters.
    """
    if answer.code in _STORED:
        return None
    subject = f"topic {place[0]}, partition {place[1]}"
    text = f" ({answer.text})" if answer.text else ""
    if answer.code in _TOO_LARGE:
        return LettersTooLargeError(
            f"{subject}: a dead letter of {size} bytes, with its headers, is larger than its "
            f"{_TOO_LARGE[answer.code]}: {describe(answer.code)}; raise it"
        )
    if answer.code in _REFUSED:
        return LetterRefusedError(f"{subject}: {describe(answer.code)}{text}")
    return response_error(answer.code, f"{subject}{text}")


def has_other_sequence(failure: Exception) -> bool:
    """Whether the broker's last sequence number, or epoch, is not that of the gateway.

    The broker has lost batches of the partition (an unclean leader election), or never had them.
    """
    return isinstance(failure, ResponseError) and failure.code in _OTHER_SEQUENCE


def breaks_request(failure: Exception) -> bool:
    """Whether a broker could not handle a request: perhaps it never can."""
    if isinstance(failure, ResponseError):
        return failure.code == UNKNOWN_SERVER_ERROR
    return isinstance(failure, ConnectionLostError)


def leaves_open(failure: Exception) -> bool:
    """Whether a batch may be stored in spite of a failure.

    A leader that has appended it may respond with a retriable error, or not at all.
    """
    if isinstance(failure, ResponseError):
        return failure.retriable or failure.code == UNKNOWN_SERVER_ERROR
    if isinstance(failure, ClientError):
        return failure.retriable
    return isinstance(failure, (TimeoutError, WireError))


def unexpected_failure(error: Exception) -> str:
    """Return why letters have failed that met an error which no broker is to blame for."""
    if isinstance(error, ConfigurationError):
        return str(error)
    log.error("an error of the gateway", action="store dead letters", exc_info=error)
    return _ERROR
