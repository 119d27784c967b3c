"""Dead letters that the target's broker refuses: which they are, and how they are found.

A gateway acknowledges a record that its policies object to before any broker has it, so a dead
letter may be a record that no broker accepts: too large, outside the target's bounds of timestamps,
or without a key for a compacted topic. A broker refuses a complete batch. Mostly it names the
records (KIP-467). Otherwise the batch is halved until the record is alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from penstock.engine.verdict import Outcome, PolicyVerdict
from penstock.kafka.client.errors import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.kafka.client.protocol.write_errors import RefusedBatchError

BROKER: Final = "broker"
"""Who refused, where it was no policy: in dead letters and in counted reasons."""
_REASONS: Final[Mapping[int, str]] = {
    ErrorCode.message_too_large: "larger than the topic's max.message.bytes",
    ErrorCode.record_list_too_large: "larger than the topic's segment.bytes",
    ErrorCode.invalid_timestamp: "its timestamp is outside the topic's "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ErrorCode.invalid_record: "not valid for the topic: if its cleanup.policy is compact, a "
    "record must have a key",
    ErrorCode.policy_violation: "refused by a policy of the cluster",
}
"""The codes that are about records. After others, all of the target has to be changed."""


class RefusedLetters:
    """Which letters of one partition the target refuses, as far as that is known."""

    def __init__(self, target: str) -> None:
        """Begin without any.

        Args:
            target: The topic that letters return to.
        """
        self._target = target
        self._verdicts: dict[int, PolicyVerdict] = {}
        self._cuts: set[int] = set()
        self._sent_batches: dict[int, Sequence[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._verdicts)

    def verdict(self, offset: int) -> PolicyVerdict | None:
        """Return why the target refuses the letter at an offset; None if that is not known."""
        return self._verdicts.get(offset)

    def send(self, offsets: Sequence[int]) -> None:
        """Take note of a batch on its way to the target, by the offsets of its letters."""
        self._sent_batches[offsets[0]] = offsets

    def refuse(self, offset: int, code: int) -> PolicyVerdict:
        """Take note that the target refuses a letter; return why."""
        message = f"{describe(code)}: topic {self._target}: {_REASONS[code]}"
        verdict = PolicyVerdict(outcome=Outcome.REFUSED, policy=BROKER, code=code, message=message)
        self._verdicts[offset] = verdict
        return verdict

    def learn(self, error: RefusedBatchError) -> bool:
        """Learn from a batch that was refused; return whether the next attempt differs.

        It does not after a batch for another topic, or for a reason that is not about records.
        """
        refusal = error.refusal
        if refusal is None or refusal.topic != self._target or refusal.code not in _REASONS:
            return False
        offsets = self._sent_batches.get(refusal.source.offset)
        if offsets is None:
            return False
        named = [offsets[index] for index in refusal.records if 0 <= index < len(offsets)]
        if len(offsets) == 1:
            named = list(offsets)
        for offset in named:
            self.refuse(offset, refusal.code)
        if not named:
            self._cuts.add(offsets[len(offsets) // 2])
        return True

    def halves(self, positions: Sequence[int], offsets: Sequence[int]) -> Iterator[Sequence[int]]:
        """Divide records where batches that were refused are halved.

        Args:
            positions: The positions of records in their batch, ascending.
            offsets: The offsets of all records of the batch.
        """
        start = 0
        if self._cuts:
            for index, position in enumerate(positions):
                if index > start and offsets[position] in self._cuts:
                    yield positions[start:index]
                    start = index
        if start < len(positions):
            yield positions[start:]

    def forget_sent(self) -> None:
        """Forget batches that were sent: their transaction is lost, or committed."""
        self._sent_batches.clear()

    def forget_before(self, offset: int) -> None:
        """Forget letters before an offset: they are committed."""
        self._verdicts = {
            refused_at: why for refused_at, why in self._verdicts.items() if refused_at >= offset
        }
        self._cuts = {cut for cut in self._cuts if cut >= offset}
