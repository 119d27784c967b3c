"""Requests for more partitions, and their results."""

import sys
from collections.abc import Iterable
from typing import Any

from kio.static.primitive import i32

from penstock.kafka.wire.schemas import load_request_schema
from tests.integration.topics.creation import TIMEOUT

FIND_COORDINATOR, CREATE_PARTITIONS, STREAMS_GROUP_HEARTBEAT = 10, 37, 88


def create_partitions(
    counts: Iterable[tuple[str, int]], *, version: int = 3, validate_only: bool = False
) -> Any:
    """A CreatePartitions request."""
    schema = load_request_schema(CREATE_PARTITIONS, version)
    types = sys.modules[schema.__module__]
    return schema(
        topics=tuple(
            types.CreatePartitionsTopic(name=topic, count=i32(count), assignments=None)
            for topic, count in counts
        ),
        timeout=TIMEOUT,
        validate_only=validate_only,
    )


def results(response: Any) -> dict[str, tuple[int, str | None]]:
    """Code and message by topic."""
    return {
        result.name: (int(result.error_code), result.error_message) for result in response.results
    }
