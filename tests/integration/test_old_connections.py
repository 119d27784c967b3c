"""Real clients lose no record, and store none twice, while their connections are closed at an age."""

import asyncio
import logging
import threading
import time
from collections import Counter

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from tests.integration.reading import read_topic

AGE = {"connections.max.age.ms": 1000}
RECORDS, LASTS_S = 4_000, 6.0
"""Of each producer at least, over some ages of a connection."""


@pytest.fixture
def aged(shared_gateway):
    return shared_gateway(AGE)


class Librdkafka:
    """A producer that counts what it logs, and its errors."""

    def __init__(self, bootstrap_servers, **settings):
        self.errors, self.lost_connections, self.values = [], 0, []
        logger = logging.getLogger(f"producer-{id(self)}")
        logger.setLevel(logging.DEBUG)
        logger.addFilter(self._count)
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "log.connection.close": True,
                **settings,
            },
            logger=logger,
        )

    def _count(self, record):
        self.lost_connections += "closed by peer" in record.getMessage()
        return False

    def _delivered(self, error, _):
        if error is not None:
            self.errors.append(error.name())

    def produce(self, topic):
        """Produce at a rate until two connections were lost, however slow the machine is."""
        for value in paced():
            self.producer.produce(topic, value, on_delivery=self._delivered)
            self.producer.poll(0)
            self.values.append(value)
            if len(self.values) >= RECORDS and self.lost_connections > 1:
                break
        assert self.producer.flush(60) == 0


def paced():
    """Return values, at a rate, for some ages of a connection, or ten times as long."""
    began = time.monotonic()
    for number in range(10 * RECORDS):
        ahead = began + number * LASTS_S / RECORDS - time.monotonic()
        if ahead > 0.005:
            time.sleep(ahead)
        yield b"%d" % number


async def produce_by_aiokafka(bootstrap_servers, topic, **settings):
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, request_timeout_ms=60_000, **settings
    )
    await producer.start()
    try:
        sent = []
        for number in range(RECORDS):
            sent.append(await producer.send(topic, b"%d" % number, partition=0))
            if number % 20 == 0:
                await asyncio.sleep(20 * LASTS_S / RECORDS)
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def values_in(kafka, topic):
    return Counter(value for _, _, value, _ in read_topic(kafka.bootstrap_servers, topic))


@pytest.mark.cases(1)
@pytest.mark.parametrize("idempotence", [True, False])
def test_librdkafka_loses_no_record(kafka, aged, topic, idempotence):
    name = topic()
    client = Librdkafka(aged.address, **{"enable.idempotence": idempotence})
    producing = threading.Thread(target=client.produce, args=(name,))
    producing.start()
    producing.join(120)
    assert client.errors == []
    assert client.lost_connections > 1
    found = values_in(kafka, name)
    assert set(found) == set(client.values)
    if idempotence:
        assert set(found.values()) == {1}


def test_aiokafka_loses_no_record(kafka, aged, topic):
    name = topic()
    asyncio.run(produce_by_aiokafka(aged.address, name, enable_idempotence=True))
    assert values_in(kafka, name) == Counter(b"%d" % number for number in range(RECORDS))
