"""Topic policies that only observe: they judge in the background, and nothing is refused."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.engine.admin_policies import ConfigAlteration, TopicCreation
from penstock.engine.verdict import ACCEPTED, not_judged, refused
from penstock.gateway.admin.policy_checks import PolicyChecks
from penstock.kafka.cluster.metadata import MetadataUnavailableError

NO = refused(44, "no", "a.P")
CREATION = TopicCreation("watched", 3, 1, None, {})


class Policies:
    """Topic policies that respond when the test says so."""

    create_topic = alter_config = "a.P"

    def __init__(self, *, room=True, needs_context=False):
        self.room, self.needs_context = room, needs_context
        self.verdict = asyncio.get_running_loop().create_future()
        self.judged, self.left_out, self.ended = [], [], 0

    def begin_observing(self, policy):
        return self.room

    def end_observing(self):
        self.ended += 1

    def not_observed(self, policy):
        self.left_out.append(policy)

    async def creation(self, request, context, *, is_observed=False):
        self.judged.append((request, is_observed))
        return await self.verdict

    alteration = creation


class Observed:
    """The checks of one request, in a gateway that observes some topics."""

    def __init__(self, policies, *, others=False):
        self.tasks, self.refusals = [], []
        plan = SimpleNamespace(
            observes_topic=lambda topic: topic == "watched", observes_others=others
        )
        gateway = SimpleNamespace(
            policies=SimpleNamespace(topics=policies, plan=plan),
            run=lambda work: self.tasks.append(asyncio.ensure_future(work)),
            refused=self.refusals.append,
            cluster=SimpleNamespace(topics=self._topics),
        )
        request = SimpleNamespace(client_id="client")
        context = SimpleNamespace(
            gateway=gateway, principal="User:alice", request=request, address="10.0.0.7"
        )
        self.checks = PolicyChecks.of(context)

    async def _topics(self):
        raise MetadataUnavailableError("no metadata")

    async def done(self):
        await asyncio.gather(*self.tasks)


async def test_a_creation_is_not_waited_for_and_a_refusal_is_reported():
    policies = Policies()
    observed = Observed(policies)
    assert await observed.checks.creation(CREATION) is None
    await asyncio.sleep(0)
    assert policies.judged == [(CREATION, True)]
    policies.verdict.set_result(NO)
    await observed.done()
    (refusal,) = observed.refusals
    assert (refusal.topic, refusal.client_id, refusal.is_observed) == ("watched", "client", True)
    assert (refusal.principal, refusal.address) == ("User:alice", "10.0.0.7")
    assert policies.ended == 1


@pytest.mark.parametrize("verdict", [ACCEPTED, not_judged("a.P", "it is no longer in force")])
async def test_no_other_verdict_is_reported(verdict):
    policies = Policies()
    observed = Observed(policies)
    await observed.checks.creation(CREATION)
    policies.verdict.set_result(verdict)
    await observed.done()
    assert observed.refusals == []
    assert policies.ended == 1


async def test_other_topics_are_refused():
    policies = Policies()
    policies.verdict.set_result(NO)
    observed = Observed(policies)
    refusal = await observed.checks.creation(CREATION._replace(topic="strict"))
    assert refusal == (44, "no")
    assert not observed.refusals[0].is_observed


@pytest.mark.parametrize(
    ("kind", "name", "others", "expected"),
    [
        ("TOPIC", "watched", False, None),
        ("TOPIC", "strict", True, (44, "no")),
        ("BROKER", "watched", False, (44, "no")),
        ("BROKER", "1", True, None),
    ],
)
async def test_configs_of_a_topic_go_by_its_name_and_others_by_the_whole_file(
    kind, name, others, expected
):
    policies = Policies()
    policies.verdict.set_result(NO)
    observed = Observed(policies, others=others)
    assert await observed.checks.alteration(ConfigAlteration(kind, name, {})) == expected
    await observed.done()
    assert observed.refusals[0].is_observed is (expected is None)


async def test_without_room_nothing_is_judged():
    policies = Policies(room=False)
    observed = Observed(policies)
    assert await observed.checks.creation(CREATION) is None
    assert observed.tasks == []


async def test_without_metadata_a_policy_with_a_context_does_not_observe():
    policies = Policies(needs_context=True)
    observed = Observed(policies)
    assert await observed.checks.creation(CREATION) is None
    await observed.done()
    assert (policies.judged, policies.left_out, policies.ended) == ([], ["a.P"], 1)
    error = MetadataUnavailableError("no metadata")
    assert observed.checks.cannot_be_judged("watched", error) is None
    assert observed.checks.cannot_be_judged("strict", error).code == -1


@pytest.mark.parametrize(
    ("creation", "counts"),
    [
        (CREATION._replace(topic="new"), (3, 1)),
        (TopicCreation("new", None, None, {0: [1, 2, 3], 1: [1, 2]}, {}), (2, 2)),
        (TopicCreation("new", None, None, None, {}), (0, 0)),
    ],
)
@pytest.mark.parametrize("verdict", [ACCEPTED, NO])
async def test_an_accepted_topic_counts_as_existing_for_later_policies(creation, counts, verdict):
    policies = Policies(needs_context=True)
    policies.verdict.set_result(verdict)
    observed = Observed(policies)
    allowed = []

    async def topics():
        return {}

    cluster = SimpleNamespace(
        topics=topics, deciding=asyncio.Lock(), allow=lambda *given: allowed.append(given)
    )
    observed.checks._gateway.cluster = cluster
    assert (await observed.checks.creation(creation) is None) == (verdict is ACCEPTED)
    assert allowed == ([("new", *counts)] if verdict is ACCEPTED else [])
