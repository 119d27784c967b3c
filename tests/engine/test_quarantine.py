"""Dead letters of a producer's batch: their content, and their permanent ids."""

import pytest

from penstock.engine.modes import quarantine
from penstock.engine.modes.dead_letters import Origin, read_id, read_origin
from penstock.engine.modes.quarantine import Blame, Place, write_letters
from penstock.engine.verdict import RecordError
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.kafka.records.encoding import CODECS, encode_batch

PLACE = Place("orders", 3)
NOW = 1_800_000_000


def batch_of(*values, headers=(), codec=0, **fields):
    records = [Record(1000 + n, b"k%d" % n, value, headers) for n, value in enumerate(values)]
    data = encode_batch(records, codec=codec, **fields)
    return read_batch(data, api_version=9, max_decompressed_bytes=2**24)


def blame(*positions):
    return {position: Blame("a.V", f"no {position}", 87) for position in positions}


def letters_of(data):
    """Return the batches of letters."""
    found = []
    while data:
        end = int.from_bytes(data[8:12], "big") + 12
        found.append(read_stored_batch(data[:end], max_decompressed_bytes=2**24))
        data = data[end:]
    return found


def test_records_with_the_same_reason_share_it():
    errors = [RecordError(0, "no", "a.V"), RecordError(3, "no", "a.V"), RecordError(5, None, "a.V")]
    found = quarantine.blame(errors, 87)
    assert found == {0: ("a.V", "no", 87), 3: ("a.V", "no", 87), 5: ("a.V", None, 87)}
    assert found[0] is found[3]


def written(batch, positions, place=PLACE):
    return letters_of(write_letters(batch, blame(*positions), place, clock=lambda: NOW))


@pytest.mark.parametrize("codec", CODECS)
def test_letters_have_the_origin_and_the_reason(record_batches, codec):
    own = (Header("h", b"1"), Header("h", None))
    forged = (Header("__dlq.errors.topic", b"other"), Header("__mark.errors.code", b"1"),
              Header("__dlq.id", b"x"))  # fmt: skip
    (found,) = written(batch_of(b"a", b"b", None, headers=own + forged, codec=codec), (1, 2))
    assert list(found.records.keys) == [b"k1", b"k2"]
    assert list(found.records.values) == [b"b", None]
    assert list(found.records.timestamps) == [NOW * 1000] * 2
    assert found.producer_id == -1
    headers = found.records.headers[0]
    assert headers[:2] == own
    assert [name for name, _ in headers].count("__dlq.id") == 1
    assert all(not name.startswith("__mark") for name, _ in headers)
    origin = read_origin(headers, Origin("", 0, 0, 0))
    assert origin == ("orders", 3, -1, 1001, 0)
    texts = dict(headers)
    assert (texts["__penstock.policy"], texts["__penstock.message"]) == (b"a.V", b"no 1")
    assert (texts["__penstock.code"], texts["__penstock.outcome"]) == (b"87", b"refused")


def test_an_idempotent_producers_letters_keep_their_ids():
    numbers = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 2**31 - 1}
    ids = [
        [read_id(header) for header in written(batch_of(b"a", b"b", **numbers), positions)[0]
         .records.headers]
        for positions in ((0, 1), (0, 1), (1,))
    ]  # fmt: skip
    assert ids[0] == ids[1] == [b"orders-3:7:1:2147483647:1000", b"orders-3:7:1:0:1001"]
    assert ids[2] == ids[0][1:]


def test_other_producers_letters_have_ids_of_their_own():
    batch = batch_of(b"a", b"a")
    ids = [read_id(headers) for _ in range(2)
           for headers in written(batch, (0, 1))[0].records.headers]  # fmt: skip
    assert len(set(ids)) == 4


def test_without_context_there_is_the_id():
    (found,) = written(batch_of(b"a"), (0,), PLACE._replace(with_context=False))
    assert [name for name, _ in found.records.headers[0]] == ["__dlq.id"]


@pytest.mark.parametrize("with_context", [True, False])
def test_letters_have_the_digest_of_the_plan_that_refused_them(with_context):
    forged = (Header("__dlq.plan", b"x"),)
    place = PLACE._replace(with_context=with_context, plan="0123456789ab")
    (found,) = written(batch_of(b"a", b"b", headers=forged), (0, 1), place)
    for headers in found.records.headers:
        assert [value for name, value in headers if name == "__dlq.plan"] == [b"0123456789ab"]


def test_a_letter_that_returned_before_keeps_its_number_of_attempts():
    headers = (Header("__penstock.replays", b"2"), Header("__penstock.timestamp", b"5"))
    (found,) = written(batch_of(b"a", headers=headers), (0,))
    assert read_origin(found.records.headers[0], Origin("", 0, 0, 0)).replays == 2


def test_many_letters_are_several_batches(monkeypatch):
    monkeypatch.setattr(quarantine, "LETTERS_BYTES", 3000)
    found = written(batch_of(*[b"x" * 500] * 10, b"y" * 5000), range(11))
    assert len(found) > 3
    assert [value for row in found for value in row.records.values] == [
        *[b"x" * 500] * 10, b"y" * 5000,
    ]  # fmt: skip


def test_each_letter_has_the_reason_of_its_record():
    blamed = {
        0: Blame("a.V", "no", 87),
        1: Blame("a.W", "no", 87),
        2: Blame("a.V", None, 44),
        3: Blame("a.V", "no", 87),
    }
    (found,) = letters_of(write_letters(batch_of(b"a", b"b", b"c", b"d"), blamed, PLACE))
    reasons = [
        tuple(
            dict(header)[f"__penstock.{name}"]
            for name in ("policy", "message", "code", "timestamp")
        )
        for header in found.records.headers
    ]
    assert reasons == [
        (b"a.V", b"no", b"87", b"1000"),
        (b"a.W", b"no", b"87", b"1001"),
        (b"a.V", b"", b"44", b"1002"),
        (b"a.V", b"no", b"87", b"1003"),
    ]
