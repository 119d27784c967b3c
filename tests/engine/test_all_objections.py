"""All objections to each record, of every policy and rule, and the verdict among them."""

from collections import Counter
from dataclasses import replace

import pytest

from penstock.engine.all_objections import (
    RULES_MOST,
    AllVerdicts,
    NamedObjection,
    PoliciesApart,
    joined,
    same_for_all,
)
from penstock.engine.verdict import Outcome, PostponedError, failed
from penstock.policies.rule_objections import RuleObjection
from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RecordValidationPolicy,
    RetriableException,
)
from tests.engine.chains import TOPIC_ID, chain, columns, each

VALUES = (b"good", b"bad", b"worse", b"raise", b"good too")
Rule = RuleObjection


class NoBad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("no bad") if value in (b"bad", b"BAD") else None


class Strict(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value == b"raise":
            raise ZeroDivisionError
        if not record.value.startswith(b"good"):
            raise InvalidRecordException("not good")

    def objections_of_rules(self, topic, batch):
        assert topic.topic_id_partition.topic == "orders"
        for position, value in enumerate(batch.values):
            yield Rule(position, "other", f"{value.decode()} is other", ("a", "b"))
            yield Rule(position, "first", "not good", ())


class ByRules(RecordValidationPolicy):
    """Refuses by its rules; it fails on `raise`, and judges other records where it is with them."""

    judges_by_rules = True
    judged_counts = Counter()

    def validate_batch(self, topic, batch):
        raise AssertionError

    def objections_of_rules(self, topic, batch):
        for position, value in enumerate(batch.values):
            self.judged_counts[value] += 1
            if value == b"raise":
                raise ZeroDivisionError
            if value.startswith(b"bad"):
                yield Rule(position, "first", "is bad", ("a",))
            if value == b"bad twice":
                yield Rule(position, "second", "twice", ())


class Later(RecordValidationPolicy):
    def validate(self, topic, record):
        raise RetriableException("later")


class Upper(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""

    def process_record(self, key, value, topic, partition, headers):
        if value == b"worse":
            raise ProduceRequestInterceptorSkipRecordException
        if value == b"raise":
            raise ZeroDivisionError
        return ProduceRequestInterceptorResult(key, value.upper())


def judged(policies, *values):
    return PoliciesApart(policies).judge_each(3, TOPIC_ID, columns(*values))


def in_modes(policies, **modes):
    return policies.subset(replace(policies.plan, policy_modes=modes), policies.interceptors)


def texts(objections):
    return [(objection.policy, objection.rule, objection.message) for objection in objections]


def test_all_policies_and_rules_object_and_the_verdict_is_that_of_the_chain():
    policies = chain(validators=[NoBad], validation=Strict)
    everything = judged(policies, *VALUES)
    assert sorted(
        (index, verdict.outcome.value, verdict.policy, verdict.code, verdict.message)
        for index, verdict in everything.verdicts
    ) == each(policies, columns(*VALUES))
    assert {index: texts(named) for index, named in everything.objections.items()} == {
        1: [
            ("NoBad", None, "no bad"),
            ("Strict", "first", "not good"),
            ("Strict", "other", "bad is other"),
        ],
        2: [("Strict", "first", "not good"), ("Strict", "other", "worse is other")],
        3: [("Strict", None, "The policy Strict failed: ZeroDivisionError")],
    }
    other = everything.objections[1][2]
    assert (other.code, other.mode, other.fields, other.only_warns) == (
        87, "enforce", ("a", "b"), False,
    )  # fmt: skip
    assert everything.objections[3][0].code == -1


def test_a_policy_whose_rules_refuse_judges_each_record_once():
    ByRules.judged_counts.clear()
    everything = judged(chain(validation=ByRules), b"bad", b"good", b"bad twice", b"bad")
    verdicts = [(index, verdict.code, verdict.message) for index, verdict in everything.verdicts]
    assert verdicts == [(0, 87, "is bad"), (2, 87, "is bad"), (3, 87, "is bad")]
    assert {index: texts(named) for index, named in everything.objections.items()} == {
        0: [("ByRules", "first", "is bad")],
        2: [("ByRules", "first", "is bad"), ("ByRules", "second", "twice")],
        3: [("ByRules", "first", "is bad")],
    }
    assert everything.objections[0][0].fields == ("a",)
    assert ByRules.judged_counts == {b"bad": 2, b"good": 1, b"bad twice": 1}


def test_a_policy_whose_rules_fail_on_a_record_names_the_rules_of_others():
    everything = judged(chain(validation=ByRules), b"bad", b"raise", b"bad twice", b"good")
    assert [(n, verdict.outcome.value) for n, verdict in everything.verdicts] == [
        (0, "refused"), (1, "failed"), (2, "refused"),
    ]  # fmt: skip
    assert [named.rule for named in everything.objections[2]] == ["first", "second"]


@pytest.mark.parametrize("mode", ["mark", "observe"])
def test_policies_that_only_warn_leave_the_outcome(mode):
    policies = in_modes(chain(validators=[NoBad], validation=Strict), NoBad=mode)
    everything = judged(policies, b"bad", b"good")
    [(index, verdict)] = everything.verdicts
    assert (index, verdict.policy) == (0, "Strict")
    assert [named.policy for named in everything.objections[0]] == ["Strict", "Strict", "NoBad"]
    policies = in_modes(chain(validators=[NoBad], validation=Strict), NoBad=mode, Strict=mode)
    everything = judged(policies, *VALUES)
    assert everything.verdicts == []
    assert sorted(everything.objections) == [1, 2, 3]
    assert all(named.only_warns for named in everything.objections[1])


def test_quarantine_refuses():
    everything = judged(in_modes(chain(validators=[NoBad]), NoBad="quarantine"), b"bad")
    assert [verdict.outcome for _, verdict in everything.verdicts] == [Outcome.REFUSED]
    assert everything.objections[0][0].mode == "quarantine"


def test_records_are_judged_as_interceptors_left_them():
    policies = chain(interceptors=[Upper], validators=[NoBad], validation=Strict)
    everything = judged(policies, b"raise", b"bad", b"worse", b"good")
    outcomes = [(index, verdict.outcome.value) for index, verdict in everything.verdicts]
    assert outcomes == [(0, "failed"), (1, "refused"), (2, "dropped"), (3, "refused")]
    assert texts(everything.objections[1]) == [
        ("NoBad", None, "no bad"),
        ("Strict", "first", "not good"),
        ("Strict", "other", "BAD is other"),
    ]
    assert 2 not in everything.objections
    assert texts(everything.objections[0]) == [("Upper", None, everything.verdicts[0][1].message)]


def test_a_policy_that_cannot_decide_now_leaves_no_verdict():
    with pytest.raises(PostponedError):
        judged(chain(validators=[NoBad], validation=Later), b"bad")


def test_a_mistake_of_a_rule_leaves_the_text_of_the_verdict():
    class Mistaken(Strict):
        def objections_of_rules(self, topic, batch):
            raise ZeroDivisionError

    everything = judged(chain(validation=Mistaken), b"bad")
    assert texts(everything.objections[0]) == [("Mistaken", None, "not good")]


def test_the_number_of_objections_is_bounded():
    class Many(Strict):
        def objections_of_rules(self, topic, batch):
            yield from (Rule(0, str(n), "x" * 5000, ()) for n in range(2 * RULES_MOST))

    [named] = judged(chain(validation=Many), b"bad").objections.values()
    assert (len(named), named[0].message) == (RULES_MOST, "not good")
    assert len(named[1].message) == 1024


def test_parts_are_joined():
    verdict = failed("P", "failed")
    assert joined([(0, AllVerdicts([], {})), (4, same_for_all(2, verdict))]) == AllVerdicts(
        [(4, verdict), (5, verdict)],
        dict.fromkeys((4, 5), (NamedObjection("P", None, -1, verdict.message),)),
    )
