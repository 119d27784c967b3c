"""Uses every partition of a topic by TLS: `one_port.py CLIENT BOOTSTRAP CA TOPIC PARTITIONS`.

Produces a record to each partition, reads all of them as a group, and prints the records.
"""

import asyncio
import ssl
import sys


def librdkafka(bootstrap: str, ca: str, topic: str, partitions: int) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    settings = {"bootstrap.servers": bootstrap, "security.protocol": "SSL", "ssl.ca.location": ca}
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(partitions):
        producer.produce(topic, b"librdkafka-%d" % number, partition=number)
    producer.commit_transaction(60)
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < partitions:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def kafka_python(bootstrap: str, ca: str, topic: str, partitions: int) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    settings = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_cafile": ca}
    producer = KafkaProducer(**settings)
    for number in range(partitions):
        producer.send(topic, b"kafka-python-%d" % number, partition=number).get(60)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
    found = [next(consumer).value for _ in range(partitions)]
    consumer.close()
    return found


def aiokafka(bootstrap: str, ca: str, topic: str, partitions: int) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def use() -> list[bytes]:
        settings = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SSL",
            "ssl_context": ssl.create_default_context(cafile=ca),
        }
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(partitions):
                await producer.send_and_wait(topic, b"aiokafka-%d" % number, partition=number)
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
        async with consumer:
            return [(await consumer.getone()).value for _ in range(partitions)]

    return asyncio.run(use())


CLIENTS = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    _, client, bootstrap, ca, topic, partitions = sys.argv
    for value in sorted(CLIENTS[client](bootstrap, ca, topic, int(partitions))):
        print(value.decode())
