"""A gateway with low limits."""

MIB = 2**20
BUDGET = 128 * MIB
POLICIES = """
import time
from penstock.policy import *

class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"slow":
            time.sleep(0.02)
        if value == b"bad":
            print("spam " * 1000)
            return InvalidRecordException("bad " * 100)

class Creates(CreateTopicPolicy):
    def validate(self, request): pass

class Alters(AlterConfigPolicy):
    def validate(self, request): pass
"""


def properties() -> dict[str, object]:
    return {
        "record.validator.classes": "policies.Judges",
        "create.topic.policy.class.name": "policies.Creates",
        "alter.config.policy.class.name": "policies.Alters",
        "topic.settings.topic": "__penstock_topic_settings",
        "queued.max.request.bytes": BUDGET,
        "policy.workers": 2,
    }
