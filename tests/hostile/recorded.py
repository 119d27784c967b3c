"""Requests of other projects' clients: librdkafka, kafka-python, and Java."""

import contextlib
import uuid

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaProducer

from penstock.kafka.local import run_tool
from tests.conftest import create_topic
from tests.gateways import RunningGateway
from tests.hostile.inputs import Base, base_of
from tests.relay import Relay

HOST = "127.0.0.2"
PORTS = 3


def recorded(gateway: RunningGateway) -> list[Base]:
    """Let clients use a gateway that advertises `HOST`; return a request of each kind."""
    port = int(gateway.address.rpartition(":")[2])
    with Relay(range(port, port + PORTS)) as relay:
        address, name = f"{HOST}:{port}", f"recorded-{uuid.uuid4().hex[:8]}"
        _librdkafka(address, name)
        _kafka_python(address, name)
        _java(address, name)
        frames = [frame for data in relay.requests for frame in _frames(bytes(data))]
    found = {(frame[4:8], len(frame)): frame for frame in frames}
    return [base_of(frame) for frame in found.values()]


def _frames(data: bytes) -> list[bytes]:
    frames, position = [], 0
    while position + 4 <= len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end <= len(data):
            frames.append(data[position:end])
        position = end
    return frames


def _librdkafka(address: str, name: str) -> None:
    common = {"bootstrap.servers": address, "log_level": 0}
    admin = AdminClient(common)
    create_topic(admin, name, 2)
    entry = ConfigEntry("retention.ms", "99999999", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin.describe_configs([resource])[resource].result(60)
    admin.incremental_alter_configs([resource])[resource].result(60)
    for more in ({}, {"enable.idempotence": True, "compression.type": "zstd"}):
        producer = Producer({**common, **more})
        for number in range(20):
            producer.produce(name, b"value %d" % number, b"key", headers={"h": b"1"})
        producer.flush(60)
    producer = Producer({**common, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(name, b"value")
    producer.commit_transaction(60)
    consumer = Consumer({**common, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    for _ in range(10):
        if consumer.poll(1) is not None:
            break
    with contextlib.suppress(KafkaException):
        consumer.commit(asynchronous=False)
    consumer.close()


def _kafka_python(address: str, name: str) -> None:
    producer = KafkaProducer(bootstrap_servers=address)
    producer.send(name, b"value").get(60)
    producer.close()


def _java(address: str, name: str) -> None:
    at = ("--bootstrap-server", address)
    run_tool("kafka-topics", *at, "--topic", name, "--describe")
    run_tool(
        "kafka-configs", *at, "--topic", name, "--alter", "--add-config", "retention.ms=99999999"
    )
    run_tool("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", name, text_in="one\ntwo\n")
