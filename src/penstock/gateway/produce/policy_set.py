"""The policies of one configuration, with the workers that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.verdict import ACCEPTED
from penstock.gateway.produce.idempotence import Idempotence

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable

    from penstock.engine.inline import InlineJudge
    from penstock.engine.plans.plan import Plan
    from penstock.engine.verdict import PolicyVerdict
    from penstock.engine.workers.batch_to_judge import BatchToJudge, Submit
    from penstock.engine.workers.supervisor import Supervisor
    from penstock.gateway.admin.topic_policies import TopicPolicies
    from penstock.gateway.produce.observed_batches import ObservedBatches


class PolicySet(NamedTuple):
    """The policies of one configuration.

    Attributes:
        plan: The policies of each topic.
        submit: Submits a batch for judgement, inline or by the workers.
        whole_request: Whether all partitions of a request are refused if one is.
        topics: The policies for topics and configs (KIP-108, KIP-133).
        retain: Closes the KIP-686 instances of a topic except for some classes; see
            `Supervisor.retain`.
        cancel: Cancels the waiting jobs of a client; see `Supervisor.cancel`.
        leave: Has all clients that are gone share a turn; see `Supervisor.leave`.
        idempotence: How batches of idempotent producers are treated if records are dropped.
        inline: Accepts small batches without a worker; None if no policy can do that.
        pool: The workers, if there are any.
        observed: Judges the batches of observed topics; None if no topic has policies.
    """

    plan: Plan
    submit: Submit
    whole_request: bool
    topics: TopicPolicies
    retain: Callable[[str, Container[str]], None]
    cancel: Callable[[Hashable], None]
    leave: Callable[[Hashable], None]
    idempotence: Idempotence = Idempotence.TRANSLATE
    inline: InlineJudge | None = None
    pool: Supervisor | None = None
    observed: ObservedBatches | None = None


def submit_or_drop_again(
    drop_again: Submit,
    submit: Submit,
    batch: BatchToJudge,
    on_verdict: Callable[[PolicyVerdict], None],
) -> None:
    """Submit a batch, or drop its records again if no policy is left to judge it."""
    chosen = submit if batch.plan.policies else drop_again
    chosen(batch, on_verdict)


def without_response(client: Hashable) -> Hashable:
    """Return the key of a client's jobs whose requests expect no response (acks=0)."""
    return client, 0


def submit_or_accept(
    inline: InlineJudge,
    submit: Submit,
    batch: BatchToJudge,
    on_verdict: Callable[[PolicyVerdict], None],
) -> None:
    """Accept a batch inline, or submit it.

    A batch whose records are dropped again is not accepted inline: it changes.
    """
    if not batch.dropped_before and inline.accepts(batch.plan, batch.version, batch.data):
        on_verdict(ACCEPTED)
    else:
        submit(batch, on_verdict)
