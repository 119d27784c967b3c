"""Dead letters that are stored after the producer's state has changed."""

import json
from uuid import uuid4

from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.letters import Quarantined
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.producers import Producers
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey

KEY = ProducerKey("orders", 0, 7, "")
ARRIVAL = Arrival("orders", 0, 7)


def test_late_letters_do_not_change_the_state_of_a_topic_that_was_created_again():
    written, letters_pending = [], []

    def keep(key, record, done):
        written.append(record)
        producers.restore(key, record, 1000.0, len(written))
        done(None)

    producers = Producers(now=lambda: 1000.0, keep=keep, is_shared=True)
    deleted, created = uuid4(), uuid4()
    store = Quarantined((0,), b"letter", lambda _, done: letters_pending.append(done))
    producers.decide(
        KEY, ARRIVAL, 0, Range(0, 1, 11), (0,), b"",
        connection=1, topic_id=deleted, quarantined=store, done=lambda _: None,
    )  # fmt: skip
    producers.see_topic_id(KEY, ARRIVAL, 0, 0, created)
    producers.decide(
        KEY, ARRIVAL, 0, Range(0, 2, 12), (0,), b"x",
        connection=2, topic_id=created, done=lambda _: None,
    )  # fmt: skip

    [stored] = letters_pending
    stored(None)

    last = json.loads(written[-1])
    assert last["topic_id"] == str(created)
    assert last["batches"]
