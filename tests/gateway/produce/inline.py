"""A session whose policies judge at once."""

import uuid
from collections.abc import Iterable
from typing import Any

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.gateway.admin.topic_configs import TopicConfigs
from tests.gateway.sessions.talk import Talk

ID = uuid.UUID(int=5)


class Inline:
    """Accepts every batch except the given batches."""

    def __init__(self, *refused: bytes) -> None:
        self.refused, self.seen = refused, []

    def judges(self, plan: TopicPlan) -> bool:
        return plan.topic != "of a user"

    def accepts(self, plan: TopicPlan, version: int, data: bytes) -> bool:
        self.seen.append((plan.topic, version, bytes(data)))
        return bytes(data) not in self.refused


class Stored(TopicConfigs):
    """Topic configs of a cluster in which some topics have their own configs."""

    are_stored = True
    topic = "settings"
    seen: tuple = (ID,)
    unreadable = False

    def of(self, topic: str, topic_id: uuid.UUID) -> dict[str, str]:
        if self.unreadable:
            raise UnreadableTopicConfigsError("unreadable")
        return {}

    def unknown(self, topics: Iterable[Any]) -> list[Any]:
        return [topic for topic in topics if topic not in self.seen]

    def see(self, topics: Iterable[Any]) -> None:
        self.seen = (*self.seen, *topics)


def talk_with(inline: Inline, **attributes: object) -> Talk:
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.policies = talk.policies._replace(inline=inline)
    for name, value in attributes.items():
        setattr(talk, name, value)
    return talk


class Observed:
    """Receives the batches that are judged in the background."""

    def __init__(self) -> None:
        self.taken = []

    def submit(self, batch: Any, data: bytes) -> None:
        self.taken.append((batch.plan.topic, batch.partition, bytes(data)))


def observing(inline: Inline, *topics: str, **attributes: object) -> tuple[Talk, Observed]:
    """A gateway whose policies only observe some topics."""
    talk = talk_with(inline, **attributes)
    observed, for_topic = Observed(), talk.for_topic

    def with_mode(topic: str, own: object = None) -> TopicPlan | None:
        if topic in topics:
            return TopicPlan(topic=topic, validators=("v",), mode="observe")
        return for_topic(topic, own)

    talk.for_topic = with_mode
    talk.policies = talk.policies._replace(observed=observed)
    return talk, observed
