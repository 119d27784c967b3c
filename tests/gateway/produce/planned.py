"""A session with a plan of its topics."""

from dataclasses import replace


def with_plan(talk, **fields):
    for_topic = talk.for_topic

    def changed(topic, own=None):
        plan = for_topic(topic)
        return replace(plan, **fields) if plan is not None else None

    talk.for_topic = changed
    return talk
