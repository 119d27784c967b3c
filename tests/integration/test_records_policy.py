"""KIP-686 on the wire."""

import pytest

from penstock.policy import Header, Record
from tests.integration.reading import values_of
from tests.kafka.records.encoding import CODECS, encode_batch, values
from tests.raw import RawClient, errors, produce_request, produced

POLICIES = """
from penstock.policy import *

class Braces(RecordsPolicy):
    def configure(self, configs):
        self.text = configs["braces.text"]
    def validate(self, topic, partition, records):
        for record in records:
            if not record.value.startswith(b"{"):
                raise PolicyViolationException(f"{self.text} in {topic}-{partition}")

class Raises(RecordsPolicy):
    def validate(self, topic, partition, records):
        raise ValueError("some secret record")

class Views(RecordsPolicy):
    '''Refuses with what it saw, twice over.'''
    def validate(self, topic, partition, records):
        def seen():
            return [(r.timestamp, r.has_key, r.key, r.has_value, r.value,
                     [(h.key, h.value) for h in r.headers]) for r in records]
        first, second = seen(), seen()
        assert first == second
        raise PolicyViolationException(repr(first))
"""


def switched_on(glob: str, name: str) -> dict[str, str]:
    return {
        f"topics.{glob}.records.policy.class.name": f"policies.{name}",
        f"topics.{glob}.records.policy.enabled": "true",
        "braces.text": "braces are missing",
    }


@pytest.mark.kips("B10")
def test_a_bad_batch_is_refused_as_a_whole_with_the_text_of_the_policy(
    shared_gateway, topic, stored
):
    name = topic("braces")
    running = shared_gateway(switched_on("braces*", "Braces"), POLICIES)

    with RawClient(running.address) as client:
        response = client.call(
            produce_request([(name, [(0, encode_batch(values(b"{1}", b"2", b"{3}")))])])
        )

    answer = produced(response)[name, 0]
    assert (44, f"braces are missing in {name}-0") == (answer.error_code, answer.error_message)
    assert errors(answer) == []
    assert (answer.base_offset, answer.log_append_time, answer.log_start_offset) == (-1, None, -1)
    assert stored(name) == []


@pytest.mark.cases(1)
@pytest.mark.kips("B11")
@pytest.mark.parametrize(
    "properties",
    [
        {"topics.*.records.policy.class.name": "policies.Raises"},
        {
            "topics.*.records.policy.class.name": "policies.Raises",
            "topics.*.records.policy.enabled": "false",
        },
        {"topics.*.records.policy.enabled": "true"},
    ],
)
def test_policies_that_are_not_enabled_do_not_run(gateway, topic, stored, properties):
    name = topic()
    running = gateway(properties, POLICIES)

    with RawClient(running.address) as client:
        response = client.call(produce_request([(name, [(0, encode_batch(values(b"x")))])]))

    assert produced(response)[name, 0].error_code == 0
    assert values_of(stored(name)) == [b"x"]


@pytest.mark.kips("B12", "B38")
def test_a_refusal_affects_no_other_topic_or_partition(shared_gateway, topic, stored):
    braces, free = topic("braces", 2), topic("free")
    running = shared_gateway(switched_on("braces*", "Braces"), POLICIES)
    good, bad = encode_batch(values(b"{good}")), encode_batch(values(b"bad"))

    with RawClient(running.address) as client:
        request = produce_request([(braces, [(0, bad), (1, good)]), (free, [(0, bad)])])
        answers = produced(client.call(request))

    assert {(braces, 0): 44, (braces, 1): 0, (free, 0): 0} == {
        place: answer.error_code for place, answer in answers.items()
    }
    assert list(answers) == [(braces, 0), (braces, 1), (free, 0)]
    assert [(1, b"{good}")] == [(p, value) for p, _, value, _ in stored(braces)]
    assert values_of(stored(free)) == [b"bad"]


@pytest.mark.kips("B14", "B35")
@pytest.mark.parametrize("codec", CODECS)
def test_records_are_judged_as_they_were_sent_with_every_codec(shared_gateway, topic, codec):
    name = topic("views")
    running = shared_gateway(switched_on("views*", "Views"), POLICIES)
    records = [
        Record(1000, None, b"v", ()),
        Record(1005, b"", None, (Header("a", b"1"), Header("b", None), Header("a", b""))),
        Record(990, b"k", b"", ()),
    ]

    with RawClient(running.address) as client:
        response = client.call(produce_request([(name, [(0, encode_batch(records, codec=codec))])]))

    expected = [
        (r.timestamp, r.has_key, r.key, r.has_value, r.value, [tuple(h) for h in r.headers])
        for r in records
    ]
    assert produced(response)[name, 0].error_message == repr(expected)


@pytest.mark.kips("B15")
def test_a_policy_that_raises_another_exception_fails_the_partition(gateway, topic, stored):
    name = topic("raises")
    running = gateway(switched_on("raises*", "Raises"), POLICIES)

    with RawClient(running.address) as client:
        response = client.call(produce_request([(name, [(0, encode_batch(values(b"x")))])]))

    answer = produced(response)[name, 0]
    assert answer.error_code == -1
    assert answer.error_message == "The policy policies.Raises failed: ValueError"
    assert stored(name) == []
    (event,) = running.wait_for("policy failed")
    assert "policies.py" in event["detail"]
    assert "secret" not in str(running.log)
