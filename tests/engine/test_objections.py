"""Chains in which some policies judge columns: the same verdicts as record by record."""

import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.objections import BatchPolicy
from penstock.engine.verdict import ACCEPTED, FailureCause, Outcome, cause_of
from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    PolicyViolationException,
    RecordIntrospectionHints,
    RecordValidationPolicy,
)
from tests.engine.chains import TOPIC_ID, chain, columns, each
from tests.engine.validators import (
    FAIL,
    PASS,
    PLACES,
    REFUSE,
    decide,
    decide_all,
    validator,
    values,
)


def validation(place: int, kind: str) -> type:
    """Make a class of KIP-940 that reads one byte of the value: `record`, `batch` or `both`."""

    class Validation(RecordValidationPolicy):
        def get_hints(self):
            return RecordIntrospectionHints(False, 0, place + 1)

        if kind != "batch":

            def validate(self, topic, record):
                assert topic.validation_policy == "setting"
                assert topic.topic_id_partition == (TOPIC_ID, "orders", 3)
                assert (len(record.value), record.key, record.headers) == (place + 1, None, ())
                decide(record.value[place], self.name)

        if kind != "record":

            def validate_batch(self, topic, batch):
                assert topic.validation_policy == "setting"
                assert topic.topic_id_partition == (TOPIC_ID, "orders", 3)
                assert set(batch.keys) == {None}
                assert set(batch.headers) == {()}
                assert {len(value) for value in batch.values} == {place + 1}
                yield from decide_all(batch.values, place, self.name)

    Validation.__name__ = Validation.name = f"P{place}{kind}"
    return Validation


def policies_of(kinds: list[str], last: str | None, *, plain: bool = False):
    """Make a chain; `plain` for the same one with policies that judge record by record alone."""
    if plain:
        kinds, last = ["record"] * len(kinds), last and "record"
    return chain(
        validators=[validator(place, kind) for place, kind in enumerate(kinds)],
        validation=validation(len(kinds), last) if last else None,
        setting="setting",
    )


def nameless(found):
    """Return the objections without the kind in the names of the classes."""
    kinds = ("record", "batch", "both")

    def without(text):
        for kind in kinds:
            text = text.replace(kind, "") if text else text
        return text

    return [(*row[:2], without(row[2]), row[3], without(row[4])) for row in found]


kinds = st.sampled_from(["record", "batch", "both"])


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.lists(kinds, max_size=PLACES - 1), st.none() | kinds, values, st.data())
def test_however_a_chain_is_mixed_each_record_has_the_same_verdict(several, last, records, data):
    mixed = policies_of(several, last)
    expected = nameless(each(policies_of(several, last, plain=True), columns(*records)))

    assert nameless(each(mixed, columns(*records))) == expected
    middle = data.draw(st.integers(0, len(records)))
    head, tail = each(mixed, columns(*records[:middle])), each(mixed, columns(*records[middle:]))
    assert (
        nameless(head + [(middle + objection[0], *objection[1:]) for objection in tail]) == expected
    )


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.lists(kinds, max_size=PLACES - 1), st.none() | kinds, values)
def test_a_batch_as_a_whole_has_the_same_verdict(several, last, records):
    judge = policies_of(several, last).judge(3, TOPIC_ID, columns(*records))
    other = policies_of(several, last, plain=True).judge(3, TOPIC_ID, columns(*records))

    assert (judge.outcome, judge.code, judge.cause) == (other.outcome, other.code, other.cause)
    found, expected = (
        nameless((e.index, "", e.policy, 0, e.message) for e in verdict.record_errors)
        for verdict in (judge, other)
    )
    assert found == expected


def test_the_first_failure_of_a_batch_counts():
    """Whichever stage finds it: the records after it are not judged."""
    judged = []

    class Second(validator(1, "both")):
        def validate_batch(self, topic_partition, batch):
            judged.append(batch.values)
            return super().validate_batch(topic_partition, batch)

    late, early = bytes([FAIL, PASS]), bytes([PASS, FAIL])
    passing, refused = bytes([PASS, PASS]), bytes([REFUSE, PASS])
    policies = chain(validators=[validator(0, "record"), Second])
    verdict = policies.judge(3, TOPIC_ID, columns(refused, passing, late, early))
    assert (verdict.policy, judged) == ("V0record", [(passing,)])
    verdict = policies.judge(3, TOPIC_ID, columns(early, late))
    assert verdict.policy == "Second"


def test_a_policy_judges_the_remaining_records_if_there_are_any():
    seen = []

    class Watching(BrokerRecordValidator):
        def validate_batch(self, topic_partition, batch):
            seen.append((len(batch), batch.values))
            return ()

    policies = chain(validators=[validator(0, "both"), Watching])
    good, bad = bytes([PASS]), bytes([REFUSE])
    assert [row[0] for row in each(policies, columns(bad, good, bad, good))] == [0, 2]
    assert seen == [(2, (good, good))]
    assert len(each(policies, columns(bad, bad))) == 2
    assert each(policies, columns()) == []
    assert policies.judge(3, TOPIC_ID, columns()) is ACCEPTED
    assert len(seen) == 1


def test_a_bad_record_does_not_fail_the_others_if_each_is_judged_separately():
    calls = []

    class Fails(BrokerRecordValidator):
        def validate_batch(self, topic_partition, batch):
            calls.append(len(batch))
            for index, value in enumerate(batch.values):
                yield index, f"refused {value.decode()}"
                if value == b"bad":
                    raise ValueError(value)

    policies = chain(validators=[Fails])
    found = each(policies, columns(*[b"a"] * 20, b"bad", *[b"b"] * 20))
    assert [row[1] for row in found] == ["refused"] * 20 + ["failed"] + ["refused"] * 20
    assert found[20][4] == "The policy Fails failed: ValueError"
    assert len(calls) < 20
    calls.clear()
    verdict = policies.judge(3, TOPIC_ID, columns(*[b"a"] * 20, b"bad"))
    assert (verdict.outcome, calls) == (Outcome.FAILED, [21])


ANSWERS = {
    "none": lambda batch: None,
    "out of range": lambda batch: [(len(batch), "x")],
    "negative": lambda batch: [(-1, "x")],
    "no text": lambda batch: [(0, b"x")],
    "no pair": lambda batch: [0],
    "coroutine": lambda batch: wrong(),
    "exception": lambda batch: 1 / 0,
    "refusal of nothing": lambda batch: decide(REFUSE, "x"),
    "exit": lambda batch: sys.exit(0),
    "memory": lambda batch: bytearray(2**62),
    "generator": lambda batch: ((1 / 0, "x") for _ in batch.values),
}


class wrong:  # noqa: N801
    """Neither a coroutine nor an iterable: how the engine recognizes a coroutine."""

    def __await__(self):
        yield


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_invalid_result_lets_no_record_pass(answer):
    class Wrong(BrokerRecordValidator):
        def validate_batch(self, topic_partition, batch):
            return ANSWERS[answer](batch)

    policies = chain(validators=[Wrong])
    verdict = policies.judge(3, TOPIC_ID, columns(b"secret", b"secret"))
    assert (verdict.outcome, verdict.code, verdict.policy) == (Outcome.FAILED, -1, "Wrong")
    memory = answer == "memory"
    assert verdict.cause is (FailureCause.OUT_OF_MEMORY if memory else FailureCause.RAISED)
    assert "secret" not in verdict.detail + verdict.message
    assert [row[:2] for row in each(policies, columns(b"v", b"w"))] == [
        (0, "failed"),
        (1, "failed"),
    ]


# What pyo3 raises for a panic, which includes memory that is not there.
PanicException = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})


def test_a_process_is_not_trusted_after_a_panic():
    assert cause_of(PanicException()) is FailureCause.OUT_OF_MEMORY
    assert cause_of(MemoryError()) is FailureCause.OUT_OF_MEMORY
    assert cause_of(SystemExit()) is FailureCause.RAISED
    of_a_policy = type("PanicException", (Exception,), {})
    assert cause_of(of_a_policy()) is FailureCause.RAISED


@pytest.mark.parametrize("error", [PanicException, MemoryError])
def test_columns_that_cannot_be_read_let_no_batch_pass(error):
    class Unreadable:
        count = 1

        def __getattr__(self, name):
            raise error

    class Whole:
        def validate(self, topic, partition, records):
            pytest.fail("judged")

    policies = chain()
    policies.plan = replace(policies.plan, records_policy="Whole")
    policies.records_policy = BatchPolicy("Whole", Whole().validate)
    verdict = policies.judge(3, TOPIC_ID, Unreadable())
    assert (verdict.outcome, verdict.code, verdict.policy) == (Outcome.FAILED, -1, "Whole")
    assert verdict.cause is FailureCause.OUT_OF_MEMORY


def test_the_log_describes_an_invalid_result():
    class Forgetful(RecordValidationPolicy):
        def validate_batch(self, topic, batch):
            [(0, "x")]  # noqa: B018 - not returned

    verdict = chain(validation=Forgetful, setting="x").judge(3, TOPIC_ID, columns(b"v"))
    assert verdict.message == "The policy Forgetful failed: AnswerError"
    assert verdict.detail.startswith(
        "validate_batch() returned NoneType; it must return an iterable"
    )


RETURNED = {
    "a refusal": lambda: InvalidRecordException("no"),
    "its class": lambda: InvalidRecordException,
    "false": lambda: False,
    "true": lambda: True,
}


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("validators", [[], [BrokerRecordValidator]])
def test_a_policy_that_returns_its_verdict_in_place_of_raising_it_lets_nothing_pass(
    returned, validators
):
    class Returns(RecordValidationPolicy):
        def validate(self, topic, record):
            return RETURNED[returned]()

    class Accepts(BrokerRecordValidator):
        def validate_record(self, topic_partition, key, value, headers):
            return None

    policies = chain(validators=[Accepts] if validators else [], validation=Returns, setting="x")
    verdict = policies.judge(3, TOPIC_ID, columns(b"v"))
    assert (verdict.outcome, verdict.policy) == (Outcome.FAILED, "Returns")
    assert verdict.detail.startswith("validate() returned ")
    assert "it must return None, and raise InvalidRecordException to refuse" in verdict.detail


@pytest.mark.parametrize("returned", RETURNED)
def test_a_policy_over_batches_that_returns_its_verdict_lets_nothing_pass(returned):
    judging = BatchPolicy("Whole", lambda *_: RETURNED[returned]())
    verdict = judging.judge("orders", 3, columns(b"v"))
    assert (verdict.outcome, verdict.policy) == (Outcome.FAILED, "Whole")
    assert "it must return None, and raise PolicyViolationException to refuse" in verdict.detail


def test_the_log_describes_the_valid_results_of_a_validator():
    class Says(BrokerRecordValidator):
        def validate_record(self, topic_partition, key, value, headers):
            return "bad"

    verdict = chain(validators=[Says]).judge(3, TOPIC_ID, columns(b"v"))
    assert verdict.message == "The policy Says failed: AnswerError"
    assert verdict.detail.startswith("validate_record() returned str; it must return None, an Inva")


def test_the_log_names_the_exception_that_refuses():
    class OfKip686(RecordValidationPolicy):
        def validate(self, topic, record):
            raise PolicyViolationException("no")

    def of_kip_940(*_):
        raise InvalidRecordException("no")

    verdict = chain(validation=OfKip686, setting="x").judge(3, TOPIC_ID, columns(b"v"))
    assert verdict.message == "The policy OfKip686 failed: PolicyViolationException"
    assert verdict.detail.startswith("this interface refuses with InvalidRecordException; ")
    verdict = BatchPolicy("Whole", of_kip_940).judge("orders", 3, columns(b"v"))
    assert verdict.detail.startswith("this interface refuses with PolicyViolationException; ")


def test_a_position_twice_has_its_first_message():
    class Twice(BrokerRecordValidator):
        def validate_batch(self, topic_partition, batch):
            return [(1, "first"), (0, None), (1, "second")]

    verdict = chain(validators=[Twice]).judge(3, TOPIC_ID, columns(b"a", b"b"))
    assert [(error.index, error.message) for error in verdict.record_errors] == [
        (0, None),
        (1, "first"),
    ]


def test_a_part_of_a_chain_judges_as_it_does_in_the_whole():
    """As `penstock explain` does: one policy after the other, about one record."""
    whole = policies_of(["batch", "record"], "batch")
    for position, name in enumerate(["V0batch", "V1record", "P2batch"]):
        last = name if name.startswith("P") else None
        plan = replace(
            whole.plan, validators=(name,) if last is None else (), validation_policy=last
        )
        part = whole.subset(plan)
        actions = [PASS] * PLACES
        assert each(part, columns(bytes(actions))) == []
        actions[position] = REFUSE
        assert [row[1:3] for row in each(part, columns(bytes(actions)))] == [("refused", name)]
        assert part.judges_columns == (name != "V1record")


def test_the_log_reports_that_pyarrow_is_missing(monkeypatch):
    class Arrow(BrokerRecordValidator):
        def validate_batch(self, topic_partition, batch):
            return [(0, str(batch.values_arrow.null_count))]

    policies = chain(validators=[Arrow])
    assert policies.judge(3, TOPIC_ID, columns(b"v")).record_errors[0].message == "0"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    verdict = policies.judge(3, TOPIC_ID, columns(b"v"))
    assert verdict.message == "The policy Arrow failed: ArrowMissingError"
    assert "need pyarrow, which is not installed here" in verdict.detail
