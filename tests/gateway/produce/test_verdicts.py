"""Accepted batches are counted when it is certain that they are sent."""

import pytest

from penstock.engine.verdict import ACCEPTED
from tests.gateway.sessions.talk import NO, Talk, produce


class Counts:
    """Records the topics whose batches count as accepted, and the refusals."""

    def __init__(self):
        self.accepted_topics, self.refused_topics = [], []

    def accepted(self, plan, data, verdict=ACCEPTED):
        self.accepted_topics.append(plan.topic)

    def refused(self, topic, data, verdict):
        self.refused_topics.append(topic)

    def answered(self, exchange):
        """Requests are not counted here."""


@pytest.fixture
def talk():
    talk = Talk(judged=frozenset({"judged", "other"}))
    talk.counts = Counts()
    return talk


def test_accepted_and_refused_batches_are_counted_separately(talk):
    talk.session.client_data(produce(1, "judged", "free", "other"))
    talk.decide()
    assert talk.counts.accepted_topics == []
    talk.decide(NO)
    assert talk.counts.accepted_topics == ["judged"]
    assert talk.counts.refused_topics == ["other"]


def test_the_verdict_counts_even_if_the_whole_request_is_refused(talk):
    talk.policies = talk.policies._replace(whole_request=True)
    talk.session.client_data(produce(1, "judged", "other"))
    talk.decide()
    talk.decide(NO)
    assert talk.broker.take() == b""
    assert (talk.counts.accepted_topics, talk.counts.refused_topics) == (["judged"], ["other"])


def test_each_request_counts_its_own_batches(talk):
    talk.session.client_data(produce(1, "judged") + produce(2, "judged"))
    talk.decide()
    assert talk.counts.accepted_topics == ["judged"]
    talk.decide()
    assert talk.counts.accepted_topics == ["judged", "judged"]
