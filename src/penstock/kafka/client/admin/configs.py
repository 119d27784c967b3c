"""Configs of topics and brokers (DescribeConfigs version 4, since Kafka 2.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.static.primitive import i8

from penstock.kafka.client.connections.retries import retried
from penstock.kafka.client.errors import ResponseError, response_error
from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kio.schema.describe_configs.v4.response import DescribeConfigsResult

    from penstock.kafka.client.connections.connection import Connection

_TOPIC, _BROKER = 2, 4
_SET_ON_TOPIC: Final = 1
"""A source of a config (ConfigEntry.java, DYNAMIC_TOPIC_CONFIG)."""


class DescribedConfig(NamedTuple):
    """A config.

    Attributes:
        value: None for a secret.
        is_set_on_topic: Whether the topic has it itself, and not by a default.
    """

    value: str | None
    is_set_on_topic: bool


Configs: TypeAlias = "dict[str, DescribedConfig]"


def topic_configs(
    connection: Connection,
    topics: Iterable[str],
    timeout_s: float,
    *,
    keys: Collection[str] | None = None,
) -> dict[str, Configs | ResponseError]:
    """Return the configs of topics, or why a topic's cannot be described.

    Args:
        timeout_s: When to give up.
        keys: The configs to describe; all of them by default.

    Raises:
        ClientError: The cluster does not respond in time.
        WireError: The response cannot be read.
    """
    resources = [_resource(_TOPIC, topic, keys) for topic in topics]
    if not resources:
        return {}
    request = DescribeConfigsRequest(resources=tuple(resources))
    response = retried(
        connection,
        timeout_s,
        lambda left_s: connection.send_to_any(request, DescribeConfigsResponse, timeout_s=left_s),
    )
    return {
        result.resource_name: _configs(result, f"topic {result.resource_name}")
        for result in response.results
    }


def configs_of_topic(
    connection: Connection,
    topic: str,
    timeout_s: float,
    *,
    keys: Collection[str] | None = None,
) -> Configs:
    """Return the configs of a topic; see `topic_configs`.

    Raises:
        ResponseError: They cannot be described.
        ClientError: The cluster does not respond in time.
        WireError: The response cannot be read.
    """
    return _only(topic_configs(connection, (topic,), timeout_s, keys=keys))


def broker_configs(connection: Connection, timeout_s: float) -> Configs:
    """Return the configs of a broker of the cluster: that with the smallest node id.

    Raises:
        ResponseError: They cannot be described.
        ClientError: The cluster does not respond in time.
        WireError: The response cannot be read.
    """
    return retried(connection, timeout_s, lambda left_s: _broker_configs(connection, left_s))


def _broker_configs(connection: Connection, timeout_s: float) -> Configs:
    node = min(connection.cluster(timeout_s).brokers)
    request = DescribeConfigsRequest(resources=(_resource(_BROKER, str(node), None),))
    response = connection.send(node, request, DescribeConfigsResponse, timeout_s=timeout_s)
    results = {result.resource_name: _configs(result, f"broker {node}")
               for result in response.results}  # fmt: skip
    return _only(results)


def _resource(kind: int, name: str, keys: Collection[str] | None) -> DescribeConfigsResource:
    configuration_keys = None if keys is None else tuple(keys)
    return DescribeConfigsResource(
        resource_type=i8(kind), resource_name=name, configuration_keys=configuration_keys
    )


def _configs(result: DescribeConfigsResult, subject: str) -> Configs | ResponseError:
    if result.error_code:
        return response_error(int(result.error_code), subject, result.error_message)
    return {
        config.name: DescribedConfig(config.value, int(config.config_source) == _SET_ON_TOPIC)
        for config in result.configs
    }


def _only(results: Mapping[str, Configs | ResponseError]) -> Configs:
    for configs in results.values():
        if isinstance(configs, ResponseError):
            raise configs
        return configs
    raise WireError("a DescribeConfigsResponse without the resource")
