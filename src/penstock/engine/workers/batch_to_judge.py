"""A batch on its way to the policies of its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from uuid import UUID

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.policy import ClientContext

_NO_TIMEOUT_MS: Final = 2**31 - 1
NOT_BEGUN: Final = 2**64 - 1
"""As in `native/src/ring/sender.rs`."""


class EarlyOutcome(NamedTuple):
    """The outcome of a batch that was judged through a ring, before Python received it.

    Attributes:
        plan: The topic's policies that judged it, encoded.
        ring: The number of the ring.
        number: The batch's number in this ring; `NOT_BEGUN` if no worker has begun it.
        is_accepted: Whether it is accepted; otherwise the worker has sent its verdict.
        took_s: How many seconds it was judged; 0 if Python waits for that.
        waited_s: How many seconds went by before that.
    """

    plan: bytes
    ring: int
    number: int
    is_accepted: bool
    took_s: float
    waited_s: float


EarlyOutcomes = dict[tuple[bytes, int], EarlyOutcome]
"""By the bytes of the topic's name or id, as a request has it, and the partition."""


class BatchToJudge(NamedTuple):
    """The records of one partition of a Produce request, and all that their verdict depends on.

    Attributes:
        plan: The topic's policies.
        partition: The partition's number.
        topic_id: The topic's id.
        version: The version of the Produce request.
        data: The record batch; it must not change until there is a verdict.
        timeout_ms: The request's timeout; 30 s if it is not above 0.
        dropped_before: Positions of the records that interceptors dropped from an earlier attempt;
            they are dropped again.
        quarantined_before: Those of them that became dead letters.
        client: The key of the client's jobs: clients are served round-robin, and the batches of
            one client for one partition keep their order.
        sender: The client, for policies that take a context; None if it is not known.
        early: Its outcome, if it was judged before Python received it.
    """

    plan: TopicPlan
    partition: int
    topic_id: UUID
    version: int
    data: bytes | memoryview
    timeout_ms: int = _NO_TIMEOUT_MS
    dropped_before: Sequence[int] = ()
    quarantined_before: Sequence[int] = ()
    client: Hashable = None
    sender: ClientContext | None = None
    early: EarlyOutcome | None = None


if TYPE_CHECKING:
    Submit = Callable[[BatchToJudge, Callable[[PolicyVerdict], None]], None]
    """Submits a batch; the second argument is called once with its verdict."""
