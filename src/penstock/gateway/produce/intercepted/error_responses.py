"""The responses to batches that may not be sent, or whose state cannot be kept."""

from __future__ import annotations

from typing import Final

from penstock.engine.verdict import bounded
from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.kafka.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
    UNKNOWN_PRODUCER_ID,
)
from penstock.kafka.wire.requests.produce import PartitionResponse

_TEXTS: Final = {
    REQUEST_TIMED_OUT: "It is not known yet whether the broker has what comes before this batch",
    OUT_OF_ORDER_SEQUENCE_NUMBER: "A batch before this one is missing",
    INVALID_PRODUCER_EPOCH: "The producer has taken a newer epoch",
    UNKNOWN_PRODUCER_ID: (
        "It is not known here any more which of this producer's records were dropped"
    ),
}
MAY_BE_ELSEWHERE: Final = PartitionResponse(
    REQUEST_TIMED_OUT,
    "It is not known yet whether a former leader of the partition has this batch",
)
NOT_KEPT: Final = PartitionResponse(
    REQUEST_TIMED_OUT, "The producer's sequence numbers could not be kept"
)


def error_response(code: int) -> PartitionResponse:
    """Return the response to a batch that gets an error code because of its producer's state."""
    if code == UNKNOWN_PRODUCER_ID:
        return PartitionResponse(code, _TEXTS[code], log_start_offset=0)
    return PartitionResponse(code, _TEXTS.get(code))


def letters_not_stored(failure: str) -> PartitionResponse:
    """Return the response to a batch whose dead letters could not be stored, and why."""
    code = INVALID_RECORD if isinstance(failure, LettersRefused) else REQUEST_TIMED_OUT
    text = f"The dead letters of this batch could not be stored: {failure}"
    return PartitionResponse(code, bounded(text))
