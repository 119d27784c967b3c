"""Requests for the configs of topics, and responses."""

import dataclasses
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from tests.kafka.wire.entities import filled
from tests.raw import request_frame


def request(
    version: int,
    *resources: tuple[int, str, Any],
    synonyms: bool = False,
    documentation: bool = False,
) -> Any:
    schema = load_request_schema(32, version)
    module = __import__(schema.__module__, fromlist=["x"])
    fields = {"include_synonyms": synonyms}
    if version >= 3:
        fields["include_documentation"] = documentation
    return read_request(
        request_frame(
            schema(
                resources=tuple(
                    module.DescribeConfigsResource(
                        resource_type=i8(kind), resource_name=name, configuration_keys=keys
                    )
                    for kind, name, keys in resources
                ),
                **fields,
            ),
            9,
        )
    )


def config(version: int, name: str) -> Any:
    kind = filled(load_response_schema(32, version), [0]).results[0].configs[0]
    return dataclasses.replace(kind, name=name)


def response(version: int, *results: tuple[int, str, int, Any]) -> Any:
    """A response with results of resource type, name, error and configs."""
    whole = filled(load_response_schema(32, version), [0])
    return dataclasses.replace(
        whole,
        results=tuple(
            dataclasses.replace(
                whole.results[0],
                resource_type=i8(kind),
                resource_name=name,
                error_code=ErrorCode(code),
                configs=tuple(config(version, name) for name in names),
            )
            for kind, name, code, names in results
        ),
    )
