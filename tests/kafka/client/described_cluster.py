"""A cluster of topics and configs in memory: answers the requests of administration."""

import io
import uuid
from types import SimpleNamespace

from kio.schema.create_topics.v7 import response as created
from kio.schema.describe_configs.v4 import response as configured
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v6 import response as listed
from kio.schema.metadata.v11 import response as described
from kio.serial import entity_writer

from penstock.configuration import Address
from penstock.kafka.client.connections.metadata import ClusterNodes, merged, read_topics
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import BrokerUnreachableError
from penstock.kafka.client.protocol.raw_requests import RawResponse
from tests.kafka.client.scripted import NO_TIME
from tests.kafka.client.settings import SETTINGS

METADATA, CREATE_TOPICS, DESCRIBE_CONFIGS, LIST_OFFSETS = 3, 19, 32, 2
NO_LEADER = -1
BROKER, TOPIC = 4, 2


class Pending:
    def __init__(self, outcome):
        self.outcome, self.is_abandoned = outcome, False

    def is_done(self):
        return self.outcome is not None

    def wait(self, timeout_s=None):
        if self.outcome is None:
            raise BrokerUnreachableError(f"no answer within {timeout_s:g} s")
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def abandon(self):
        self.is_abandoned = True


class DescribedCluster:
    """A cluster with brokers 1 to `brokers`, as a `Connection`.

    Attributes:
        topics: By name, the leader of each partition; all have `replicas`.
        codes: By topic, the error codes of the next Metadata responses; the last one stays.
        configs: By name of a topic or broker, values; a name with an error code instead.
        offsets: By topic and partition, offset and leader epoch, an error code, or an exception.
        refusals: What CreateTopics answers next: a code and a message.
        failures: The errors of the next requests to any broker.
        requests: The requests.
        refreshed: The topics whose leaders are looked up again.
    """

    settings = SETTINGS

    def __init__(self, topics=(), brokers=3, replicas=3):
        self.topics = dict(topics)
        self.replicas = replicas
        self.codes, self.configs, self.offsets = {}, {}, {}
        self.operations = -(2**31)
        self.set_on_topics = set()
        self.refusals, self.failures = [], []
        self.requests, self.refreshed = [], []
        self.controller = 1
        self.brokers = {number: Address("k", 9000 + number) for number in range(1, brokers + 1)}
        self._known = {}

    # As a connection

    def retries(self, limit_s=None):
        return Retries(self.settings._replace(backoff_s=0.0, max_backoff_s=0.0), limit_s=limit_s)

    def cluster(self, timeout_s=None):
        self._fail()
        return ClusterNodes("id", self.controller, self.brokers)

    def send_to_any(self, request, response, *, timeout_s=None):
        self._fail()
        return self._answer(request)

    def send(self, node, request, response, *, channel="", timeout_s=None):
        assert node in self.brokers
        return self._answer(request)

    def send_raw_to_any(self, request, timeout_s=None):
        self._fail()
        assert request.api_key == METADATA
        answer = self._metadata(SimpleNamespace(topics=None))
        buffer = io.BytesIO()
        entity_writer(type(answer))(buffer, answer)
        return RawResponse(bytes(5) + buffer.getvalue())

    def describe(self, names, timeout_s=None):
        self._fail()
        self.requests.append((METADATA, list(names)))
        request = SimpleNamespace(topics=[SimpleNamespace(name=name) for name in names])
        topics = {
            name: merged(self._known.get(name), topic)
            for name, topic in read_topics(self._metadata(request)).items()
        }
        self._known.update((name, topic) for name, topic in topics.items() if not topic.code)
        return topics

    def known_leaders(self, topic):
        return self._known[topic].leaders if topic in self._known else None

    def refresh(self, topic):
        self.refreshed.append(topic)
        self._known.pop(topic, None)

    def begin(self, node, request, *, channel="", has_deadline=False):
        assert request.api_key == LIST_OFFSETS
        from kio.schema.list_offsets.v6.request import ListOffsetsRequest
        from kio.serial import entity_reader

        requested, _ = entity_reader(ListOffsetsRequest)(request.body, 0)
        self.requests.append((LIST_OFFSETS, node, requested))
        try:
            answer = self._offsets(requested)
        except Exception as error:
            return Pending(error)
        buffer = io.BytesIO()
        entity_writer(type(answer))(buffer, answer)
        return Pending(RawResponse(bytes(5) + buffer.getvalue()))

    # As brokers

    def _fail(self):
        if self.failures:
            raise self.failures.pop(0)

    def _answer(self, request):
        self.requests.append((int(request.__api_key__), request))
        if request.__api_key__ == METADATA:
            return self._metadata(request)
        if request.__api_key__ == CREATE_TOPICS:
            return self._created(request)
        assert request.__api_key__ == DESCRIBE_CONFIGS
        return self._configured(request)

    def _metadata(self, request):
        names = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return described.MetadataResponse(
            throttle_time=NO_TIME,
            brokers=(),
            cluster_id="id",
            topics=tuple(map(self._topic, names)),
        )

    def _topic(self, name):
        codes = self.codes.get(name, [])
        code = codes.pop(0) if len(codes) > 1 else next(iter(codes), None)
        if code is None:
            code = 0 if name in self.topics else int(ErrorCode.unknown_topic_or_partition)
        partitions = tuple(
            described.MetadataResponsePartition(
                error_code=ErrorCode.none,
                partition_index=number,
                leader_id=leader,
                leader_epoch=0,
                replica_nodes=tuple(range(1, self.replicas + 1)),
            )
            for number, leader in enumerate(() if code else self.topics[name])
        )
        return described.MetadataResponseTopic(
            error_code=ErrorCode(code),
            name=name,
            topic_id=None if code else uuid.UUID(int=len(name)),
            partitions=partitions,
            topic_authorized_operations=self.operations,
        )

    def _created(self, request):
        (topic,) = request.topics
        code, text = self.refusals.pop(0) if self.refusals else (0, None)
        if not code:
            self.topics[topic.name] = [1] * max(1, topic.num_partitions)
        result = created.CreatableTopicResult(
            name=topic.name,
            topic_id=None,
            error_code=ErrorCode(code),
            error_message=text,
            configs=None,
        )
        return created.CreateTopicsResponse(throttle_time=NO_TIME, topics=(result,))

    def _configured(self, request):
        return configured.DescribeConfigsResponse(
            throttle_time=NO_TIME,
            results=tuple(map(self._resource, request.resources)),
        )

    def _resource(self, resource):
        values = self.configs.get(resource.resource_name, 3)
        code = values if isinstance(values, int) else 0
        keys = resource.configuration_keys
        configs = tuple(
            configured.DescribeConfigsResourceResult(
                name=name,
                value=value,
                read_only=False,
                config_source=1 if name in self.set_on_topics else 5,
                is_sensitive=False,
                synonyms=(),
                documentation=None,
            )
            for name, value in (() if code else values.items())
            if keys is None or name in keys
        )
        return configured.DescribeConfigsResult(
            error_code=ErrorCode(code),
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )

    def _offsets(self, request):
        return listed.ListOffsetsResponse(
            throttle_time=NO_TIME,
            topics=tuple(
                listed.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        self._offset(str(topic.name), int(partition.partition_index))
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _offset(self, topic, number):
        answer = self.offsets.get((topic, number), (0, 0))
        if isinstance(answer, Exception):
            raise answer
        code = answer if isinstance(answer, int) else 0
        offset, epoch = (-1, -1) if code else answer
        return listed.ListOffsetsPartitionResponse(
            partition_index=number, error_code=ErrorCode(code), offset=offset, leader_epoch=epoch
        )
