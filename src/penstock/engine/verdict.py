"""Verdicts: the decisions of policies about the records of a partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final

from penstock.errors import UnavailableError
from penstock.kafka.error_codes import INVALID_RECORD, REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR
from penstock.policy import UndecidableException

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policy import RetriableException

TEXT_MAX_BYTES: Final = 1024
"""A policy's text is cut here: Kafka's strings end at 32 KiB, and an error holds three texts."""
TEXTS_MAX_BYTES: Final = 256 * 1024
"""All texts of one partition together; the records after it are named without a text."""


class Outcome(StrEnum):
    """The outcome of records, as in reports, in Spark's columns and in metrics."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    DROPPED = "dropped"
    """An interceptor (KIP-905) dropped the record; the client gets no error."""
    FAILED = "failed"
    """No policy decided: it raised, timed out, its process died, or it was never called.
    Nothing passes."""
    POSTPONED = "postponed"
    """A policy cannot decide now (`RetriableException`). Nothing passes, and the client sends the
    same again. Never the outcome of a stored record: see `PostponedError`."""
    MARKED = "marked"
    """A policy objects, and a gateway stores the record with headers that say so
    (`penstock.mode`). Never the outcome of a stored record."""
    QUARANTINED = "quarantined"
    """A policy objects, and a gateway stores the record in the dead letter topic
    (`penstock.mode`). Never the outcome of a stored record."""


STORED: Final = frozenset({Outcome.MARKED, Outcome.QUARANTINED})
"""The outcomes of bad records of a batch whose client gets a success."""
OF_GATEWAYS: Final = STORED | {Outcome.POSTPONED}
"""The outcomes that only a gateway has."""
OF_RECORDS: Final = tuple(outcome for outcome in Outcome if outcome not in OF_GATEWAYS)
"""The outcomes of judged records, in reports and in Spark's columns."""
UNDECIDED: Final = frozenset({Outcome.FAILED, Outcome.POSTPONED})
"""The outcomes that no policy decided on; the records behind it need not be judged."""

REJECTED: Final = frozenset({Outcome.REFUSED, Outcome.FAILED})
"""The outcomes for which a client gets an error, and a stored record becomes a dead letter."""


class PostponedError(UnavailableError):
    """A policy cannot decide now about records that are stored, or that no client sends again.

    The text names the policy, and has its message.
    """

    def __init__(self, verdict: PolicyVerdict) -> None:
        super().__init__(f"a policy cannot decide now: {verdict.policy}: {verdict.message}")
        self.verdict = verdict

    def __reduce__(self) -> tuple[type[PostponedError], tuple[PolicyVerdict]]:
        return type(self), (self.verdict,)


class FailureCause(Enum):
    """Why no policy decided, where anything depends on it."""

    RAISED = auto()
    """A policy raised an exception that does not mean a refusal."""
    OUT_OF_MEMORY = auto()
    """There was no memory, or native code panicked: the process is not trusted further."""
    TIMED_OUT = auto()
    NOT_JUDGED = auto()
    """No policy is to blame."""
    UNUSABLE = auto()
    """The topic's policies cannot be configured."""
    PROCESS_ENDED = auto()
    UNDECIDABLE = auto()
    """A policy lacks something that it needs to judge (`UndecidableException`)."""
    ABANDONED = auto()
    """Its client disconnected before a worker began it: no policy is at fault, and nobody waits."""


UNJUDGED: Final = frozenset({FailureCause.NOT_JUDGED, FailureCause.ABANDONED})
"""The causes of verdicts about batches that no policy was given."""
ABANDONED: Final = "abandoned"
"""The outcome of records whose client has gone, in metrics and in the log."""


def cause_of(error: BaseException) -> FailureCause:
    """Return the cause for an exception of a policy, or of native code that ran for it."""
    if isinstance(error, MemoryError) or _is_panic(error):
        return FailureCause.OUT_OF_MEMORY
    return FailureCause.RAISED


def _is_panic(error: BaseException) -> bool:
    # pyo3, which the reader and others are written with, exports no class to compare with. Where
    # it finds no memory for a Python object, it panics.
    return not isinstance(error, Exception) and type(error).__name__ == "PanicException"


@dataclass(slots=True, unsafe_hash=True)
class RecordError:
    """A refused record. Nothing changes it; a frozen dataclass takes three times as long to make.

    Attributes:
        index: Its position in the client's batch, from 0.
        message: The policy's text, or None.
        policy: The name of the class that objected.
    """

    index: int
    message: str | None
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The batch that interceptors (KIP-905), or marks, made of an accepted batch.

    Attributes:
        data: The new batch; empty where no record is left.
        dropped: The positions of the records that are not in it in the client's batch, ascending.
        quarantined: The positions of those among them that become dead letters.
        letters: The dead letters: batches, one behind the other.
    """

    data: bytes
    dropped: Sequence[int]
    quarantined: Sequence[int] = ()
    letters: bytes = b""


@dataclass(frozen=True, slots=True)
class Diverted:
    """Records of an accepted batch that policies object to (`penstock.mode`).

    Attributes:
        verdict: What the client would have been answered, with what became of them as the outcome.
        count: How many they are.
    """

    verdict: PolicyVerdict
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVerdict:
    """The decision about one partition's records.

    Attributes:
        outcome: The outcome of the records.
        policy: The class that decided; empty if all agreed.
        code: Kafka's error code; 0 where the records are accepted.
        message: The text for the client, or None.
        record_errors: The bad records, by ascending index; empty if the verdict is
            about the complete batch.
        detail: For the log only: where a policy failed. Never record contents.
        cause: Why no policy decided; None if a policy did, or if it makes no difference.
        replacement: The batch that is stored instead of the accepted batch, if interceptors
            changed or dropped some of them, or some are marked.
        diverted: The records of an accepted batch that policies object to.
    """

    outcome: Outcome
    policy: str = ""
    code: int = 0
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    detail: str = ""
    cause: FailureCause | None = None
    replacement: Replacement | None = None
    diverted: tuple[Diverted, ...] = ()

    @property
    def quarantined(self) -> list[Diverted]:
        """The records of an accepted batch that become dead letters."""
        return [part for part in self.diverted if part.verdict.outcome is Outcome.QUARANTINED]


ACCEPTED: Final = PolicyVerdict(outcome=Outcome.ACCEPTED)


def replaced(
    data: bytes,
    dropped: Sequence[int],
    diverted: tuple[Diverted, ...] = (),
    *,
    quarantined: Sequence[int] = (),
    letters: bytes = b"",
) -> PolicyVerdict:
    """Accept a batch in another form than its client gave it; see `Replacement`."""
    return PolicyVerdict(
        outcome=Outcome.ACCEPTED,
        replacement=Replacement(data, dropped, quarantined, letters),
        diverted=diverted,
    )


def refused(code: int, message: str | None, policy: str) -> PolicyVerdict:
    """Refuse the complete batch."""
    return PolicyVerdict(
        outcome=Outcome.REFUSED, code=code, message=bounded(message), policy=policy
    )


def refused_records(errors: Sequence[RecordError], total: int | None = None) -> PolicyVerdict:
    """Refuse the batch for some of its records, in the words of Kafka's LogValidator.

    Args:
        errors: The bad records, or the first of them.
        total: How many they are, if `errors` does not have all.
    """
    count = len(errors) if total is None else total
    bounded_errors = tuple(_bounded_errors(errors))
    first = ", ".join(
        f"RecordError(batchIndex={error.index}, message={_quoted(error.message)})"
        for error in bounded_errors[:3]
    )
    return PolicyVerdict(
        outcome=Outcome.REFUSED,
        code=INVALID_RECORD,
        message=(
            f"One or more records have been rejected due to {count} record errors in "
            f"total, and only showing the first three errors at most: [{first}]"
        ),
        record_errors=bounded_errors,
        policy=errors[0].policy,
    )


def refused_because(cause: str, diverted: Diverted) -> PolicyVerdict:
    """Refuse a batch whose bad records cannot be set aside.

    Args:
        cause: Why they cannot; the policy's reason follows it.
        diverted: The bad records.
    """
    refusal = diverted.verdict
    if not refusal.record_errors:
        return refused(refusal.code, because(cause, refusal.message), refusal.policy)
    texts = {error.message: because(cause, error.message) for error in refusal.record_errors}
    errors = [
        RecordError(error.index, texts[error.message], error.policy)
        for error in refusal.record_errors
    ]
    return refused_records(errors, diverted.count)


def because(cause: str, reason: str | None) -> str:
    """Return a text with the cause of a refusal, and the reason of a policy, if it gives any."""
    return cause if reason is None else f"{cause}: {reason}"


def reason_of_batch(error: RecordError) -> str:
    """Return a text about a bad record for all records of its batch."""
    return (
        f"Record {error.index} of the batch (the first is 0): "
        f"{error.message or 'no reason is given'}"
    )


def refused_record(message: str | None, policy: str) -> PolicyVerdict:
    """Refuse one record, judged by itself."""
    return refused(INVALID_RECORD, message, policy)


def dropped(policy: str) -> PolicyVerdict:
    """Leave one record out."""
    return PolicyVerdict(outcome=Outcome.DROPPED, policy=policy)


def postponed(policy: str, error: RetriableException) -> PolicyVerdict:
    """Answer that a policy cannot decide now: clients send the batch again."""
    return PolicyVerdict(
        outcome=Outcome.POSTPONED,
        code=REQUEST_TIMED_OUT,
        message=bounded(error.message or "no reason is given"),
        policy=policy,
        cause=FailureCause.UNDECIDABLE if isinstance(error, UndecidableException) else None,
    )


def of_stored(verdict: PolicyVerdict) -> PolicyVerdict:
    """Return the verdict for records that are stored, and are not sent again.

    Raises:
        PostponedError: The policy has to judge again.
    """
    if verdict.outcome is not Outcome.POSTPONED:
        return verdict
    if verdict.cause is not FailureCause.UNDECIDABLE:
        raise PostponedError(verdict)
    return replace(verdict, outcome=Outcome.FAILED)


def prepared_too_late(policy: str, why: str) -> PolicyVerdict:
    """Answer that a policy has not prepared in time (`prepare_batch`): clients send it again."""
    return PolicyVerdict(
        outcome=Outcome.POSTPONED,
        code=REQUEST_TIMED_OUT,
        message=bounded(f"The policy {policy} {why}"),
        policy=policy,
        cause=FailureCause.TIMED_OUT,
    )


def timed_out(policy: str, why: str) -> PolicyVerdict:
    """Interceptors took too long, and all attempts are spent (KIP-905)."""
    return PolicyVerdict(
        outcome=Outcome.FAILED,
        code=REQUEST_TIMED_OUT,
        message=bounded(f"The produce request interceptors {why}"),
        policy=policy,
        cause=FailureCause.TIMED_OUT,
    )


def not_judged(policy: str, why: str) -> PolicyVerdict:
    """No policy is to blame: clients send the batch again."""
    return PolicyVerdict(
        outcome=Outcome.FAILED,
        code=REQUEST_TIMED_OUT,
        message=bounded(f"The policy {policy} did not run: {why}"),
        policy=policy,
        cause=FailureCause.NOT_JUDGED,
    )


def abandoned(policy: str) -> PolicyVerdict:
    """Answer for a batch whose client has gone."""
    return replace(not_judged(policy, "its client has gone"), cause=FailureCause.ABANDONED)


def failed(
    policy: str, why: str, *, detail: str = "", cause: FailureCause | None = None
) -> PolicyVerdict:
    """No decision: refuse with an error that no client retries."""
    return PolicyVerdict(
        outcome=Outcome.FAILED,
        code=UNKNOWN_SERVER_ERROR,
        message=bounded(f"The policy {policy} {why}"),
        policy=policy,
        detail=detail,
        cause=cause,
    )


def bounded(message: str | None, limit: int = TEXT_MAX_BYTES) -> str | None:
    """Cut a text at `limit` bytes of UTF-8, between characters; make it encodable."""
    if message is None:
        return None
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode("utf-8")
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."


def _bounded_errors(errors: Sequence[RecordError]) -> Sequence[RecordError]:
    remaining = TEXTS_MAX_BYTES
    text_cache: dict[str | None, tuple[str | None, int]] = {}  # most errors of a batch say the same
    result = []
    for error in errors:
        text_and_size = text_cache.get(error.message)
        if text_and_size is None:
            text = bounded(error.message)
            text_and_size = text_cache[error.message] = text, len(text.encode()) if text else 0
        message, size = text_and_size
        if size > remaining:
            message, size = None, 0
        remaining -= size
        if message != error.message:
            error = RecordError(error.index, message, error.policy)  # noqa: PLW2901
        result.append(error)
    return result


def _quoted(message: str | None) -> str:
    return "null" if message is None else f"'{message}'"
