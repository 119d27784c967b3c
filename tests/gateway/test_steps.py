"""Long work on the event loop leaves turns to other work."""

import asyncio
import datetime
import io
import sys
import uuid

from kio.schema.create_topics.v7 import request as v7
from kio.schema.create_topics.v7 import response as r7
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta

from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.admin import create_topics
from penstock.gateway.context import handler_context
from penstock.gateway.context.turns import Turns
from penstock.gateway.sessions.routes import route
from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.requests.entities import write_entity
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from penstock.kafka.wire.slices import finish
from tests.gateway.sessions.talk import Talk
from tests.raw import parse_response, request_frame

NOW = i32Timedelta.parse(datetime.timedelta(0))
TOPICS = 3_000
NO = refused(44, "no", "a.P")


async def test_other_work_has_its_turn_after_a_number_of_steps():
    steps = Turns(asyncio.get_running_loop().call_soon).steps(3)
    others, seen = 0, []

    async def other():
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    for _ in range(9):
        await steps.step()
        seen.append(others)
    task.cancel()
    assert seen == [0, 0, 2, 2, 2, 4, 4, 4, 6]


class TopicPolicies:
    """Refuses every other topic."""

    create_topic, alter_config, needs_context = "a.P", None, False

    def __init__(self):
        self.judged = 0

    async def alteration(self, request, context, *, is_observed=False):
        return NO if int(request.resource_name[1:]) % 2 else ACCEPTED

    async def creation(self, request, context, *, is_observed=False):
        self.judged += 1
        return NO if int(request.topic[1:]) % 2 else ACCEPTED


class Cluster:
    """Knows the counts of a request, and nothing else."""

    async def counts(self, partitions, replicas):
        return partitions, replicas

    def disallow(self, topic):
        pass


class AdminTalk(Talk):
    """A session of an admin client."""

    cluster = Cluster()
    observes_others = False

    def __post_init__(self):
        super().__post_init__()
        self.turns = Turns(asyncio.get_running_loop().call_soon)
        self.judges = TopicPolicies()
        self.policies = self.policies._replace(topics=self.judges)
        self.session._requests.max_bytes = 10**7

    def route(self, api_key):
        return route(api_key)

    def run(self, coroutine):
        return asyncio.ensure_future(coroutine)

    def observes_topic(self, _):
        return False

    def settings(self, _):
        return {}

    def topic_changed(self, *_):
        pass

    async def sent(self):
        """Return the next request that the broker gets, and count the loop's turns until then."""
        turns = 0
        while not self.broker.data and not self.done:
            turns += 1
            await asyncio.sleep(0)
        return read_request(self.broker.take()), turns

    def answer(self, request):
        kind = r7.CreateTopicsResponse(
            throttle_time=NOW,
            topics=tuple(
                r7.CreatableTopicResult(
                    name=topic.name,
                    topic_id=uuid.uuid4(),
                    error_code=ErrorCode(0),
                    error_message=None,
                    num_partitions=topic.num_partitions,
                    replication_factor=topic.replication_factor,
                    configs=(),
                )
                for topic in finish(request.read_body()).topics
            ),
        )
        body = io.BytesIO()
        entity_writer(r7.CreateTopicsResponse)(body, kind)
        data = request.correlation_id.to_bytes(4, "big") + b"\0" + body.getvalue()
        self.session.upstream_data(len(data).to_bytes(4, "big") + data)


async def test_a_request_for_thousands_of_topics_is_handled_in_slices():
    talk = AdminTalk()
    request = v7.CreateTopicsRequest(
        topics=tuple(
            v7.CreatableTopic(
                name=TopicName(f"t{n}"),
                num_partitions=i32(1),
                replication_factor=i16(1),
                assignments=(),
                configs=(v7.CreatableTopicConfig(name="retention.ms", value="1"),),
            )
            for n in range(TOPICS)
        ),
        timeout=NOW,
        validate_only=False,
    )
    talk.session.client_data(request_frame(request, 7))
    validated, turns = await talk.sent()
    assert finish(validated.read_body()).validate_only
    assert turns >= 2 * TOPICS // create_topics.SLICE, "read, and written for the cluster"
    talk.answer(validated)
    created, turns = await talk.sent()
    assert talk.judges.judged == TOPICS
    assert turns >= 2 * TOPICS // create_topics.SLICE, "the results are read, then judged"
    names = [topic.name for topic in finish(created.read_body()).topics]
    assert names == [f"t{n}" for n in range(0, TOPICS, 2)]
    talk.answer(created)
    turns = 0
    while not talk.client.data:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 1.5 * TOPICS // create_topics.SLICE
    results = parse_response(talk.client.take(), 19, 7).topics
    assert [(result.name, int(result.error_code)) for result in results] == [
        (f"t{n}", 44 if n % 2 else 0) for n in range(TOPICS)
    ]


RESOURCES = 5_000


async def test_a_request_to_alter_thousands_of_resources_is_handled_in_slices():
    """A request of 20,000 resources took 0.3 s of the event loop before anything was sent."""
    talk = AdminTalk()
    talk.session._requests.max_bytes = 10**6
    kind = load_request_schema(44, 1)
    of = sys.modules[kind.__module__]
    config = of.AlterableConfig(name="retention.ms", config_operation=i8(0), value="1")
    request = kind(
        resources=tuple(
            of.AlterConfigsResource(
                resource_type=i8(2), resource_name=f"t{number}", configs=(config,)
            )
            for number in range(RESOURCES)
        ),
        validate_only=True,
    )
    talk.judges.create_topic, talk.judges.alter_config = None, "a.P"
    talk.session.client_data(request_frame(request, 7))
    probe, turns = await talk.sent()
    assert turns >= 3 * RESOURCES // handler_context.SLICE, "read, looked at, and written"
    kind = load_response_schema(44, 1)
    response_type = sys.modules[kind.__module__].AlterConfigsResourceResponse
    body = write_entity(
        kind(
            throttle_time=NOW,
            responses=tuple(
                response_type(
                    error_code=ErrorCode(0),
                    error_message=None,
                    resource_type=i8(2),
                    resource_name=f"t{number}",
                )
                for number in range(RESOURCES)
            ),
        )
    )
    data = probe.correlation_id.to_bytes(4, "big") + b"\0" + body
    talk.session.upstream_data(len(data).to_bytes(4, "big") + data)
    turns = 0
    while not talk.client.data and not talk.done:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 4 * RESOURCES // handler_context.SLICE, "read, judged, and answered"
    codes = [
        int(response.error_code) for response in parse_response(talk.client.take(), 44, 1).responses
    ]
    assert codes == [44 if number % 2 else 0 for number in range(RESOURCES)]
