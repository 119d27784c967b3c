"""Records of a schema registry: the gateway, frames of Spark and raw batches judge each alike."""

import random

import pytest

from penstock.policies.explanations import MOST
from tests.parity.doors import PARTITIONS, same_at_all_doors
from tests.parity.schemas import TOPIC_CONFIGS, TYPES, Generator
from tests.policies.schema_policy.fake_registry import FakeRegistry

pytestmark = pytest.mark.slow

COUNT = 150
"""In each run of the tests."""
USER = "me:registry-secret"
REASONS = {
    "is null", "which the registry does not know", "which is not under subject TOPIC-value",
    "does not fit schema TOPIC-value version 1", "without a schema id",
    "does not begin with a schema id", "too short for a schema id",
}  # fmt: skip


@pytest.fixture
def few_at_a_time(spark):
    """Has policies see as many records of frames at a time as they give long reasons for.

    Of a larger batch, only the first messages that do not fit are looked at for the field.
    """
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, str(MOST))
    yield
    spark.conf.set(key, before)


@pytest.fixture
def doors(spark, few_at_a_time, kafka, gateway, topic, monkeypatch):
    """Judges generated records at all doors."""

    def judge(name, count, seed, partitions):
        topics = (topic("parity-through", partitions), topic("parity-stored", partitions))
        with FakeRegistry(user_info=USER) as registry:
            generator = Generator(registry, name, topics, seed)
            running = gateway({
                **TOPIC_CONFIGS,
                "record.validation.policy.class.name": "penstock.policies.SchemaPolicy",
                "schema.registry.url": registry.url,
                "schema.registry.basic.auth.user.info": USER,
                "schema.registry.timeout.ms": "60000",
                "schema.null.values": "refuse",
                "policy.workers": "1",
            })  # fmt: skip
            found = same_at_all_doors(
                running, spark, kafka.bootstrap_servers, topics, generator, count, monkeypatch,
                partitions=partitions, note=f", seed {seed}",
            )  # fmt: skip
        assert {outcome for outcome, *_ in found} == {"accepted", "refused"}
        assert {code for _, code, *_ in found} == {0, 87}
        return found

    return judge


@pytest.mark.parametrize("name", TYPES)
def test_some_records(doors, name):
    found = doors(name, COUNT, 16, partitions=3)
    texts = [message for _, _, message, _ in found if message]
    assert [part for part in REASONS if not any(part in text for text in texts)] == []


@pytest.mark.parity
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TYPES)
def test_zero_differences(doors, pytestconfig, name):
    seed = pytestconfig.getoption("parity_seed") or random.randrange(2**32)
    doors(name, pytestconfig.getoption("parity_records"), seed, PARTITIONS)
