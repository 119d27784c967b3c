"""Interceptors that work on columns: the same results as record by record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.columns import columns_of
from penstock.engine.interceptors.interceptor_chain import intercept
from penstock.engine.verdict import Outcome
from penstock.policy import (
    Header,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    Record,
)
from tests.engine.chains import chain, columns, each
from tests.engine.interceptors import (
    CHANGE,
    CHANGED,
    DROP,
    FAIL,
    LEAVE,
    REKEY,
    UNDO,
    WRONG,
    Own,
    interceptor,
)

PLACES = 3


def run(kinds, records, **options):
    """Run a chain; return the records, without the kinds in the names."""
    made = chain(interceptors=[interceptor(place, kind) for place, kind in enumerate(kinds)])
    headers = (Header("h", b"1"),)
    given = columns(*records, headers=headers)
    done = intercept(made.interceptors, "orders", 3, given, **options)
    verdicts = [
        (index, verdict.outcome, verdict.policy[:2], verdict.code, verdict.message)
        for index, verdict in done.verdicts
    ]
    return done, verdicts


some_kinds = st.lists(st.sampled_from(["record", "batch", "both"]), min_size=1, max_size=PLACES)
actions = st.sampled_from([LEAVE] * 4 + [CHANGE, UNDO, REKEY, DROP, DROP, FAIL, WRONG])
values = st.lists(st.lists(actions, min_size=PLACES, max_size=PLACES).map(bytes), max_size=8)


@pytest.mark.thorough
@settings(max_examples=200)
@given(some_kinds, values)
def test_however_a_chain_is_mixed_each_record_becomes_the_same(kinds, records):
    first, verdicts = run(kinds, records)
    other, expected = run(["record"] * len(kinds), records)

    assert verdicts == expected
    assert (list(first.keys), list(first.values)) == (list(other.keys), list(other.values))
    # Record by record, what one changes in a record that another drops is no change.
    assert first.has_changes == other.has_changes or (first.verdicts and first.has_changes)


@pytest.mark.thorough
@settings(max_examples=200)
@given(some_kinds, values)
def test_the_first_failure_ends_it(kinds, records):
    first, verdicts = run(kinds, records, until_failure=True)
    other, expected = run(["record"] * len(kinds), records, until_failure=True)

    assert verdicts == expected
    if not verdicts or verdicts[-1][1] is not Outcome.FAILED:
        assert (list(first.keys), list(first.values)) == (list(other.keys), list(other.values))


def test_the_next_interceptor_gets_no_records_after_the_first_failure():
    seen = []

    class Second(interceptor(1, "both")):
        def process_batch(self, topic, partition, batch):
            seen.append(batch.values)
            return super().process_batch(topic, partition, batch)

    made = chain(interceptors=[interceptor(0, "record"), Second])
    records = [bytes([CHANGE, LEAVE]), bytes([DROP, LEAVE]), bytes([FAIL, LEAVE]), bytes(2)]
    given = columns(*records, headers=(Header("h", b"1"),))
    done = intercept(made.interceptors, "orders", 3, given, until_failure=True)
    assert [(n, verdict.outcome) for n, verdict in done.verdicts] == [
        (1, Outcome.DROPPED), (2, Outcome.FAILED)
    ]  # fmt: skip
    assert seen == [(records[0] + CHANGED,)]


@given(some_kinds)
def test_a_change_that_is_undone_is_no_change(kinds):
    done, _ = run([*kinds, "batch"][:2], [bytes([CHANGE, UNDO, LEAVE]), bytes(3)])
    assert not done.has_changes


def test_unchanged_records_are_not_replaced():
    done, verdicts = run(["batch"], [bytes(3), bytes(3)])
    assert (done.has_changes, verdicts) == (False, [])
    done, _ = run(["batch"], [bytes(3), bytes([CHANGE, 0, 0])])
    assert done.has_changes
    assert list(done.values) == [bytes(3), bytes([CHANGE, 0, 0]) + CHANGED]


def intercepting(answer):
    class Answers(ProduceRequestInterceptor):
        def interceptor_topic_pattern(self):
            return ""

        def process_batch(self, topic, partition, batch):
            return answer(batch)

    return chain(interceptors=[Answers])


def test_the_skip_exception_may_be_a_class():
    class Test(ProduceRequestInterceptorSkipRecordException):
        """For the reader."""

    policies = intercepting(lambda batch: [(0, Test), (2, Test())])
    found = each(policies, columns(b"a", b"b", b"c"))
    assert [row[:3] for row in found] == [(0, "dropped", "Answers"), (2, "dropped", "Answers")]


RESULT = ProduceRequestInterceptorResult(None, b"new")
ANSWERS = {
    "none": lambda batch: None,
    "out of range": lambda batch: [(len(batch), RESULT)],
    "twice": lambda batch: [(0, RESULT), (0, RESULT)],
    "results alone": lambda batch: [RESULT] * len(batch),
    "raised skip": lambda batch: skip(),
    "exception": lambda batch: 1 / 0,
    "no result": lambda batch: [(n, None) for n in range(len(batch))],
    "values": lambda batch: [(n, b"new") for n in range(len(batch))],
    "no bytes": lambda batch: [
        (n, ProduceRequestInterceptorResult("k", b"")) for n in range(len(batch))
    ],
}


def skip():
    raise ProduceRequestInterceptorSkipRecordException


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_invalid_result_lets_no_record_pass(answer):
    policies = intercepting(ANSWERS[answer])
    records = columns(b"secret", b"secret")
    found = each(policies, records)
    assert [row[:4] for row in found] == [
        (0, "failed", "Answers", -1),
        (1, "failed", "Answers", -1),
    ]
    done = intercept(policies.interceptors, "orders", 3, records, until_failure=True)
    assert [(n, verdict.outcome) for n, verdict in done.verdicts] == [(0, Outcome.FAILED)]
    assert "secret" not in repr(done.verdicts)


def test_a_bad_record_does_not_fail_the_others_if_each_is_judged_separately():
    def answer(batch):
        for index, value in enumerate(batch.values):
            yield index, ProduceRequestInterceptorResult(b"k", 1 // (value != b"bad") * value)

    values = [b"a", b"b", b"bad", b"c", b"d"]
    records = columns_of([Record(0, None, value) for value in values])
    done = intercept(intercepting(answer).interceptors, "orders", 3, records)
    assert list(done.values) == [b"a", b"b", None, b"c", b"d"]
    assert list(done.keys) == [b"k", b"k", None, b"k", b"k"]
    assert [(n, verdict.outcome) for n, verdict in done.verdicts] == [(2, Outcome.FAILED)]
    assert done.has_changes


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (None, "the result for a record is NoneType; it must be a ProduceRequestInterceptorResult"),
        ((b"k", b"v"), "the result for a record is tuple; it must be a ProduceRequestIntercep"),
        (Own(b"k", "text"), "a result has key bytes and value str; each must be bytes or None"),
        (Own("text", None), "a result has key str and value NoneType; each must be bytes or None"),
    ],
)
@pytest.mark.parametrize("kind", ["process_record", "process_batch"])
def test_the_log_describes_a_valid_result(kind, result, detail):
    class Wrong(ProduceRequestInterceptor):
        def interceptor_topic_pattern(self):
            return ""

    given = result if kind == "process_record" else [(0, result)]
    setattr(Wrong, kind, lambda self, *arguments: given)
    made = chain(interceptors=[Wrong])
    done = intercept(made.interceptors, "orders", 3, columns(b"v"), until_failure=True)
    [(_, verdict)] = done.verdicts
    assert (verdict.outcome, verdict.policy) == (Outcome.FAILED, "Wrong")
    assert verdict.message.endswith(": AnswerError")
    assert verdict.detail.startswith(detail)
