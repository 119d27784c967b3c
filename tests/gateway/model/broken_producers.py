"""Possible errors of the gateway in the state of producers: histories must find each of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pytest

from penstock.gateway.produce import end_txn
from penstock.gateway.produce.producer_state import written_decisions
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.broker_queries import BrokerQueries
from penstock.gateway.produce.producer_state.letters import Letters
from penstock.gateway.produce.producer_state.producer.at_broker import AtBroker
from penstock.gateway.produce.producer_state.producer.batch import Batch, Event, State
from penstock.gateway.produce.producer_state.producer.batches import Batches
from penstock.gateway.produce.producer_state.producer.earlier_batches import EarlierBatches
from penstock.gateway.produce.producer_state.producer.history import History
from penstock.gateway.produce.producer_state.producer.numbering import Numbering
from penstock.gateway.produce.producer_state.producer.state_machine import Producer
from penstock.gateway.produce.producer_state.records import encoding
from penstock.gateway.produce.producer_state.records.fences import Fences
from penstock.gateway.produce.producer_state.records.reader import RecordReader
from penstock.gateway.produce.producer_state.records.writer import RecordWriter
from penstock.gateway.produce.producer_state.written_decisions import WrittenDecisions
from tests.gateway.model import transaction_histories
from tests.gateway.model.coordinator_model import confirmed
from tests.gateway.model.histories import World
from tests.gateway.model.history_features import Features

PLAIN: Final = Features()
ROLLS_OUT: Final = Features(
    writes_late=True, compacts=True, switches=True, rolls_out=True, gateways=4
)
CHANGES: Final = Features(
    checksums=True, switches=True, rolls_out=True, changes=True, little_memory=True
)
Breaks = Callable[[pytest.MonkeyPatch], None]


def acknowledges_at_once(patch: pytest.MonkeyPatch) -> None:
    """A batch without records is acknowledged, regardless of earlier batches."""
    patch.setattr(Producers, "acknowledge", lambda *_: 0)


def counts_nothing(patch: pytest.MonkeyPatch) -> None:
    """Sequence numbers are those of the client, though records are dropped."""
    made = Numbering._new
    patch.setattr(
        Numbering, "_new", staticmethod(lambda numbers, _, *rest: made(numbers, 0, *rest))
    )


def waits_for_no_write(patch: pytest.MonkeyPatch) -> None:
    """A batch is sent before the decision about it is written."""
    write = RecordWriter.write

    def writing(self, key, producer, done=lambda _: None, *, fences=False):
        write(self, key, producer, fences=fences)
        done(None)

    patch.setattr(RecordWriter, "write", writing)


def believes_what_was_not_written(patch: pytest.MonkeyPatch) -> None:
    """A decision that was not written is not written again."""
    patch.setattr(written_decisions, "_TO_BE_WRITTEN", frozenset({State.DECIDED}))


def reads_nothing(patch: pytest.MonkeyPatch) -> None:
    """Records of other gateways are read by chance only."""
    patch.setattr(Producers, "needs_reading", lambda *_: False)


def learns_nothing(patch: pytest.MonkeyPatch) -> None:
    """Records of other gateways about a known producer are ignored."""
    patch.setattr(RecordReader, "_learn", lambda *_: False)


def queries_no_broker(patch: pytest.MonkeyPatch) -> None:
    """The broker is never queried for the last sequence number."""
    patch.setattr(BrokerQueries, "is_needed", lambda *_, **__: False)


def knows_no_retry(patch: pytest.MonkeyPatch) -> None:
    """A retried batch is decided again."""
    patch.setattr(Batches, "find", lambda *_: None)


def sends_anything(patch: pytest.MonkeyPatch) -> None:
    """A batch is sent although an earlier batch has to be retried."""
    patch.setattr(EarlierBatches, "obstacle", lambda *_: 0)


def takes_a_timeout_for_stored(patch: pytest.MonkeyPatch) -> None:
    """A batch that a broker answers 7 for is assumed to be stored."""
    answered = Producer.on_response

    def on_response(self, batch, code, stored):
        if code == 7 and batch in self.batches:
            self._store(batch, stored)
            return code
        return answered(self, batch, code, stored)

    patch.setattr(Producer, "on_response", on_response)


def takes_a_timeout_for_refused(patch: pytest.MonkeyPatch) -> None:
    """A batch that a broker answers 20 for is assumed to be refused."""
    answered = Producer.on_response

    def on_response(self, batch, code, stored):
        if code == 20 and batch in self.batches:
            batch.apply(Event.REFUSE)
            return code
        return answered(self, batch, code, stored)

    patch.setattr(Producer, "on_response", on_response)


def trusts_its_record(patch: pytest.MonkeyPatch) -> None:
    """After a restart it believes that nothing was dropped since the last record."""
    decode = encoding.decode

    def decoded(record, _, used, release):
        return decode(record, History.COMPLETE, used, release)

    patch.setattr(encoding, "decode", decoded)


def sends_what_is_new(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a retry are those of the retry, without the records that were dropped first."""
    again = Producer._again

    def decide_again(self, batch, dropped, data, connection):
        found = again(self, batch, dropped, data, connection)
        if found is batch and batch.data is not None and len(batch.data) > 8:
            batch.data = bytes(batch.data)[::-1]
        return found

    patch.setattr(Producer, "_again", decide_again)


def presumes_nothing(patch: pytest.MonkeyPatch) -> None:
    """The batches before a stored batch are not assumed to be stored."""
    patch.setattr(Batch, "presume", lambda _: None)


def keeps_an_older_record(patch: pytest.MonkeyPatch) -> None:
    """A record that another gateway wrote from older state stays the last record."""
    patch.setattr(encoding, "is_ahead", lambda *_: False)


def believes_that_letters_are_stored(patch: pytest.MonkeyPatch) -> None:
    """A batch is sent although its dead letters could not be stored."""
    stored = Letters._stored
    patch.setattr(Letters, "_stored", lambda self, batch, done, _: stored(self, batch, done, None))


def stores_letters_once_they_are_decided(patch: pytest.MonkeyPatch) -> None:
    """Dead letters are stored though their decision could not be written."""
    store = Letters.store

    def storing(self, batch, letters, quarantined, done, failure):
        store(self, batch, letters, quarantined, done, None)

    patch.setattr(Letters, "store", storing)


def forgets_who_was_set_aside(patch: pytest.MonkeyPatch) -> None:
    """A record has the dropped records, but not which of them become dead letters."""
    fields = encoding._fields
    patch.setattr(encoding, "_fields", lambda batch: fields(batch)[:7])


def expects_no_letters(patch: pytest.MonkeyPatch) -> None:
    """A batch without remaining records is settled when that is written, without its letters."""
    patch.setattr(Batch, "owes_letters", False)


def lets_every_record_count(patch: pytest.MonkeyPatch) -> None:
    """A late decision counts, regardless of decisions in the meantime."""
    patch.setattr(Fences, "is_void", lambda *_: False)


def writes_only_what_loses_records(patch: pytest.MonkeyPatch) -> None:
    """While interceptors change, batches without dropped records are passed without a record."""
    patch.setattr(WrittenDecisions, "fence", lambda *_, **__: False)


def believes_a_leader(patch: pytest.MonkeyPatch) -> None:
    """A batch that cannot be sent again is acknowledged once its leader has it."""
    patch.setattr(AtBroker, "_is_replicated", lambda *_: True)


def trusts_checksums(patch: pytest.MonkeyPatch) -> None:
    """A batch that was accepted is sent again as its client sends it, whatever it sends."""
    decide, send = AtBroker._decide_otherwise, Producer.send

    def decide_otherwise(self, batch, dropped, now, *, is_at_leader):
        decide(self, batch, dropped, now, is_at_leader=is_at_leader)
        batch.is_confirmed = batch.was_accepted and batch.is_decided_otherwise(dropped)

    patch.setattr(AtBroker, "_decide_otherwise", decide_otherwise)
    patch.setattr(Numbering, "undecide", lambda *_: None)
    patch.setattr(Producer, "send", lambda self, batch, **_: send(self, batch))


def forgets_what_was_dropped_before(patch: pytest.MonkeyPatch) -> None:
    """A batch that is decided again in front of others gets the numbers of these."""
    again = Numbering.undecide

    def undecide(self, batch):
        before = self.beginning
        again(self, batch)
        self.beginning = before

    patch.setattr(Numbering, "undecide", undecide)


def takes_a_later_batch_for_proof(patch: pytest.MonkeyPatch) -> None:
    """A batch is taken to be stored if a later batch is, though the producer may be new there."""

    def is_before_a_stored(self, batch):
        return State.STORED in self.states_from(self.index(batch) + 1)

    patch.setattr(Batches, "are_stored_around", is_before_a_stored)


def forwards_commits(patch: pytest.MonkeyPatch) -> None:
    """The commit of a transaction without a record is answered as by the coordinator."""

    async def end_txn(context):
        return await context.forward()

    patch.setattr(transaction_histories, "end_txn", end_txn)


def confirms_whatever_is_refused(patch: pytest.MonkeyPatch) -> None:
    """The commit of any transaction that cannot be committed is answered with a success."""
    forwards = end_txn.end_txn

    async def confirming(context):
        response = await forwards(context)
        if not (await context.body()).committed:
            return response
        return confirmed(response)

    patch.setattr(transaction_histories, "end_txn", confirming)


BROKEN: Final[dict[Breaks, Features]] = {
    acknowledges_at_once: PLAIN,
    counts_nothing: PLAIN,
    waits_for_no_write: Features(gateways=3),
    believes_what_was_not_written: Features(gateways=3),
    reads_nothing: Features(gateways=3),
    learns_nothing: Features(gateways=3),
    queries_no_broker: PLAIN,
    knows_no_retry: PLAIN,
    sends_anything: PLAIN,
    takes_a_timeout_for_stored: Features(appended=True),
    takes_a_timeout_for_refused: Features(appended=True),
    trusts_its_record: PLAIN,
    sends_what_is_new: PLAIN,
    presumes_nothing: PLAIN,
    keeps_an_older_record: Features(compacts=True, gateways=4),
    believes_that_letters_are_stored: Features(quarantines=True),
    stores_letters_once_they_are_decided: Features(quarantines=True, switches=True, gateways=3),
    forgets_who_was_set_aside: Features(quarantines=True, gateways=3),
    expects_no_letters: Features(quarantines=True, gateways=3),
    lets_every_record_count: ROLLS_OUT,
    writes_only_what_loses_records: ROLLS_OUT,
    believes_a_leader: CHANGES,
    trusts_checksums: Features(checksums=True, little_memory=True, forges=True),
    forgets_what_was_dropped_before: CHANGES,
    takes_a_later_batch_for_proof: Features(takes_later=True, returns=True),
}
"""The errors, and the events in the histories that find them."""
BROKEN_TRANSACTIONS: Final[Sequence[Breaks]] = (
    acknowledges_at_once,
    counts_nothing,
    forwards_commits,
    confirms_whatever_is_refused,
)
"""The errors that histories of transactions find."""


def first_found(breaks: Breaks, world: Callable[[int], World], seeds: Iterable[int]) -> int | None:
    """Return the first seed whose history finds an error, or None."""
    with pytest.MonkeyPatch.context() as patch:
        breaks(patch)
        for seed in seeds:
            try:
                world(seed).walk()
            except Exception:
                return seed
    return None


QUICKLY_FOUND: Final = (
    acknowledges_at_once,
    counts_nothing,
    waits_for_no_write,
    believes_what_was_not_written,
    queries_no_broker,
    knows_no_retry,
    sends_anything,
    sends_what_is_new,
    presumes_nothing,
    believes_that_letters_are_stored,
    stores_letters_once_they_are_decided,
    forgets_who_was_set_aside,
    expects_no_letters,
    lets_every_record_count,
    writes_only_what_loses_records,
    takes_a_later_batch_for_proof,
)
"""The errors that a hundred histories find."""
