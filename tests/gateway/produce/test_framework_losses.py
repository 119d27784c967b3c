"""Batches of which a framework's own topic would lose records."""

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from penstock.engine.plans.framework_topics import FrameworkTopic
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import RecordError, refused, refused_records, replaced
from penstock.gateway.produce.framework_losses import FrameworkLosses, loses_records
from penstock.gateway.produce.lookups.cleanup_policies import CleanupPolicies
from tests.gateway.produce.quarantining import DESCRIBE, Quarantine, batch, diverted, with_rights
from tests.gateway.sessions.talk import produce_response

KEY = "penstock.quarantine.internal.topics"
NAMED = "Topic judged is named as frameworks name their own topics"
COMPACTED = "Topic judged is compacted"
TWO_BAD = refused_records([RecordError(1, "negative", "v"), RecordError(2, "empty", "v")])


class Framework(Quarantine):
    """A session whose topic may be that of a framework."""

    def __init__(self, framework, values=None, *, why="", interceptors=()):
        super().__init__()
        self.framework, self.interceptors = framework, interceptors
        self.values, self.reads, self.running = values or {}, 0, []
        self.framework_losses = FrameworkLosses(
            CleanupPolicies(self.read_values, asyncio.ensure_future, lambda: 1.0)
        )
        self.why = why

    def read_values(self, topics):
        self.reads += 1
        return {topic: self.values[topic] for topic in topics if topic in self.values}, self.why

    def run(self, coroutine):
        self.running.append(asyncio.ensure_future(coroutine))
        return self.running[-1]

    async def settle(self):
        for task in self.running:
            await task

    def for_topic(self, topic, own=None):
        plan = super().for_topic(topic, own)
        if plan is None:
            return None
        return replace(plan, framework=self.framework, interceptors=self.interceptors)


def errors(talk):
    """Return the code, and the positions and messages of bad records, of the next response."""
    ((report),) = talk.refusals
    found = report.verdict
    return found.code, [(error.index, error.message) for error in found.record_errors]


@pytest.mark.parametrize("producer_id", [-1, 5])
def test_bad_records_of_a_topic_named_by_a_framework_are_refused_with_the_rule(producer_id):
    talk = with_rights(Framework(FrameworkTopic.BY_NAME))
    first = 0 if producer_id >= 0 else -1
    talk.produce(1, batch(b"a", b"b", b"c", producer_id=producer_id, first=first))
    left = batch(b"a", producer_id=producer_id, first=first)
    with capture_logs() as logs:
        talk.decide(diverted(left, 1, 2, refusal=TWO_BAD))
    assert talk.broker.take() == b""
    assert talk.dead_letters.stored == []
    code, found = errors(talk)
    assert (code, [index for index, _ in found]) == (87, [1, 2])
    assert all(NAMED in message and KEY in message for _, message in found)
    assert [message.rpartition(": ")[2] for _, message in found] == ["negative", "empty"]
    assert talk.responses()["judged"][0] == 87
    assert [line["topic"] for line in logs if line["event"].startswith("a topic of")] == ["judged"]


def test_a_batch_that_is_refused_completely_names_the_rule():
    talk = with_rights(Framework(FrameworkTopic.BY_NAME))
    talk.produce(1, batch(b"a"))
    talk.decide(diverted(b"", 0, refusal=refused(44, "too many", "v")))
    code, message = talk.responses()["judged"]
    assert code == 87, "not 44: the rule refuses it"
    assert message.startswith(NAMED)
    assert message.endswith("too many")


def test_records_that_an_interceptor_drops_are_refused():
    talk = with_rights(Framework(FrameworkTopic.BY_NAME, interceptors=("a.Drop",)))
    talk.produce(1, batch(b"a", b"b"))
    talk.decide(replaced(batch(b"a"), [1]))
    code, ((index, message),) = errors(talk)
    assert (code, index) == (87, 1)
    assert message.endswith("an interceptor drops the record")
    assert talk.broker.take() == b""


def test_a_client_without_write_does_not_learn_the_rule():
    talk = Framework(FrameworkTopic.BY_NAME, interceptors=("a.Drop",))
    talk.produce(1, batch(b"a", b"b"))
    talk.decide(replaced(batch(b"a"), [1]))
    talk.respond_with_rights(DESCRIBE)
    assert talk.responses() == {"judged": (29, None)}
    assert talk.refusals == []


@pytest.mark.parametrize("framework", [FrameworkTopic.BY_NAME, FrameworkTopic.IF_COMPACTED])
async def test_for_a_client_without_write_nothing_is_requested_or_logged(framework):
    """It may name any number of topics, which would wait before those of others."""
    talk = Framework(framework, {"judged": "compact"})
    talk.produce(1, batch(b"a", b"b"))
    with capture_logs() as logs:
        talk.decide(diverted(batch(b"a"), 1))
        talk.respond_with_rights(DESCRIBE)
        await talk.settle()
    assert talk.responses() == {"judged": (29, None)}
    assert (talk.reads, logs) == (0, [])


def test_a_batch_that_is_only_changed_is_stored():
    talk = Framework(FrameworkTopic.BY_NAME, interceptors=("a.Mask",))
    talk.produce(1, batch(b"a"))
    talk.decide(replaced(batch(b"*"), []))
    assert b"*" in talk.broker.take()


def test_a_topic_is_logged_once():
    talk = with_rights(Framework(FrameworkTopic.BY_NAME))
    with capture_logs() as logs:
        for number in range(3):
            talk.produce(number + 1, batch(b"a"))
            talk.decide(diverted(b"", 0))
            assert talk.responses()["judged"][0] == 87
    assert sum(line["event"].startswith("a topic of a framework") for line in logs) == 1


@pytest.mark.parametrize(
    ("value", "code", "part"),
    [("compact", 87, COMPACTED), ("delete,compact", 87, COMPACTED), ("delete", 0, None),
     (None, 7, "not known yet")],
)  # fmt: skip
@pytest.mark.parametrize("producer_id", [-1, 5])
async def test_bad_records_wait_until_it_is_known_whether_the_topic_is_compacted(
    value, code, part, producer_id
):
    talk = with_rights(Framework(FrameworkTopic.IF_COMPACTED, {"judged": value} if value else {}))
    first = 0 if producer_id >= 0 else -1
    talk.produce(1, batch(b"a", b"b", producer_id=producer_id, first=first))
    talk.decide(diverted(batch(b"a", producer_id=producer_id, first=first), 1))
    assert talk.dead_letters.stored == [], "nothing is decided yet"
    await talk.settle()
    if not code:
        talk.dead_letters.end()
        assert talk.broker.take()
        talk.session.upstream_data(produce_response(1, "judged"))
    assert talk.dead_letters.stored == []
    assert talk.broker.take() == b""
    found, message = talk.responses()["judged"]
    assert found == code
    assert part is None or part in message


async def test_good_records_do_not_wait():
    talk = Framework(FrameworkTopic.IF_COMPACTED)
    talk.produce(1, batch(b"a"))
    talk.decide(replaced(batch(b"a"), []))
    assert talk.broker.take()
    assert talk.reads == 0


async def test_a_batch_that_was_postponed_is_decided_when_it_comes_again():
    talk = with_rights(Framework(FrameworkTopic.IF_COMPACTED))
    data, left = (batch(*given, producer_id=5, first=0) for given in ([b"a", b"b"], [b"a"]))
    talk.produce(1, data)
    talk.decide(diverted(left, 1))
    await talk.settle()
    assert talk.responses()["judged"][0] == 7
    talk.values["judged"] = "compact"
    talk.framework_losses.forget("judged")
    talk.produce(2, data)
    talk.decide(diverted(left, 1))
    await talk.settle()
    assert talk.responses()["judged"][0] == 87
    talk.produce(3, batch(b"a", producer_id=5, first=2))
    assert talk.broker.take() == b"", "it is judged, too"


async def test_a_batch_that_lost_records_before_stays_decided():
    """Its other records may be stored: the topic was not compacted when it came first."""
    talk = with_rights(Framework(FrameworkTopic.IF_COMPACTED, {"judged": "delete"}))
    data, left = (batch(*given, producer_id=5, first=0) for given in ([b"a", b"b"], [b"a"]))
    talk.produce(1, data)
    talk.decide(diverted(left, 1))
    await talk.settle()
    talk.dead_letters.end("no broker answers")
    assert talk.responses()["judged"][0] == 7
    talk.values["judged"] = "compact"
    talk.framework_losses.forget("judged")
    talk.produce(2, data)
    talk.dead_letters.end()
    assert talk.broker.take()
    talk.session.upstream_data(produce_response(2, "judged"))
    assert talk.responses()["judged"][0] == 0


async def test_each_topic_of_a_request_is_decided_for_itself():
    talk = with_rights(
        Framework(FrameworkTopic.IF_COMPACTED, {"judged": "compact", "other": "delete"})
    )
    client = talk.session.number, talk.session.authentication.principal
    talk.write_rights.put(client, "other", 0)
    talk.produce(1, batch(b"a"), batch(b"b", b"c"))
    talk.decide(diverted(b"", 0))
    talk.decide(diverted(batch(b"b"), 1))
    await talk.settle()
    ((to, _, _),) = talk.dead_letters.stored
    assert to.source == "other"
    assert talk.reads == 1
    talk.dead_letters.end()
    talk.broker.take()
    talk.session.upstream_data(produce_response(1, "other"))
    assert {name: code for name, (code, _) in talk.responses().items()} == {
        "judged": 87,
        "other": 0,
    }


@pytest.mark.parametrize(
    ("framework", "verdict", "expected"),
    [
        (FrameworkTopic.NO, replaced(b"", [0]), False),
        (FrameworkTopic.BY_NAME, replaced(b"", [0]), True),
        (FrameworkTopic.BY_NAME, replaced(b"a", []), False),
        (FrameworkTopic.BY_NAME, TWO_BAD, False),
    ],
)
def test_only_batches_that_lose_records_are_looked_at(framework, verdict, expected):
    plan = TopicPlan(topic="t", framework=framework)
    assert loses_records(plan, verdict) == expected
