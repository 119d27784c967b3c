"""The histories of tests/gateway/test_sequences.py, told to a real broker: it agrees with the model."""

import json
import random

from tests.gateway.producer_model import BrokerModel
from tests.gateway.test_sequences import Histories, walk
from tests.integration.reading import values_of
from tests.raw import RawClient, produce_request, produced
from tests.records.encoding import encode_batch, values


class RealBroker(BrokerModel):
    """The model, and Kafka beside it: every answer is compared."""

    def __init__(self, client: RawClient, topic: str):
        super().__init__()
        self._client = client
        self._topic = topic
        self.appended = 0

    def has_stored(self, producer_id, number):
        super().has_stored(producer_id, number)
        assert self._append(producer_id, 0, number, b'["before"]') == 0

    def append(self, producer_id, epoch, first, data):
        expected = super().append(producer_id, epoch, first, data)
        assert self._append(producer_id, epoch, first, data) == expected
        self.appended += 1
        return expected

    def _append(self, producer_id, epoch, first, data):
        batch = encode_batch(
            values(*(str(record).encode() for record in json.loads(data))),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first,
        )
        answers = produced(self._client.call(produce_request([(self._topic, [(0, batch)])])))
        return answers[self._topic, 0].error_code


def test_a_broker_says_what_the_model_says(kafka, topic, stored):
    name = topic()
    expected: list[bytes] = []
    appended = 0
    with RawClient(kafka.bootstrap_servers) as client:
        for number in range(60):
            machine = Histories()
            machine.make_broker = lambda: RealBroker(client, name)
            walk(machine, random.Random(number), 60)
            expected += (str(record).encode() for record in machine.broker.log)
            appended += machine.broker.appended
    assert appended > 1000
    assert [value for value in values_of(stored(name)) if value != b"before"] == expected
