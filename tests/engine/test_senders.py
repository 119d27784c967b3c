"""The client of a batch, sent to a worker: only for a policy that takes it, and never another's."""

import asyncio
from itertools import groupby

import pytest

from penstock.configuration import load_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.workers import messages
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.engine.workers.processes.child import Child
from penstock.engine.workers.supervisor import Supervisor
from penstock.kafka.wire.requests.topics import NO_ID
from penstock.policy import ClientContext
from tests.gateways import write_configuration
from tests.kafka.records.encoding import encode_batch, values

pytestmark = pytest.mark.system
ALICE = ClientContext("User:alice", "shop", "10.0.0.7")
BOB = ClientContext("User:bob", None, "2001:db8::1")
POLICIES = """
from penstock.policy import *

class Tells(BrokerRecordValidatorWithContext):
    def validate_record(self, topic_partition, key, value, headers, context):
        return InvalidRecordException(str(context))

class Silent(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        return InvalidRecordException("silent")

class Whole(RecordsPolicyWithContext):
    def validate(self, topic, partition, records, context):
        raise PolicyViolationException(str(context))

class Plain(RecordsPolicy):
    def validate(self, topic, partition, records):
        raise PolicyViolationException("plain")

class Crashes(RecordsPolicyWithContext):
    crashed = False
    def validate(self, topic, partition, records, context):
        import os, pathlib
        once = pathlib.Path(__file__).with_name("crashed")
        if not once.exists():
            once.touch()
            os._exit(1)
        raise PolicyViolationException(str(context))
"""


class Listening(Child):
    """A child that keeps the messages to it."""

    sent: list = []

    def write(self, buffers):
        buffers = list(buffers)
        self.sent.append(buffers)
        super().write(buffers)


def clients_sent():
    """The encoded clients of the batches that were sent to workers.

    A batch that a slow machine has sent to a second worker counts once.
    """
    sent = (bytes(parts[3]) for parts in Listening.sent if len(parts) == 5)
    return [client for client, _ in groupby(sent)]


class Pool:
    def __init__(self, folder, **properties):
        named = {key.replace("_", "."): value for key, value in properties.items()}
        allowed = {"records.policy.class.names.allowed": "policies.*", "policy.workers": 1}
        file = write_configuration(folder, "none:1", 9192, {**allowed, **named}, POLICIES)
        configuration = load_configuration(file)
        self.plan = Plan(configuration.policies)
        self.supervisor = Supervisor(configuration, child=Listening)

    async def __aenter__(self):
        Listening.sent = []
        await self.supervisor.start()
        return self

    async def __aexit__(self, *_):
        await self.supervisor.close()

    async def judge(self, sender, records_policy=None, topic="t"):
        """Judge a batch, the same for every client; return the policy's message."""
        own = {}
        if records_policy:
            own = {"records.policy.class.name": records_policy, "records.policy.enabled": "true"}
        future = asyncio.get_running_loop().create_future()
        plan, data = self.plan.for_topic(topic, own), encode_batch(values(b"same"))
        batch = BatchToJudge(plan, 0, NO_ID, 9, data, sender=sender)
        self.supervisor.submit(batch, future.set_result)
        verdict = await asyncio.wait_for(future, 120)
        errors = verdict.record_errors
        return errors[0].message if errors else verdict.message


async def test_each_batch_has_its_own_sender(tmp_path):
    async with Pool(tmp_path, record_validator_classes="policies.Tells") as pool:
        clients = [ALICE, BOB, None, ALICE, ClientContext(), BOB]
        messages_of_policies = await asyncio.gather(*map(pool.judge, clients))
        assert messages_of_policies == [str(client or ClientContext()) for client in clients]
    assert {messages.client(ALICE), messages.client(BOB), b""} <= set(clients_sent())


async def test_no_client_is_sent_if_no_policy_takes_it(tmp_path):
    async with Pool(tmp_path, record_validator_classes="policies.Silent") as pool:
        assert await pool.judge(ALICE) == "silent"
    assert clients_sent() == [b""]


async def test_the_client_is_sent_only_for_topics_whose_policies_take_it(tmp_path):
    lines = {"topics.whole.records.policy.class.name": "policies.Whole",
             "topics.whole.records.policy.enabled": "true"}  # fmt: skip
    async with Pool(tmp_path, record_validator_classes="policies.Silent", **lines) as pool:
        assert await pool.judge(ALICE) == "silent"
        assert await pool.judge(ALICE, topic="whole") == str(ALICE)
    assert clients_sent() == [b"", messages.client(ALICE)]


async def test_a_class_that_a_topic_names_is_inspected_once(tmp_path):
    """What a topic's own settings name is not loaded before its first batch comes."""
    async with Pool(tmp_path) as pool:
        assert await pool.judge(ALICE, "policies.Plain") == "plain"
        assert await pool.judge(ALICE, "policies.Plain") == "plain"
        assert await pool.judge(BOB, "policies.Whole") == str(BOB)
        assert await pool.judge(ALICE, "policies.Whole") == str(ALICE)
        assert await pool.judge(ALICE, "policies.Plain", topic="other") == "plain"
    alice, bob = messages.client(ALICE), messages.client(BOB)
    assert clients_sent() == [alice, b"", bob, alice, b""]


async def test_a_batch_that_another_worker_judges_again_keeps_its_sender(tmp_path):
    async with Pool(tmp_path) as pool:
        first, other = await asyncio.gather(
            pool.judge(ALICE, "policies.Crashes"), pool.judge(BOB, "policies.Crashes", topic="u")
        )
        # Whichever was lost with the first worker: none got the other client's name.
        assert first == str(ALICE) or "shop" not in (first or "")
        assert str(ALICE) != other
        assert await pool.judge(ALICE, "policies.Crashes") == str(ALICE)
        assert await pool.judge(BOB, "policies.Crashes", topic="u") == str(BOB)
