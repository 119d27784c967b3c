"""A Produce request to a topic in quarantine: which of its batches are sent, and their responses.

The test decides the verdicts, and takes the parts of the broker and the dead letter topic.
"""

from dataclasses import replace

import pytest

from penstock.engine.verdict import (
    ACCEPTED,
    Outcome,
    RecordError,
    refused_records,
    replaced,
)
from penstock.gateway.produce.bad_shares import BAD_MIN
from penstock.gateway.produce.dead_letters.failures import LettersRefused
from penstock.kafka.records.batch import read_batch
from tests.gateway.produce.quarantining import (
    BAD,
    DESCRIBE,
    IDS,
    LETTERS,
    WRITE,
    Quarantine,
    batch,
    diverted,
    request,
    with_rights,
)
from tests.gateway.sessions.talk import produce_response


def values_sent(frame):
    at = frame.index(b"\x00\x00\x00\x00\x00\x00\x00\x00", 20)
    size = int.from_bytes(frame[at + 8 : at + 12], "big") + 12
    read = read_batch(frame[at : at + size], api_version=9, max_decompressed_bytes=10**6)
    return list(read.records.values)


@pytest.mark.parametrize("producer_id", [-1, 5])
def test_letters_are_stored_before_the_other_records_are_sent(producer_id):
    talk = with_rights(Quarantine())
    first = 0 if producer_id >= 0 else -1
    data = batch(b"good", b"bad", producer_id=producer_id, first=first)
    talk.produce(1, data)
    talk.decide(diverted(batch(b"good", producer_id=producer_id, first=first), 1))
    assert talk.broker.take() == b""
    ((to, letters, _),) = talk.dead_letters.stored
    assert (to.name, to.source, to.partition) == ("judged.dead", "judged", 0)
    assert letters == LETTERS
    talk.dead_letters.end()
    assert values_sent(talk.broker.take()) == [b"good"]
    talk.session.upstream_data(produce_response(1, "judged"))
    assert talk.responses() == {"judged": (0, None)}
    ((report),) = talk.refusals
    assert (report.topic, report.records, report.dead_letter_topic) == (
        "judged",
        1,
        "judged.dead",
    )
    assert report.verdict.outcome is Outcome.QUARANTINED


@pytest.mark.parametrize("producer_id", [-1, 5])
@pytest.mark.parametrize(
    ("failure", "code"), [("no broker answers", 7), (LettersRefused("too large"), 87)]
)
def test_letters_that_are_not_stored_refuse_the_batch(producer_id, failure, code):
    talk = with_rights(Quarantine())
    first = 0 if producer_id >= 0 else -1
    data = batch(b"good", b"bad", producer_id=producer_id, first=first)
    talk.produce(1, data)
    talk.decide(diverted(batch(b"good", producer_id=producer_id, first=first), 1))
    talk.dead_letters.end(failure)
    assert talk.broker.take() == b""
    text = f"The dead letters of this batch could not be stored: {failure}"
    assert talk.responses() == {"judged": (code, text)}
    refusals = [report for report in talk.refusals if report.verdict.outcome is Outcome.REFUSED]
    assert [(report.topic, report.records, report.verdict.message) for report in refusals] == (
        [("judged", 1, text)] if code == 87 else []
    )


def test_letters_of_a_retried_batch_have_the_key_of_its_first_attempt():
    talk = with_rights(Quarantine())
    data = batch(b"good", b"bad", producer_id=5, first=0)
    talk.produce(1, data)
    talk.decide(diverted(batch(b"good", producer_id=5, first=0), 1))
    talk.dead_letters.end("no broker answers")
    assert talk.responses()["judged"][0] == 7
    talk.produce(2, data)
    talk.dead_letters.end()
    assert values_sent(talk.broker.take()) == [b"good"]
    talk.session.upstream_data(produce_response(2, "judged"))
    assert talk.responses()["judged"][0] == 0
    talk.produce(3, batch(b"good", b"bad", producer_id=5, first=2))
    talk.decide(diverted(batch(b"good", producer_id=5, first=2), 1))
    first, again, other = talk.dead_letters.keys
    assert first == again
    assert other not in {first, None}


def test_letters_of_a_producer_without_numbers_have_no_key():
    talk = with_rights(Quarantine())
    talk.produce(1, batch(b"good", b"bad"))
    talk.decide(diverted(batch(b"good"), 1))
    assert talk.dead_letters.keys == [None]


def test_another_partition_is_sent_when_letters_are_not_stored():
    talk = with_rights(Quarantine())
    talk.produce(1, batch(b"good", b"bad"), batch(b"other"))
    talk.decide(diverted(batch(b"good"), 1))
    talk.decide(ACCEPTED)
    talk.dead_letters.end("no broker answers")
    assert values_sent(talk.broker.take()) == [b"other"]
    talk.session.upstream_data(produce_response(1, "other"))
    assert {name: code for name, (code, _) in talk.responses().items()} == {"judged": 7, "other": 0}


def test_a_batch_of_bad_records_only_succeeds_without_the_broker():
    talk = with_rights(Quarantine())
    talk.produce(1, batch(b"bad"))
    talk.decide(diverted(b"", 0))
    talk.dead_letters.end()
    assert talk.broker.take() == b""
    assert talk.responses() == {"judged": (0, None)}


@pytest.mark.parametrize(
    ("operations", "code", "expected"),
    [
        (WRITE | DESCRIBE, 0, 0),
        (DESCRIBE, 0, 29),
        (-(2**31), 0, 7),
        (WRITE, 5, 5),
        (0, 3, 3),
    ],
)
def test_letters_are_stored_only_for_clients_with_write_rights(operations, code, expected):
    talk = Quarantine()
    talk.produce(1, batch(b"good", b"bad"))
    talk.decide(diverted(batch(b"good"), 1))
    assert talk.dead_letters.stored == []
    talk.respond_with_rights(operations, code)
    if expected:
        assert talk.dead_letters.stored == []
        assert talk.responses()["judged"][0] == expected
        assert talk.refusals == []
    else:
        talk.dead_letters.end()
        assert values_sent(talk.broker.take()) == [b"good"]


@pytest.mark.parametrize(("code", "is_known"), [(0, True), (29, True), (5, False)])
def test_a_right_is_requested_once_unless_its_error_is_retriable(code, is_known):
    talk = Quarantine()
    for number in (1, 2):
        talk.produce(number, batch(b"bad"))
        talk.decide(diverted(b"", 0))
        if number == 1 or not is_known:
            talk.respond_with_rights(WRITE, code)
        if not code:
            talk.dead_letters.end()
        assert talk.broker.take() == b""
        assert talk.responses()["judged"][0] == code


def test_no_response_about_a_topic_is_an_error():
    talk = Quarantine()
    talk.produce(1, batch(b"good", b"bad"))
    talk.decide(diverted(batch(b"good"), 1))
    talk.respond(3, topics=[])
    assert talk.responses()["judged"][0] == 3


@pytest.mark.parametrize("code", [87, 44])
def test_batches_whose_dead_letters_may_not_be_stored_are_refused(code):
    talk = with_rights(Quarantine())
    talk.dead_letters.why_not = "errors.deadletterqueue.topic.name: no"
    talk.produce(1, batch(b"good", b"bad"), batch(b"fine"))
    talk.decide(diverted(batch(b"good"), 1, refusal=replace(BAD, code=code)))
    talk.decide(ACCEPTED)
    assert talk.dead_letters.stored == []
    assert values_sent(talk.broker.take()) == [b"fine"]
    talk.session.upstream_data(produce_response(1, "other"))
    assert talk.responses() == {
        "judged": (87, "errors.deadletterqueue.topic.name: no: not positive"), "other": (0, None)
    }  # fmt: skip
    (report,) = talk.refusals
    assert (report.topic, report.verdict.outcome) == ("judged", Outcome.REFUSED)
    assert report.dead_letter_topic is None


def test_the_cause_is_in_the_reason_of_each_bad_record():
    """Log, console, audit trail and most clients show the reason of the first bad record."""
    bad = refused_records([RecordError(1, "negative", "v"), RecordError(2, None, "v")], 20_000)
    talk = with_rights(Quarantine())
    talk.dead_letters.why_not = "errors.deadletterqueue.topic.name: no"
    talk.produce(1, batch(b"good", b"bad", b"bad"))
    talk.decide(diverted(batch(b"good"), 1, 2, refusal=bad, count=20_000))
    found = talk.refusals[0].verdict
    assert [(error.index, error.message) for error in found.record_errors] == [
        (1, "errors.deadletterqueue.topic.name: no: negative"),
        (2, "errors.deadletterqueue.topic.name: no"),
    ]
    assert found.message.startswith("One or more records have been rejected due to 20000 record er")


class TestRatio:
    """`penstock.quarantine.max.ratio`"""

    def produce(self, talk, number, good, bad):
        records = [b"good"] * good + [b"bad"] * bad
        talk.produce(number, batch(*records))
        positions = range(good, good + bad)
        talk.decide(
            diverted(batch(*records[:good]) if good else b"", *positions) if bad else ACCEPTED
        )
        if talk.dead_letters.stored:
            talk.dead_letters.end()
        if talk.broker.take():
            talk.session.upstream_data(produce_response(number, "judged"))
        return talk.responses()["judged"]

    def test_too_many_bad_records_are_refused(self):
        talk = with_rights(Quarantine(max_ratio="0.1"))
        assert self.produce(talk, 1, 100, 0) == (0, None)
        assert self.produce(talk, 2, 0, 11) == (0, None), "11 of 111 records are less than a tenth"
        code, text = self.produce(talk, 3, 0, 2)
        assert code == 87
        assert text == (
            "11.5% of the records of topic judged were bad in the last minute, more than "
            "penstock.quarantine.max.ratio (0.1) lets into quarantine: not positive"
        )
        assert talk.dead_letters.stored == []
        assert self.produce(talk, 4, 1, 0) == (0, None), "a batch without bad records passes"

    def test_each_bad_record_above_the_ratio_has_the_cause(self):
        talk = with_rights(Quarantine(max_ratio="0.1"))
        talk.produce(1, batch(*[b"bad"] * BAD_MIN))
        errors = [RecordError(position, "no", "v") for position in range(BAD_MIN)]
        talk.decide(diverted(b"", *range(BAD_MIN), refusal=refused_records(errors)))
        found = talk.refusals[0].verdict.record_errors
        assert [error.index for error in found] == [*range(BAD_MIN)]
        (text,) = {error.message for error in found}
        assert text == (
            "100.0% of the records of topic judged were bad in the last minute, more than "
            "penstock.quarantine.max.ratio (0.1) lets into quarantine: no"
        )

    def test_bad_records_up_to_the_ratio_pass(self):
        talk = with_rights(Quarantine(max_ratio="0.1"))
        assert self.produce(talk, 1, 90, 10) == (0, None)

    def test_few_bad_records_have_no_ratio(self):
        talk = with_rights(Quarantine(max_ratio="0.1"))
        assert self.produce(talk, 1, 0, BAD_MIN - 1) == (0, None)
        assert self.produce(talk, 2, 0, 1)[0] == 87

    def test_a_ratio_of_1_lets_every_record_pass(self):
        talk = with_rights(Quarantine())
        assert self.produce(talk, 1, 0, 2 * 100) == (0, None)

    def test_refused_batches_do_not_count(self):
        talk = with_rights(Quarantine(max_ratio="0.1"))
        talk.produce(1, batch(*[b"x"] * 100))
        talk.decide(BAD)
        talk.responses()
        assert self.produce(talk, 2, 0, BAD_MIN - 1) == (0, None)


class TestLargerBatches:
    """Batches that policies enlarge, by marks for example, and `max.message.bytes`."""

    def enlarged(self, *names):
        talk = with_rights(Quarantine())
        talk.produce(1, *[batch(b"v") for _ in names])
        for _ in names:
            talk.decide(replaced(batch(b"v" * 100), ()))
        return talk

    def test_a_batch_that_became_too_large_is_refused(self):
        talk = self.enlarged("judged", "other")
        size = len(batch(b"v" * 100))
        talk.respond_with_limit(judged=str(size - 1), other=str(size))
        assert values_sent(talk.broker.take()) == [b"v" * 100]
        talk.session.upstream_data(produce_response(1, "other"))
        answers = talk.responses()
        assert answers["other"] == (0, None)
        code, text = answers["judged"]
        assert code == 10
        assert text == (
            f"The batch has {size} bytes after its interceptors, or with marks, more than the "
            f"{size - 1} of max.message.bytes of topic judged"
        )
        assert [report.topic for report in talk.refusals] == ["judged"]

    def test_a_limit_that_the_client_may_not_read_is_left_to_the_broker(self):
        talk = self.enlarged("judged")
        talk.respond_with_limit(judged=None)
        assert values_sent(talk.broker.take()) == [b"v" * 100]

    def test_a_limit_is_requested_once(self):
        talk = self.enlarged("judged")
        talk.respond_with_limit(judged="10000")
        talk.broker.take()
        talk.session.upstream_data(produce_response(1, "judged"))
        talk.responses()
        talk.produce(2, batch(b"v"))
        talk.decide(replaced(batch(b"v" * 100), ()))
        assert values_sent(talk.broker.take()) == [b"v" * 100]

    def test_a_batch_that_did_not_grow_needs_no_limit(self):
        talk = with_rights(Quarantine())
        talk.produce(1, batch(b"v" * 100))
        talk.decide(replaced(batch(b"w" * 100), ()))
        assert values_sent(talk.broker.take()) == [b"w" * 100]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({"name": "judged", "error_code": 29}, 29),
        ({"name": "judged", "error_code": 5}, 5),
        (None, 3),
    ],
)
def test_an_unknown_topic_id_gets_the_error_of_the_broker(found, code):
    talk = Quarantine()
    talk.session.client_data(request(1, batch(b"v"), batch(b"other")))
    others = {"name": "other", "topic_id": IDS["other"]}
    talk.respond(3, topics=[others] if found is None else [found, others])
    talk.decide(ACCEPTED)
    assert talk.verdicts == []
    assert values_sent(talk.broker.take()) == [b"other"]
    talk.session.upstream_data(produce_response(1, "other"))
    assert {name: code for name, (code, _) in talk.responses().items()} == {
        "judged": code,
        "other": 0,
    }


def test_ids_of_topics_are_requested_once_for_several_requests():
    talk = Quarantine()
    talk.produce(1, batch(b"v"))
    talk.session.client_data(request(2, batch(b"w")))
    assert talk.broker.take() == b""
    assert len(talk.verdicts) == 2


def test_until_the_producer_state_is_open_batches_are_retried():
    talk = Quarantine()
    talk.keeps_decisions = False
    talk.produce(1, batch(b"v"))
    assert (talk.verdicts, talk.opened) == ([], 1)
    code, text = talk.responses()["judged"]
    assert code == 7
    assert "penstock.mode is quarantine" in text
