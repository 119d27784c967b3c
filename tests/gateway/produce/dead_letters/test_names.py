"""Which topics get dead letters, and which of them the gateway may create."""

from uuid import UUID

import pytest

from penstock.engine.verdict import failed, postponed, refused
from penstock.gateway.produce.dead_letters.dead_letter_topic import DeadLetterTopic
from penstock.gateway.produce.dead_letters.failures import LetterRefusedError
from penstock.kafka.client.errors import BrokerUnreachableError, ClientError
from penstock.policy import RetriableException
from tests.gateway.produce.dead_letters.names import Gateway, found

TO = DeadLetterTopic("orders.dead", "orders", 5, 3)
FIRST, SECOND = UUID(int=1), UUID(int=2)
KEYS = {"penstock.policies": "first"}
NO = refused(44, "not like that", "a.P")


def set_on(gateway, topic_id, keys=KEYS, at=0.0):
    gateway.topic_configs.keys[TO.name, topic_id] = keys, at


def test_a_topic_without_policies_of_its_own_gets_dead_letters():
    names = Gateway().names
    names.check(TO)
    assert (names.refusal(TO), names.is_outdated(TO.name)) == ("", False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders", "would be orders itself"),
        ("__any", "names that begin with __ are those of internal topics"),
        ("settings", "would be settings, the topic of topic.settings.topic; name another topic"),
        ("state", "the topic of produce.request.interceptors.state.topic"),
        ("places", "the topic of redrive.places.topic"),
        ("refusals", "the topic of audit.topic"),
        ("own.dead", "has its own policies (penstock.policies)"),
    ],
)
def test_protected_topics_get_no_dead_letters(name, text):
    gateway = Gateway(
        topic__settings__topic="settings",
        produce__request__interceptors__state__topic="state",
        redrive__places__topic="places",
        audit__topic="refusals",
        **{"topics__own.dead__penstock__policies": "first"},
    )
    names = gateway.names
    with pytest.raises(LetterRefusedError) as raised:
        names.check(TO._replace(name=name))
    assert text in str(raised.value)
    assert names.refusal(TO._replace(name=name)) == str(raised.value)


async def test_keys_that_are_set_on_the_topic_later_count_at_once():
    gateway = Gateway()
    names = gateway.names
    await names.learn(found(TO.name, FIRST), 100.0)
    assert not names.is_outdated(TO.name)
    names.check(TO)
    set_on(gateway, FIRST, at=50.0)
    assert not names.is_outdated(TO.name)
    assert "has its own policies" in names.refusal(TO)
    set_on(gateway, FIRST, {}, at=50.0)
    names.check(TO)


async def test_a_topic_that_is_created_again_with_policies_is_looked_up_again():
    gateway = Gateway()
    names = gateway.names
    await names.learn(found(TO.name, FIRST), 100.0)
    set_on(gateway, SECOND, at=101.0)
    assert names.is_outdated(TO.name)
    await names.learn(found(TO.name, SECOND), 102.0)
    assert not names.is_outdated(TO.name)
    assert "has its own policies" in names.refusal(TO)
    gateway.time += 61
    assert names.is_outdated(TO.name), "a topic id is not known permanently"


async def test_keys_of_another_gateway_are_read_before_the_first_dead_letter():
    gateway = Gateway()
    gateway.topic_configs.unread[TO.name, FIRST] = KEYS, 0.0
    names = gateway.names
    gateway.topic_configs.failure = "no broker"
    with pytest.raises(BrokerUnreachableError, match="no broker"):
        await names.learn(found(TO.name, FIRST), 100.0)
    gateway.topic_configs.failure = None
    await names.learn(found(TO.name, FIRST), 100.0)
    assert gateway.topic_configs.seen == [FIRST]
    assert "has its own policies" in names.refusal(TO)


async def test_a_gateway_that_keeps_no_keys_reads_none():
    gateway = Gateway()
    gateway.topic_configs.are_stored = False
    await gateway.names.learn(found(TO.name, FIRST), 100.0)
    assert gateway.topic_configs.seen == []


async def test_while_keys_cannot_be_understood_dead_letters_wait():
    gateway = Gateway()
    names = gateway.names
    set_on(gateway, FIRST, None)
    await names.learn(found(TO.name, FIRST), 100.0)
    with pytest.raises(ClientError, match="not readable") as raised:
        names.check(TO)
    assert not isinstance(raised.value, LetterRefusedError)
    assert names.refusal(TO) == "", "it is not final"


async def test_a_policy_judges_a_topic_that_is_created():
    gateway = Gateway("a.P")
    await gateway.names.judge_creation(TO, 7, {"max.message.bytes": "9"})
    (creation,) = gateway.judged
    assert creation == ("orders.dead", 7, 3, None, {"max.message.bytes": "9"})
    assert gateway.refusals == []


async def test_without_a_policy_every_topic_is_created():
    gateway = Gateway()
    await gateway.names.judge_creation(TO, 7, {})
    assert gateway.judged == []


async def test_a_refusal_is_final_for_a_while():
    gateway = Gateway("a.P")
    gateway.verdicts = [NO]
    names = gateway.names
    with pytest.raises(LetterRefusedError) as raised:
        await names.judge_creation(TO, 7, {})
    why = "the dead letter topic orders.dead cannot be created: not like that"
    assert str(raised.value) == why
    assert names.refusal(TO._replace(partition=1)) == why, "policies do not judge it for each batch"
    assert names.refusal(TO._replace(source="others")) == ""
    assert [(each.topic, each.principal) for each in gateway.refusals] == [("orders.dead", None)]
    assert gateway.disallowed == ["orders.dead"]
    gateway.time += 11
    names.check(TO)


@pytest.mark.parametrize("is_final", [False, True])
async def test_a_topic_that_is_created_elsewhere_gets_dead_letters_at_once(is_final):
    names = Gateway().names
    names.not_created(TO, "the cluster has too few brokers", is_final=is_final)
    with pytest.raises(ClientError):
        names.check(TO)
    await names.learn(found(TO.name, FIRST), 100.0)
    names.check(TO)


async def test_other_policies_judge_it_again():
    gateway = Gateway("a.P")
    gateway.verdicts = [NO]
    names = gateway.names
    with pytest.raises(LetterRefusedError):
        await names.judge_creation(TO, 7, {})
    gateway.load()
    names.check(TO)


@pytest.mark.parametrize(
    "verdict", [postponed("a.P", RetriableException("later")), failed("a.P", "it is broken")]
)
async def test_a_policy_that_does_not_decide_refuses_nothing(verdict):
    gateway = Gateway("a.P")
    gateway.verdicts = [verdict]
    names = gateway.names
    with pytest.raises(ClientError) as raised:
        await names.judge_creation(TO, 7, {})
    assert not isinstance(raised.value, LetterRefusedError)
    with pytest.raises(ClientError):
        names.check(TO)
    assert names.refusal(TO) == ""
