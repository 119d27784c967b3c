"""Where the dead letters of a partition go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.engine.plans.topic_plan import TopicPlan


class DeadLetterTopic(NamedTuple):
    """Where the dead letters of a partition go.

    Attributes:
        name: The dead letter topic.
        source: The original topic of its records.
        partition: The partition of that topic. Letters go to the same partition, modulo their
            topic's number of partitions.
        replicas: The replication factor of the dead letter topic, if it is created.
    """

    name: str
    source: str
    partition: int
    replicas: int

    @classmethod
    def of(cls, plan: TopicPlan, partition: int) -> DeadLetterTopic:
        """Return where the dead letters of a partition go by the policies of its topic."""
        return cls(plan.dead_letter_topic, plan.topic, partition, plan.dead_letter_replicas)
