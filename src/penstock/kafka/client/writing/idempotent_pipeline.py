"""Sends batches as an idempotent producer, without transactions: each is stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.init_producer_id.v4.response import InitProducerIdResponse

from penstock.kafka.client.connections.pipeline import CHANNEL, Pipeline, ignore
from penstock.kafka.client.connections.retries import retried
from penstock.kafka.client.protocol.producer_id import PRODUCER_ID_REQUEST, producer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.errors import ClientError
    from penstock.kafka.client.protocol.produced_batches import BatchSource
    from penstock.kafka.client.writing.limits import WriterLimits
    from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch


def idempotent_pipeline(
    connection: Connection,
    limits: WriterLimits,
    *,
    timeout_s: float | None = None,
    channel: str = CHANNEL,
    on_stored: Callable[[BatchSource, int], None] = ignore,
    on_retry: Callable[[ClientError], None] = ignore,
) -> Pipeline:
    """Return a pipeline of a new producer without transactions.

    Args:
        connection: To the cluster.
        limits: The limits of sizes and times.
        timeout_s: When to give up to become a producer; `default.api.timeout.ms` by default.
        channel: See `Pipeline`.
        on_stored: See `Pipeline`.
        on_retry: See `Pipeline`.

    Raises:
        ClientError: The cluster does not respond in time, or denies it.
    """
    producer = new_producer(connection, timeout_s)
    pipeline = Pipeline(
        connection,
        transactional_id=None,
        max_bytes=limits.bytes_in_flight,
        timeout_s=limits.delivery_timeout_s,
        channel=channel,
        on_stored=on_stored,
        on_retry=on_retry,
    )
    pipeline.start(producer)
    return pipeline


def new_producer(connection: Connection, timeout_s: float | None = None) -> ProducerIdAndEpoch:
    """Return a new producer without transactions.

    Args:
        timeout_s: When to give up; `default.api.timeout.ms` by default.

    Raises:
        ClientError: The cluster does not respond in time, or denies it.
    """
    limit_s = connection.settings.api_timeout_s if timeout_s is None else timeout_s
    return retried(connection, limit_s, lambda left_s: _new_producer(connection, left_s))


def _new_producer(connection: Connection, timeout_s: float) -> ProducerIdAndEpoch:
    response = connection.send_to_any(
        PRODUCER_ID_REQUEST, InitProducerIdResponse, timeout_s=timeout_s
    )
    return producer_of(response)
