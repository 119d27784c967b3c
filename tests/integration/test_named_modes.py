"""Named policies with modes of their own: the strictest of those that object holds."""

import pytest

from tests.integration.reading import read_topic
from tests.integration.test_modes import dead_letters, produce
from tests.raw import RawClient
from tests.records.encoding import encode_batch, values

pytestmark = pytest.mark.system

POLICIES = """
from penstock.policy import *

class Without(RecordValidationPolicy):
    def configure(self, configs):
        self._part = configs["part"].encode()

    def validate(self, topic, record):
        if self._part in record.value:
            raise InvalidRecordException(f"it has {self._part.decode()}")
"""
NAMED = {
    "policies": "soft,aside,hard,look",
    **{f"policies.{name}.type": "policies.Without" for name in ("soft", "aside", "hard", "look")},
    **{f"policies.{name}.part": name for name in ("soft", "aside", "hard", "look")},
    "policies.soft.mode": "mark",
    "policies.aside.mode": "quarantine",
    "policies.look.mode": "observe",
    "topics.*.penstock.policies": "soft,aside,hard,look",
    "errors.deadletterqueue.topic.replication.factor": 1,
}


def test_the_strictest_mode_of_the_policies_that_object_holds(gateway, topic, kafka):
    running = gateway(NAMED, POLICIES)
    name = topic()
    with RawClient(running.broker_address()) as client:
        mixed = encode_batch(values(b"good", b"soft look", b"soft aside", b"look"))
        assert produce(client, name, mixed, acks=-1) == (0, 0)
        refused = encode_batch(values(b"good", b"soft aside hard"))
        assert produce(client, name, refused, acks=-1) == (87, -1)

    stored = read_topic(kafka.bootstrap_servers, name)
    assert [(value, dict(headers).get("__mark.errors.policy")) for _, _, value, headers in stored] == [
        (b"good", None), (b"soft look", b"soft"), (b"look", None),
    ]  # fmt: skip
    [(value, _, headers)] = dead_letters(kafka, f"{name}.dead")
    assert (value, headers["__penstock.policy"]) == (b"soft aside", b"aside")
