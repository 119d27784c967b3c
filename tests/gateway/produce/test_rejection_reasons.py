"""`produce.rejection.reasons`: which records of a refused batch get its reason."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import RecordError, refused, refused_records
from tests.gateway.sessions.talk import Talk
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

KEY = "produce.rejection.reasons"
RECORDS = 20
BATCH = encode_batch(values(*[b"v"] * RECORDS))
PART_OF_BATCH = (
    "Failed to append record because it was part of a batch which had one more more invalid records"
)
"""Java's text for the good records of a batch with record errors (Sender.failBatch)."""


class Refusing(Talk):
    """A session whose topic has this value of the key, or none."""

    reasons = ""

    def for_topic(self, topic, own=None):
        plan = {KEY: self.reasons} if self.reasons else {}
        return TopicPlan(topic=topic, validators=("v",), settings=plan)


def response(reasons, verdict, version=9):
    """Return the response about a batch of RECORDS records, as a client reads it."""
    talk = Refusing()
    talk.reasons = reasons
    request = produce_request([("judged", [(0, BATCH)])], version=version)
    talk.session.client_data(request_frame(request, 1))
    talk.decide(verdict)
    assert talk.broker.take() == b""
    assert talk.refusals[0].verdict is verdict, "log, console and trail have every reason"
    return produced(parse_response(talk.client.take(), 0, version))["judged", 0]


def as_java(found, index):
    """Return what Java's producer reports about a record of the batch (Sender.failBatch)."""
    if not found.record_errors:
        return found.error_message
    texts = {
        int(error.batch_index): error.batch_index_error_message for error in found.record_errors
    }
    return texts[index] or found.error_message if index in texts else PART_OF_BATCH


def errors_of(*errors):
    return refused_records([RecordError(index, text, "p.V") for index, text in errors])


texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
positions = st.sets(st.integers(0, RECORDS - 1), min_size=1)
bad_records = positions.flatmap(
    lambda found: st.tuples(*[st.tuples(st.just(index), texts) for index in sorted(found)])
)


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None)
@given(bad_records, st.sampled_from([8, 9, 12]))
def test_with_batch_every_record_has_the_first_bad_position_and_reason(bad, version):
    found = response("batch", errors_of(*bad), version)

    (index, reason), *_ = bad
    assert found.error_code == 87
    assert {as_java(found, record) for record in range(RECORDS)} == {
        f"Record {index} of the batch (the first is 0): {reason or 'no reason is given'}"
    }


def test_with_batch_good_records_have_the_reason_of_the_first_bad_record():
    found = response("batch", errors_of((3, "not positive"), (7, None), (9, "too long")))

    text = "Record 3 of the batch (the first is 0): not positive"
    assert {as_java(found, record) for record in (3, 4, 7, 9)} == {text}


@pytest.mark.parametrize("reasons", ["", "records", " Records "])
def test_by_default_each_bad_record_has_its_own_reason(reasons):
    found = response(reasons, errors_of((3, "not positive"), (7, None), (9, "too long")))

    found_texts = [as_java(found, record) for record in (3, 4, 9)]
    assert found_texts == ["not positive", PART_OF_BATCH, "too long"]
    assert as_java(found, 7).startswith("One or more records have been rejected due to 3 record er")


@pytest.mark.parametrize("code", [44, 87, 7, -1])
@pytest.mark.parametrize("reasons", ["records", "batch"])
def test_a_reason_of_the_complete_batch_stays_as_it_is(code, reasons):
    found = response(reasons, refused(code, "no", "p.V"))

    assert (found.error_code, found.error_message, found.record_errors) == (code, "no", ())


def test_a_version_without_texts_has_the_code():
    assert response("batch", errors_of((3, "not positive")), 7).error_code == 87


def test_a_long_reason_stays_within_kafkas_strings():
    found = response("batch", errors_of(*[(index, "\N{OHM SIGN}" * 30_000) for index in range(9)]))

    assert found.error_message.startswith("Record 0 of the batch (the first is 0): \N{OHM SIGN}")
    assert len(found.error_message.encode()) < 2**15
