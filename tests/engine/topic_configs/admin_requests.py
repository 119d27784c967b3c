"""Settings of topics and requests of admin tools, for the tests of topic level keys."""

import datetime
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from penstock.configuration.topic_keys import RECORDS_POLICY, RECORDS_POLICY_ENABLED
from penstock.engine.topic_configs.definitions import SET_ON_TOPIC, config_keys
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

CREATE_TOPICS: Final = 19
INCREMENTAL_ALTER_CONFIGS: Final = 44
_TOPIC = i8(2)
_SET, _DELETE = i8(0), i8(1)
_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=15))
_APPEARS_WITHIN_S = 60.0
_TRY_AGAIN = {3, 6, 100}
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID: a broker's errors for a
topic that it does not know yet. It has stored nothing."""

NOT_BAD: Final = """
from penstock.policy import *

class NotBad(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(record.value == b"bad" for record in records):
            raise PolicyViolationException("bad")
"""
"""A module `policies`; see `judged_by`."""


def judged_by(policy: str) -> dict[str, str]:
    """Return the settings of a topic whose batches a class of the module `policies` judges."""
    return {RECORDS_POLICY: f"policies.{policy}", RECORDS_POLICY_ENABLED: "true"}


class TopicClient(RawClient):
    """One connection on which topics are created, altered, described, deleted and produced to."""

    def send_creation(self, topic: str, configs: Mapping[str, str]) -> None:
        """Send a CreateTopics request; do not wait for the response."""
        self.send(self.frame(creation(topic, configs)))

    def create(self, topic: str, configs: Mapping[str, str]) -> UUID:
        """Create a topic; return its id."""
        (result,) = self.call(creation(topic, configs)).topics
        assert result.error_code == 0, result
        return result.topic_id

    def send_alteration(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Send an IncrementalAlterConfigs request; do not wait for the response."""
        self.send(self.frame(alteration(topic, configs)))

    def alter(self, topic: str, configs: Mapping[str, str | None]) -> int:
        """Set configs, or delete those that are None; return the error code."""
        (result,) = self.call(alteration(topic, configs)).responses
        return result.error_code

    def delete(self, topic: str) -> int:
        """Delete a topic; return the error code."""
        state = DeleteTopicState(name=TopicName(topic), topic_id=None)
        (result,) = self.call(DeleteTopicsRequest(topics=(state,), timeout=_TIMEOUT)).responses
        return result.error_code

    def own_settings(self, topic: str, *declared: str) -> dict[str, str]:
        """Return the topic level keys that DescribeConfigs reports as set on the topic.

        Args:
            topic: The topic.
            declared: The keys that a policy declares; those of Penstock are always among them.
        """
        keys = *config_keys(), *declared
        resource = DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=topic, configuration_keys=keys
        )
        request = DescribeConfigsRequest(resources=(resource,))
        result = _once_known(lambda: self.call(request).results[0])
        assert result.error_code == 0, result
        return {
            config.name: config.value
            for config in result.configs
            if config.config_source == SET_ON_TOPIC
        }

    def produce(self, topic: str | UUID, *sent: bytes, version: int = 9) -> Any:
        """Produce one batch as soon as the broker knows the topic; return the partition's response."""
        request = produce_request([(topic, [(0, encode_batch(values(*sent)))])], version=version)
        return _once_known(lambda: produced(self.call(request))[topic, 0])


def _once_known(request: Callable[[], Any]) -> Any:
    """Send a request until the broker knows the topic; return its response."""
    deadline = time.monotonic() + _APPEARS_WITHIN_S
    while time.monotonic() < deadline:
        answer = request()
        if answer.error_code not in _TRY_AGAIN:
            return answer
        time.sleep(0.01)
    raise AssertionError(f"the topic does not appear: {answer}")


def creation(topic: str, configs: Mapping[str, str]) -> CreateTopicsRequest:
    """Return a CreateTopics request for one partition."""
    request = CreatableTopic(
        name=TopicName(topic),
        num_partitions=i32(1),
        replication_factor=i16(1),
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
        ),
    )
    return CreateTopicsRequest(topics=(request,), timeout=_TIMEOUT, validate_only=False)


def alteration(topic: str, configs: Mapping[str, str | None]) -> IncrementalAlterConfigsRequest:
    """Return an IncrementalAlterConfigs request that sets configs, or deletes those that are None."""
    changes = tuple(
        AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in configs.items()
    )
    request = AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=changes)
    return IncrementalAlterConfigsRequest(resources=(request,), validate_only=False)
