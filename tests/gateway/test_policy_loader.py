"""The loading of policies, apart from their workers."""

import asyncio
import time

import pytest

from penstock.configuration import load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.workers.gathered_writes import GatheredWrites
from penstock.engine.workers.shared_values import SharedValues
from penstock.gateway import policy_loader
from penstock.gateway.policy_loader import PolicyLoader
from tests.gateways import write_configuration

pytestmark = pytest.mark.system
POLICIES = """
from penstock.policy import *
class Judges(RecordValidationPolicy):
    def validate(self, topic, record): pass
class Drops(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "orders"
    def process_record(self, *_): raise ProduceRequestInterceptorSkipRecordException()
"""
VALIDATION = {"record.validation.policy.class.name": "policies.Judges"}
DROPS = {"produce.request.interceptors": "policies.Drops"}


@pytest.mark.parametrize(
    ("properties", "has_digest"),
    [(VALIDATION | {"topic.settings.topic": ""}, False), (DROPS, True), (VALIDATION, True)],
)
async def test_the_classes_are_imported_for_a_digest_only_if_records_may_be_dropped(
    tmp_path, monkeypatch, properties, has_digest
):
    computed = []

    class Digest(policy_loader.OutcomeDigest):
        def __init__(self, *arguments):
            computed.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(policy_loader, "OutcomeDigest", Digest)
    file = write_configuration(tmp_path, "127.0.0.1:1", 0, properties, POLICIES)
    configuration = load_configuration(file)
    loader = PolicyLoader(
        asyncio.create_task,
        print,
        None,
        time.monotonic,
        2**20,
        SharedValues(),
        GatheredWrites(),
    )
    loaded = await loader.load(
        configuration,
        Plan(configuration.policies),
        topics_have_settings=properties.get("topic.settings.topic") != "",
    )
    await loaded.close()
    assert (bool(computed), bool(loaded.digest)) == (has_digest, has_digest)
    assert loaded.why_no_digest == ""
