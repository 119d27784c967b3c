"""Batches of idempotent producers."""

import itertools
import uuid
from typing import Any

from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

POLICIES = """
from penstock.policy import *
class NoDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"): raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
INTERCEPTED = {"produce.request.interceptors": "policies.NoDrop"}
_producer_ids = itertools.count(uuid.uuid4().int % 2**40)


class Batches:
    """An idempotent producer at a partition, which sends the batches of a test."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._producer_id = next(_producer_ids)

    @property
    def key(self) -> ProducerKey:
        """The producer at the partition."""
        return ProducerKey(self._topic, 0, self._producer_id)

    def request(self, first: int, *contents: bytes, epoch: int = 0) -> Any:
        batch = encode_batch(
            values(*contents),
            producer_id=self._producer_id,
            producer_epoch=epoch,
            base_sequence=first,
        )
        return produce_request([(self._topic, [(0, batch)])])

    def send(self, address: str, first: int, *contents: bytes, epoch: int = 0) -> int:
        """Send a batch over a new connection; return the error code."""
        with RawClient(address) as client:
            return self.send_on(client, first, *contents, epoch=epoch)

    def send_on(self, client: RawClient, first: int, *contents: bytes, epoch: int = 0) -> int:
        response = client.call(self.request(first, *contents, epoch=epoch))
        return produced(response)[self._topic, 0].error_code
