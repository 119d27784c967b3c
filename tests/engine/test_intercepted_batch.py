"""A producer's batch with policies that judge columns: the same bytes, the same blame."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.interceptors.intercepted_batch import drop_again, intercept_and_judge
from penstock.engine.verdict import Outcome
from penstock.kafka.records.batch import read_batch
from penstock.policy import (
    Header,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    Record,
    RecordValidationPolicy,
)
from tests.engine.chains import TOPIC_ID, chain
from tests.engine.interceptors import CHANGE, DROP, FAIL, LEAVE, REKEY, interceptor
from tests.engine.validators import PASS, REFUSE, validator
from tests.kafka.records.encoding import CODECS, encode_batch

kinds = st.sampled_from(["record", "batch", "both"])
intercepting = st.sampled_from([LEAVE] * 6 + [CHANGE, REKEY, DROP, DROP, FAIL])
judging = st.sampled_from([PASS] * 9 + [REFUSE])
actions = st.tuples(intercepting, intercepting, judging).map(bytes)


def decide(kinds, batch, dropped_before=frozenset()):
    """Run two interceptors and a validator; leave the kind of the classes out of the verdict."""
    first, second, last = kinds
    policies = chain(
        interceptors=[interceptor(0, first), interceptor(1, second)],
        validators=[validator(2, last)],
    )
    verdict = intercept_and_judge(
        policies, 3, TOPIC_ID, batch,
        dropped_before=dropped_before, on_intercepted=lambda: None, max_bytes=2**20,
    )  # fmt: skip
    positions = [error.index for error in verdict.record_errors]
    return verdict.outcome, verdict.code, verdict.policy[:2], positions, verdict.replacement


@pytest.mark.thorough
@settings(max_examples=200)
@given(
    st.tuples(kinds, kinds, kinds),
    st.lists(actions, min_size=1, max_size=8),
    st.sampled_from(list(CODECS)),
    st.data(),
)
def test_an_unchanged_batch_keeps_every_byte(kinds, values, codec, data):
    headers = (Header("h", b"1"),)
    records = [Record(1000 + n, b"k", value, headers) for n, value in enumerate(values)]
    encoded = encode_batch(records, codec=codec) + bytes(64)
    batch = read_batch(
        memoryview(encoded)[:-64],
        api_version=9,
        max_decompressed_bytes=2**20,
        max_records=100,
    )
    before = data.draw(st.frozensets(st.integers(0, len(values) - 1)))
    decided = decide(kinds, batch, before)
    assert decided == decide(["record"] * 3, batch, before)

    outcome, _, _, positions, replacement = decided
    kept = set(range(len(values))) - before
    if outcome is Outcome.ACCEPTED and any(set(values[n][:2]) - {LEAVE} for n in kept):
        assert replacement is not None
    assert all(values[n][2] == REFUSE for n in positions)
    assert not before & set(positions)


class WithoutFirstByte(ProduceRequestInterceptor):
    """Cuts the first byte off each value, and drops those that have no other."""

    def interceptor_topic_pattern(self):
        return ""

    def process_record(self, key, value, topic, partition, headers):
        if len(value) == 1:
            raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value[1:])


class Asking(RecordValidationPolicy):
    """Refuses a batch by its content, without a column."""

    def validate_batch(self, topic, batch):
        found = batch.values_after(b"id"), batch.values_after(b"1id"), batch.keys_after(b"")
        return [(0, repr((*found, batch.has_header("h"), batch.has_header("i"))))]


def test_the_rest_after_a_prefix_is_that_of_intercepted_records():
    def header(name):
        return (Header(name, None),)

    records = [
        Record(1, b"a", b"1id-x", header("h")),
        Record(2, b"b", b"1", header("i")),
        Record(3, b"c", b"1id"),
    ]
    batch = read_batch(encode_batch(records), api_version=9, max_decompressed_bytes=2**20)
    for before, expected in (
        (frozenset(), ((b"-x", b""), None, (b"a", b"c"), True, False)),
        ({0}, ((b"",), None, (b"c",), False, False)),
    ):
        verdict = intercept_and_judge(
            chain(interceptors=[WithoutFirstByte], validation=Asking), 3, TOPIC_ID, batch,
            dropped_before=before, on_intercepted=lambda: None, max_bytes=2**20,
        )  # fmt: skip
        (error,) = verdict.record_errors
        assert error.message == repr(expected)


LIMITS = {"api_version": 9, "max_decompressed_bytes": 2**20, "max_records": 100, "max_bytes": 2**20}
THREE = [Record(n, b"k", b"v%d" % n, (Header("h", b"1"),)) for n in range(3)]


@pytest.mark.parametrize("codec", list(CODECS))
@pytest.mark.parametrize("interceptors", [(), None])
def test_records_are_dropped_again_when_the_interceptors_are_gone(codec, interceptors):
    encoded = encode_batch(THREE, codec=codec, producer_id=5, base_sequence=7)
    if interceptors is None:
        verdict = drop_again(encoded, {1}, **LIMITS)
    else:
        batch = read_batch(encoded, api_version=9, max_decompressed_bytes=2**20)
        verdict = intercept_and_judge(
            chain(interceptors=interceptors), 3, TOPIC_ID, batch,
            dropped_before={1}, on_intercepted=lambda: None, max_bytes=2**20,
        )  # fmt: skip
    assert (verdict.outcome, list(verdict.replacement.dropped)) == (Outcome.ACCEPTED, [1])
    left = read_batch(verdict.replacement.data, api_version=9, max_decompressed_bytes=2**20)
    assert [*left.records.values] == [b"v0", b"v2"]
    assert [*left.records.timestamps] == [0, 2]
    assert (left.producer_id, left.base_sequence) == (5, 7)


def test_a_batch_without_policies_may_lose_all_again_or_be_unreadable():
    encoded = encode_batch(THREE)
    verdict = drop_again(encoded, {0, 1, 2}, **LIMITS)
    assert (verdict.replacement.data, verdict.replacement.dropped) == (b"", [0, 1, 2])
    assert drop_again(encoded[:-1], {1}, **LIMITS).code == 87
    assert drop_again(encoded, {1}, **LIMITS | {"max_bytes": 10}).code == 10


def test_validators_judge_the_remaining_records_without_interceptors():
    seen = []

    class Validator:
        def validate_record(self, topic_partition, key, value, headers):
            seen.append(value)

    batch = read_batch(encode_batch(THREE), api_version=9, max_decompressed_bytes=2**20)
    intercept_and_judge(
        chain(validators=[Validator]), 3, TOPIC_ID, batch,
        dropped_before={0}, on_intercepted=lambda: None, max_bytes=2**20,
    )  # fmt: skip
    assert seen == [b"v1", b"v2"]
