"""Exchanges about topics without sockets: requests and responses go in, bytes come out."""

import asyncio
import dataclasses
import datetime as dt
import io
import time
import typing
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from penstock.configuration.file import read_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.admin.topic_configs import StoredTopicConfigs, TopicConfigs
from penstock.gateway.context.turns import Turns
from penstock.gateway.sessions.routes import VERSIONS, route
from penstock.kafka.cluster.metadata import MetadataUnavailableError, MissingTopic
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from tests.gateway.admin.memory_log import MemoryLog, MemoryTopic
from tests.gateway.sessions.talk import Talk
from tests.kafka.client.settings import FILE
from tests.raw import parse_response, request_frame

if TYPE_CHECKING:
    from uuid import UUID

NO = refused(44, "the policy says no", "a.P")
OWN = "record.validation.policy"
"""A topic level key of Penstock."""
TURNS = 200


def versions(api_key: int) -> range:
    """The versions of an API that are served."""
    first, last = VERSIONS[api_key]
    return range(first, last + 1)


def entity(kind: Any, **given: Any) -> Any:
    """Return an entity of the protocol; fields that are not given are empty."""
    hints = typing.get_type_hints(kind)
    fields = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if field.name in given:
            fields[field.name] = _value(hint, given[field.name])
        elif field.default is dataclasses.MISSING:
            fields[field.name] = _empty(hint)
    return kind(**fields)


def broker_frame(api_key: int, version: int, correlation_id: int, **fields: Any) -> bytes:
    """Return the frame of a broker's response; see `entity`."""
    kind = load_response_schema(api_key, version)
    header = kind.__header_schema__
    buffer = io.BytesIO()
    entity_writer(header)(buffer, header(correlation_id=i32(correlation_id)))
    entity_writer(kind)(buffer, entity(kind, **fields))
    body = buffer.getvalue()
    return len(body).to_bytes(4, "big") + body


def _value(hint: Any, given: Any) -> Any:
    if hint is ErrorCode:
        return ErrorCode(given)
    if isinstance(given, Mapping):
        (of,) = filter(dataclasses.is_dataclass, (hint, *typing.get_args(hint)))
        return entity(of, **given)
    if not isinstance(given, (list, tuple)):
        return given
    kinds = [hint, *typing.get_args(hint)]
    (of,) = {typing.get_args(kind)[0] for kind in kinds if typing.get_origin(kind) is tuple}
    return tuple(entity(of, **item) if isinstance(item, Mapping) else item for item in given)


def _empty(hint: Any) -> Any:
    if hint is ErrorCode:
        return ErrorCode.none
    if type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if isinstance(hint, type) and issubclass(hint, dt.timedelta):
        return dt.timedelta(0)
    if isinstance(hint, type) and issubclass(hint, (bool, int, str)):
        base = next(kind for kind in (bool, int, str) if issubclass(hint, kind))
        return base()
    return 0


class Policies:
    """The policies for topics and configs; `no` has the topics and resources that they refuse."""

    def __init__(self, *, create: bool = True, alter: bool = True) -> None:
        self.create_topic = "a.P" if create else None
        self.alter_config = "a.P" if alter else None
        self.needs_context = False
        self.judges_partitions = True
        self.refused_automatic_creation_code = 3
        self.no: set[str] = set()
        self.judged: list[Any] = []
        self.not_set: list[tuple[str, ...]] = []
        self.tried: list[Any] = []
        self.objection: str | None = None

    async def creation(self, judged, _context, **_):
        self.judged.append(judged)
        return NO if judged.topic in self.no else ACCEPTED

    async def alteration(self, judged, _context, **_):
        self.judged.append(judged)
        self.not_set.append(judged.not_set)
        return NO if judged.resource_name in self.no else ACCEPTED

    async def cannot_judge(self, plan):
        self.tried.append(plan)
        return self.objection

    async def cannot_use(self, _name):
        return None


class Cluster:
    """The cluster as the gateway's own principal sees it."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.away = False
        self.creates = True
        self.disallowed: list[str] = []
        self.ids_by_name: dict[str, UUID] = {}

    def _reached(self) -> None:
        if self.away:
            raise MetadataUnavailableError("no broker answers")

    async def missing_internal_topic(self, topic):
        self._reached()
        return MissingTopic(topic, 50, 3, {"cleanup.policy": "compact"}) if self.missing else None

    async def counts(self, partitions, replicas):
        self._reached()
        return (6 if partitions < 0 else partitions), (3 if replicas < 0 else replicas)

    async def default(self, _key):
        self._reached()
        return 3

    async def creates_topics(self):
        return self.creates

    def ids(self, names):
        return {name: self.ids_by_name.get(name) for name in names}

    def disallow(self, topic):
        self.disallowed.append(topic)


class ForwardedRequest(NamedTuple):
    """A request that the broker got."""

    api_key: int
    version: int
    correlation_id: int
    body: Any
    frame: bytes


class Addresses:
    """Every broker is behind the gateway, at the same port."""

    def learn_for_clients(self, _node, host, port):
        return ("gateway", 9192) if host else (host, port)

    for_clients = learn_for_clients


class AdminTalk(Talk):
    """A client and the gateway, with the test as the broker."""

    def __init__(self, policies: Policies | None = None, properties: Mapping[str, str] = {}):
        super().__init__()
        self.turns = Turns(asyncio.get_running_loop().call_soon)
        self.cluster = Cluster()
        self.addresses = Addresses()
        self.topics = Policies() if policies is None else policies
        self.changed: list[str] = []
        self.deleted: list[str] = []
        self.topic_configs = TopicConfigs()
        given = {
            "upstream.bootstrap.servers": "k:9",
            "record.validation.policy.class.name": "a.V",
            **properties,
        }
        plan = Plan(read_configuration(FILE, given, declared=()).policies)
        self.policies = self.policies._replace(topics=self.topics, plan=plan)
        self.session._requests.max_bytes = 10**6
        self._version = 0
        self._api_key = 0

    def route(self, api_key):
        return route(api_key)

    def run(self, coroutine):
        return asyncio.ensure_future(coroutine)

    def topic_changed(self, name, principal=None):
        self.changed.append(name)

    def topic_deleted(self, name):
        self.deleted.append(name)

    async def store(self) -> MemoryLog:
        """Keep topic level keys in a topic in memory."""
        clock = SimpleNamespace(time=lambda: 1_700_000_000.0)
        log = MemoryLog(MemoryTopic(clock))
        self.topic_configs = StoredTopicConfigs(log, "one", lambda *_: None)
        await self.topic_configs.start(1.0)
        return log

    async def request(self, api_key: int, version: int, **fields: Any) -> bytes:
        """Send a request; return its frame."""
        self._api_key, self._version = api_key, version
        frame = request_frame(entity(load_request_schema(api_key, version), **fields), 1)
        self.session.client_data(frame)
        await asyncio.sleep(0)
        return frame

    async def forwarded(self, api_key: int) -> ForwardedRequest:
        """Return the next request that the broker gets, which has this API key."""
        await self._until(lambda: len(self.broker.data) > 4)
        size = 4 + int.from_bytes(self.broker.data[:4], "big")
        frame, self.broker.data = self.broker.data[:size], self.broker.data[size:]
        assert len(frame) == size
        key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
        assert (key, self.client.data) == (api_key, b"")
        kind = load_request_schema(key, version)
        _, header = entity_reader(kind.__header_schema__)(frame, 4)
        body, read = entity_reader(kind)(frame, 4 + header)
        assert 4 + header + read == size
        return ForwardedRequest(key, version, int.from_bytes(frame[8:12], "big"), body, frame)

    def respond(self, forwarded: ForwardedRequest, **fields: Any) -> bytes:
        """Send a response to it; return the frame."""
        frame = broker_frame(
            forwarded.api_key, forwarded.version, forwarded.correlation_id, **fields
        )
        self.session.upstream_data(frame)
        return frame

    async def response(self) -> Any:
        """Return the response that the client gets."""
        return parse_response(await self.response_frame(), self._api_key, self._version)

    async def response_frame(self) -> bytes:
        """Return the bytes that the client gets; the broker gets no other request."""
        await self._until(lambda: self.client.data)
        assert self.broker.data == b""
        return self.client.take()

    async def passes_unchanged(self, api_key: int, sent: bytes, **fields: Any) -> None:
        """Check that a request and its response pass unchanged."""
        forwarded = await self.forwarded(api_key)
        assert forwarded.frame == sent
        assert self.respond(forwarded, **fields) == await self.response_frame()

    async def wait_until_closed(self) -> None:
        """Wait until the connection is closed; the client gets nothing."""
        await self._until(lambda: self.done)
        assert self.client.data == b""

    async def _until(self, condition) -> None:
        for _ in range(TURNS):
            if condition():
                return
            await asyncio.sleep(0)
        until = time.monotonic() + 30  # what another thread does
        while not condition():
            assert time.monotonic() < until, (self.broker.data, self.client.data)
            await asyncio.sleep(0.005)

    async def describe_topics(self, *found: Mapping[str, Any]) -> ForwardedRequest:
        """Respond to the gateway's own Metadata request."""
        forwarded = await self.forwarded(3)
        self.respond(forwarded, topics=found)
        return forwarded
