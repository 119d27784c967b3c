"""A session with a plan of its topics."""

from dataclasses import replace
from typing import Any

from penstock.engine.plans.topic_plan import TopicPlan
from tests.gateway.sessions.talk import Talk


def with_plan(talk: Talk, **fields: Any) -> Talk:
    for_topic = talk.for_topic

    def changed(topic: str, own: object = None) -> TopicPlan | None:
        plan = for_topic(topic)
        return replace(plan, **fields) if plan is not None else None

    talk.for_topic = changed
    return talk
