"""A session without sockets: what it sends, and its broker's answers."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, PolicyVerdict, refused
from penstock.gateway.admin.topic_configs import TopicConfigs
from penstock.gateway.context.turns import Turns
from penstock.gateway.produce.lookups.max_message_bytes import MaxMessageBytes
from penstock.gateway.produce.lookups.write_rights import WriteRights
from penstock.gateway.produce.missing_batches import MissingBatches
from penstock.gateway.produce.policy_set import PolicySet
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.sessions.routes import Route, handled_by, route
from penstock.gateway.sessions.session import Session
from penstock.kafka.wire.schemas import load_request_schema
from tests.raw import produce_request, request_frame


class Recording:
    """A transport that records the written bytes."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += bytes(data)

    def writelines(self, data: Iterable[bytes]) -> None:
        self.data += b"".join(data)

    def take(self) -> bytes:
        data, self.data = self.data, b""
        return data


class AllMayWrite(WriteRights):
    """Every client may write to every topic, without a look-up."""

    def code(self, client: Any, topic: str) -> int:
        return 0


class NoTopicPolicies:
    create_topic = alter_config = None
    needs_context = False
    judges_partitions = True
    refused_automatic_creation_code = 3


def call_soon(function: Callable[[], object]) -> asyncio.Handle:
    """Call a function in the next turn of the event loop that runs."""
    return asyncio.get_running_loop().call_soon(function)


@dataclass
class Talk:
    """A session between two recordings, with verdicts given by hand."""

    judged: frozenset = frozenset({"judged"})
    verdicts: list = field(default_factory=list)
    refusals: list = field(default_factory=list)
    withdrawn: list = field(default_factory=list)
    left: list = field(default_factory=list)
    missing_batches: MissingBatches = field(default_factory=MissingBatches)
    turns: Turns = field(default_factory=lambda: Turns(call_soon))
    done: bool = False
    peer: str | None = None
    node: int | None = None
    cluster_id: str = "cluster"
    addresses = None
    producers = Producers(now=time.time)
    shared_producers = None
    max_message_bytes = MaxMessageBytes()
    write_rights: WriteRights = field(default_factory=AllMayWrite)
    request_max_bytes = 10_000
    topic_configs = TopicConfigs()
    counts = None
    audit_topic = ""
    lane = None
    keeps_decisions = False
    decompressed_batch_max_records = 1_000
    requires_sasl = False
    sasl_max_bytes = 1_000
    clock = staticmethod(time.monotonic)

    def __post_init__(self) -> None:
        self.client, self.broker = Recording(), Recording()
        self.policies = PolicySet(
            self,
            self._submit,
            whole_request=False,
            topics=NoTopicPolicies(),
            retain=lambda *_: None,
            cancel=self.withdrawn.append,
            leave=self.left.append,
        )
        self.session = Session(
            self,
            self.route,
            client=self.client,
            upstream=self.broker,
            request_max_bytes=self.request_max_bytes,
            on_done=self._finished,
            on_progress=lambda: None,
            certificate_principal=self.peer,
            address="10.0.0.7",
            node=self.node,
        )

    @property
    def is_empty(self) -> bool:
        return not self.judged

    names = MappingProxyType({"records.policy.class.name": ()})

    def route(self, api_key: int) -> Route:
        return route(api_key)

    has_interceptors = False
    may_quarantine = False

    def intercepts(self, topic: str) -> bool:
        return False

    def for_topic(self, topic: str, own: object = None) -> TopicPlan | None:
        return TopicPlan(topic=topic, validators=("v",)) if topic in self.judged else None

    def refused(self, what: Any) -> None:
        self.refusals.append(what)

    def _submit(self, batch: Any, done: Callable[..., None]) -> None:
        self.verdicts.append((batch.plan.topic, batch.partition, bytes(batch.data), done))

    def _finished(self) -> None:
        self.done = True

    def decide(self, verdict: PolicyVerdict = ACCEPTED, which: int = 0) -> None:
        self.verdicts.pop(which)[3](verdict)


NO = refused(44, "no", "v")


def produce(number: int, *topics: str, acks: int = 1) -> bytes:
    request = produce_request(
        [(topic, [(0, b"records of %d" % number)]) for topic in topics], acks=acks
    )
    return request_frame(request, number)


def other(number: int) -> bytes:
    """A request that the gateway does not read: ListGroups."""
    return request_frame(load_request_schema(16, 4)(states_filter=()), number)


def answer(number: int, body: bytes = b"\x00 anything") -> bytes:
    data = number.to_bytes(4, "big") + body
    return len(data).to_bytes(4, "big") + data


def produce_response(number: int, *topics: str) -> bytes:
    """A broker's response to Produce version 9: offset 5 for partition 0 of each topic."""
    body = bytes([0, len(topics) + 1])
    for topic in topics:
        body += bytes([len(topic) + 1]) + topic.encode() + bytes([2])
        body += bytes(4) + bytes(2) + (5).to_bytes(8, "big") + b"\xff" * 8 + bytes(8)
        body += bytes([1, 0, 0, 0])
    return answer(number, body + bytes([0, 0, 0, 0, 0]))


class Answering(Talk):
    """A session whose ListGroups requests have a handler that the test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns(asyncio.get_running_loop().call_soon)
        self.answered = []

    def route(self, api_key: int) -> Route:
        return (
            Route(16, hold=handled_by(self._handle, when=lambda _: True))
            if api_key == 16
            else route(api_key)
        )

    async def _handle(self, context: Any) -> bytes:
        future = asyncio.get_running_loop().create_future()
        self.answered.append(future)
        await future
        return answer(context.request.correlation_id, b"done")

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        return asyncio.ensure_future(coroutine)


def large(partitions: int) -> bytes:
    return request_frame(produce_request([("judged", [(n, None) for n in range(partitions)])]), 1)


LONG = tuple(f"topic-{number}" for number in range(5_000))


async def turns_until(condition: Callable[[], object]) -> int:
    turns = 0
    while not condition():
        await asyncio.sleep(0)
        turns += 1
        assert turns < 10_000
    return turns
