"""Dead letters whose client has got an error, while a broker may have them."""

import json
from uuid import uuid4

from penstock.gateway.produce.dead_letters import late_letters
from penstock.gateway.produce.dead_letters.late_letters import LateLetters
from penstock.gateway.produce.dead_letters.partition_letters import WaitingLetters
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.letters import Quarantined
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

KEY = ProducerKey("orders", 0, 7, "")
ARRIVAL = Arrival("orders", 0, 7)
BATCH = encode_batch([Record(1, None, b"a", ())])


def test_late_letters_do_not_change_the_state_of_a_topic_that_was_created_again():
    written, letters_pending = [], []

    def keep(key, record, done):
        written.append(record)
        producers.restore(key, record, 1000.0, len(written))
        done(None)

    producers = Producers(now=lambda: 1000.0, keep=keep, is_shared=True)
    deleted, created = uuid4(), uuid4()
    store = Quarantined((0,), b"letter", lambda *args: letters_pending.append(args[-1]))
    producers.decide(
        KEY, ARRIVAL, 0, Range(0, 1, 11), (0,), b"",
        connection=1, topic_id=deleted, quarantined=store, callback=lambda _: None,
    )  # fmt: skip
    producers.see_topic_id(KEY, ARRIVAL, 0, 0, created)
    producers.decide(
        KEY, ARRIVAL, 0, Range(0, 2, 12), (0,), b"x",
        connection=2, topic_id=created, callback=lambda _: None,
    )  # fmt: skip

    [stored] = letters_pending
    stored(None)

    last = json.loads(written[-1])
    assert last["topic_id"] == str(created)
    assert last["batches"]


def test_the_oldest_letters_go_first_if_there_are_too_many(monkeypatch):
    monkeypatch.setattr(late_letters, "LATE_MAX_BYTES", 2 * len(BATCH))
    late = LateLetters()
    first, second, third = (WaitingLetters(None, BATCH, 10.0) for _ in range(3))
    for letters in (first, second, first):
        late.add(letters)
    assert (list(late.surplus()), late.size) == ([], 2 * len(BATCH))
    late.add(third)
    assert list(late.surplus()) == [second]
    for letters in (first, third, third):
        late.discard(letters)
    assert late.size == 0
