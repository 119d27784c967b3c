"""The policies that are in force together, until a configuration is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.gateway.produce.idempotence import Idempotence
from penstock.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Sequence
    from uuid import UUID

    from penstock.engine.plan import Plan, TopicPlan
    from penstock.engine.verdict import Verdict
    from penstock.gateway.admin.topic_policies import TopicPolicies


class Submit(Protocol):
    """Has one partition's records judged; see `engine.workers.supervisor.Supervisor.submit`."""

    def __call__(
        self,
        topic_plan: TopicPlan,
        partition: int,
        topic_id: UUID,
        version: int,
        data: bytes | memoryview,
        done: Callable[[Verdict], None],
        *,
        timeout_ms: int = ...,
        dropped_before: Sequence[int] = ...,
        client: Hashable = ...,
    ) -> None: ...


class PolicySet(NamedTuple):
    """Policies, and who runs them.

    Attributes:
        plan: Which policies each topic has.
        submit: Has a batch judged by the workers that know their classes.
        whole_request: Whether a refusal reaches the whole request.
        topics: The policies of topics and configs.
        retain: Has a topic's instances of other classes of KIP-686 closed; see `Supervisor.retain`.
        cancel: Has what waits for one client not judged; see `Supervisor.cancel`.
        idempotence: What becomes of idempotent producers whose records are dropped.
        judges_partitions: Whether the policy of topics is asked about more partitions.
        refused_automatic_creation_code: Answers Metadata for a topic that may not be created.
    """

    plan: Plan
    submit: Submit
    whole_request: bool
    topics: TopicPolicies
    retain: Callable[[str, Container[str]], None]
    cancel: Callable[[Hashable], None]
    idempotence: Idempotence = Idempotence.TRANSLATE
    judges_partitions: bool = True
    refused_automatic_creation_code: int = UNKNOWN_TOPIC_OR_PARTITION


def without_response(client: Hashable) -> Hashable:
    """Return the client, for the policies, of what it expects no response to (acks=0)."""
    return client, 0
