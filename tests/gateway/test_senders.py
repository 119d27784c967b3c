"""The sender of a batch, as sessions pass it to policies."""

import asyncio
import uuid

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.gateway.produce.observed_batches import ObservedBatch
from penstock.policy import ClientContext
from tests.gateway.produce.inline import observing
from tests.gateway.produce.intercepted import DROPPED, Intercepted, batch
from tests.gateway.produce.observing import DATA, Observing
from tests.gateway.sessions.secured import Secured
from tests.gateway.sessions.talk import Talk
from tests.raw import produce_request, request_frame


class Noting:
    """A session that records the sender of each batch."""

    def _submit(self, batch, done):
        vars(self).setdefault("senders", []).append(batch.sender)
        super()._submit(batch, done)


class NotingTalk(Noting, Talk):
    pass


class NotingSecured(Noting, Secured):
    pass


class NotingIntercepted(Noting, Intercepted):
    pass


def request(number, client_id, data=b"records", topic="judged"):
    return request_frame(produce_request([(topic, [(0, data)])]), number, client_id)


def test_the_sender_of_an_unauthenticated_client():
    talk = NotingTalk()
    talk.session.client_data(request(1, "till-1") + request(2, None) + request(3, "till-2"))
    assert talk.senders == [
        ClientContext(None, "till-1", "10.0.0.7"),
        ClientContext(None, None, "10.0.0.7"),
        ClientContext(None, "till-2", "10.0.0.7"),
    ]


def test_the_sender_of_a_client_with_a_certificate_and_with_sasl():
    talk = NotingTalk(peer="User:CN=alice")
    talk.session.client_data(request(1, "till"))
    assert talk.senders == [ClientContext("User:CN=alice", "till", "10.0.0.7")]
    secured = NotingSecured()
    secured.log_in()
    secured.session.client_data(request(1, "User:bob"))
    assert secured.senders == [ClientContext("User:alice", "User:bob", "10.0.0.7")]


def test_a_client_id_that_is_not_utf_8_is_decoded_as_at_a_broker():
    talk = NotingTalk()
    talk.session.client_data(request(1, "till").replace(b"till", b"t\xffl\n"))
    assert talk.senders == [ClientContext(None, "t\ufffdl\n", "10.0.0.7")]
    talk.session.client_data(request(2, "") + request(3, "x" * 5_000))
    assert [len(sender.client_id) for sender in talk.senders[1:]] == [0, 5_000]


def test_all_partitions_of_a_request_have_the_same_sender():
    talk = NotingTalk()
    frame = produce_request([("judged", [(n, b"records") for n in range(5)])])
    talk.session.client_data(request_frame(frame, 1, "till"))
    assert talk.senders == [ClientContext(None, "till", "10.0.0.7")] * 5
    assert len({id(sender) for sender in talk.senders}) == 1


def test_a_retry_keeps_the_decision_about_the_first_attempt():
    """Even from another address or with another client id."""
    talk = NotingIntercepted()
    dropped = batch(b"drop me")
    talk.session.client_data(request(1, "till-1", dropped))
    talk.decide(DROPPED)
    again = NotingIntercepted(talk.producers)
    again.session.address = "10.9.9.9"
    again.session.client_data(request(1, "till-2", dropped))
    assert talk.senders == [ClientContext(None, "till-1", "10.0.0.7")]
    assert not hasattr(again, "senders")


def test_another_principal_with_the_same_producer_id_is_judged_as_itself():
    talk = NotingIntercepted()
    talk.session.client_data(request(1, "till", batch(b"same")))
    talk.decide(DROPPED)
    other = NotingIntercepted(talk.producers)
    other.session.authentication._certificate_principal = "User:other"
    other.session.client_data(request(1, "till", batch(b"same")))
    assert other.senders == [ClientContext("User:other", "till", "10.0.0.7")]


def test_observed_batches_have_senders():
    talk, observed = observing(None, "watched")
    taken = []
    observed.submit = lambda batch, _: taken.append(batch.sender)
    talk.session.client_data(request(1, "till", topic="watched"))
    assert taken == [ClientContext(None, "till", "10.0.0.7")]


async def test_batches_that_wait_for_a_worker_keep_their_senders():
    observing_batches = Observing()
    plan = TopicPlan(topic="orders", validators=("a.V",), mode="observe")
    for name in ("one", "two"):
        sender = ClientContext(None, name, None)
        observed_batch = ObservedBatch(plan, 3, uuid.UUID(int=1), 9, name, 7, sender)
        observing_batches.batches.submit(observed_batch, DATA)
    [pool] = observing_batches.pools
    senders = []
    pool.submit = lambda batch, _: senders.append(batch.sender)
    pool.opened.set()
    while len(senders) < 2:
        await asyncio.sleep(0)
    assert [sender.client_id for sender in senders] == ["one", "two"]
