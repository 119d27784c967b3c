"""Changes of configs, and their results."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from kio.static.primitive import i8

from penstock.kafka.wire.schemas import load_request_schema

ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 33, 44
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE, APPEND, SUBTRACT = range(4)


class Change(NamedTuple):
    """A change of a key of a resource, as a client sends it."""

    key: str
    value: str | None
    operation: int = SET


Resource = tuple[int, str, Sequence[Change]]


def incremental(*resources: Resource, version: int = 1, validate_only: bool = False) -> Any:
    """An IncrementalAlterConfigs request."""
    return _alter(INCREMENTAL_ALTER_CONFIGS, resources, version, validate_only)


def _alter(api_key: int, resources: Sequence[Resource], version: int, validate_only: bool) -> Any:
    schema = load_request_schema(api_key, version)
    types = sys.modules[schema.__module__]

    def config(change: Change) -> Any:
        fields = {"name": change.key, "value": change.value}
        if api_key == INCREMENTAL_ALTER_CONFIGS:
            fields["config_operation"] = i8(change.operation)
        return types.AlterableConfig(**fields)

    return schema(
        resources=tuple(
            types.AlterConfigsResource(
                resource_type=i8(kind), resource_name=name, configs=tuple(map(config, changes))
            )
            for kind, name, changes in resources
        ),
        validate_only=validate_only,
    )


def resource_results(response: Any) -> list[tuple[str, int, str | None]]:
    """Return name, code and message of each resource, in order."""
    return [
        (resource.resource_name, int(resource.error_code), resource.error_message)
        for resource in response.responses
    ]
