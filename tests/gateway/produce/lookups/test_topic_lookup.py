"""The topics of a request are looked up before they are judged."""

from types import SimpleNamespace
from uuid import uuid4

from penstock.gateway.context.topic_names import TopicNames
from penstock.gateway.produce.lookups.topic_lookup import TopicLookup
from penstock.kafka.wire.requests.topics import NamedTopic
from penstock.kafka.wire.slices import finish

CACHED_S = 10.0


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def topic(name):
    data = SimpleNamespace(name=name, topic_id=None, partitions=[])
    return SimpleNamespace(data=data, name=name, known_name=name, topic_id=None)


def test_an_id_that_expires_while_another_topic_is_looked_up_is_kept():
    clock, known, looked_up = Clock(), uuid4(), uuid4()
    names = TopicNames(clock)
    names.put("a", known)
    topics = [topic("a"), topic("b")]
    requests, done = [], []
    gateway = SimpleNamespace(
        topic_configs=SimpleNamespace(
            are_stored=True, changed_at=lambda _: 0.0, unknown=lambda _: []
        ),
        shared_producers=None,
    )
    request = SimpleNamespace(
        topics=topics,
        gateway=gateway,
        connection=SimpleNamespace(
            topics=names, gateway=gateway, send_request=lambda *request: requests.append(request)
        ),
        is_cancelled=False,
        needs_topic_id=lambda _: True,
        partitions_of=lambda _: [],
        do=lambda slices, on_done: on_done(finish(slices)),
    )
    clock.now += CACHED_S - 0.01
    TopicLookup(request, None, lambda: done.append(None)).begin()
    [(_, on_response)] = requests

    clock.now += 0.02
    on_response.__self__._on_names([NamedTopic(0, "b", looked_up)])

    assert done == [None]
    assert [found.topic_id for found in topics] == [known, looked_up]
