"""librdkafka, kcat, kafka-python and aiokafka through the gateway."""

import asyncio
import contextlib
import shutil
import subprocess

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.integration.reading import read_topic, values_of
from tests.interop.conftest import REASON

# librdkafka


def librdkafka_produce(address: str, topic: str, *values: bytes, **settings) -> dict:
    # One batch, whatever holds this thread up: `flush` sends it.
    producer = Producer({"bootstrap.servers": address, "linger.ms": 60_000, **settings})
    results = {}
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda e, m: results.__setitem__(m.value(), e and e.code())
        )
    assert producer.flush(60) == 0
    return results


def test_librdkafka_names_several_bad_records(judged, topic, stored):
    name = topic()

    results = librdkafka_produce(judged.address, name, b"bad-1", b"good-2", b"bad-3")

    assert results == {
        b"bad-1": KafkaError.INVALID_RECORD,
        b"good-2": KafkaError._INVALID_DIFFERENT_RECORD,
        b"bad-3": KafkaError.INVALID_RECORD,
    }
    assert stored(name) == []


def test_librdkafka_fails_the_whole_batch_for_a_single_bad_record(judged, topic):
    results = librdkafka_produce(judged.address, topic(), b"bad-1", b"good-2")

    assert set(results.values()) == {KafkaError.INVALID_RECORD}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_compresses_through_the_gateway(judged, topic, stored, codec, kafka):
    name = topic()
    good = [b"good-%03d" % i + bytes(200) for i in range(100)]

    results = librdkafka_produce(judged.address, name, *good, **{"compression.type": codec})

    assert set(results.values()) == {None}
    assert values_of(stored(name)) == good


def test_librdkafka_fails_only_the_bad_batch_of_many_in_flight(judged, topic, stored):
    name = topic()
    outcomes: list[tuple[bytes, int | None]] = []
    producer = Producer(
        {
            "bootstrap.servers": judged.address,
            "enable.idempotence": True,
            "batch.num.messages": 10,
            "linger.ms": 0,
        }
    )
    for number in range(1000):
        value = b"%s-%04d" % (b"bad" if number == 505 else b"good", number)
        producer.produce(
            name,
            value,
            partition=0,
            on_delivery=lambda e, m: outcomes.append((m.value(), e and e.code())),
        )
    assert producer.flush(60) == 0

    kept = sorted(value for value, code in outcomes if code is None)
    refused = {value: code for value, code in outcomes if code is not None}
    assert set(refused.values()) == {KafkaError.INVALID_RECORD}
    assert b"bad-0505" in refused
    assert len(refused) <= 10
    assert values_of(stored(name)) == kept


def librdkafka_transactions(address: str, topic: str) -> list[str]:
    """Run transactions, some with a record without a key; return the result of each."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    outcomes = []
    for keys in (["1", None], ["2"], [None], ["3", "4"], ["5"]):
        for _ in range(4):
            producer.begin_transaction()
            for key in keys:
                with contextlib.suppress(KafkaException):  # once the transaction has failed
                    producer.produce(topic, f"value-{key}", key)
                producer.flush(30)
            try:
                producer.commit_transaction(60)
                outcomes.append(f"{keys} committed")
                break
            except KafkaException as error:
                outcomes.append(f"{keys} {error.args[0].name()}")
                assert error.args[0].txn_requires_abort()
                producer.abort_transaction(30)
                if None in keys:
                    break
    return outcomes


@pytest.mark.slow
def test_librdkafka_transactions_continue_as_after_a_refusal_of_a_broker(gateway, topic, kafka):
    """A broker refuses records without a key for a compacted topic; so does a policy."""
    policies = (
        "from penstock.policy import *\n"
        "class KeyRequired(BrokerRecordValidator):\n"
        "    def validate_record(self, topic_partition, key, value, headers):\n"
        "        if key is None: return InvalidRecordException('no key')\n"
    )
    running = gateway({"record.validator.classes": "policies.KeyRequired"}, policies)
    compacted, name = topic(**{"cleanup.policy": "compact"}), topic()

    direct = librdkafka_transactions(kafka.bootstrap_servers, compacted)
    through = librdkafka_transactions(running.address, name)

    assert through == direct
    for source in (compacted, name):
        committed = read_topic(kafka.bootstrap_servers, source, isolation="read_committed")
        assert values_of(committed) == [b"value-2", b"value-3", b"value-4", b"value-5"]


def test_librdkafka_consumer_groups_work(judged, topic):
    name = topic()
    librdkafka_produce(judged.address, name, b"good-1", b"good-2")
    for _ in range(2):  # the second time from the committed offset
        consumer = Consumer(
            {
                "bootstrap.servers": judged.address,
                "group.id": name,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([name])
        seen = []
        while not seen or seen[-1] != b"good-2":
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            seen.append(message.value())
            if seen == [b"good-1"]:
                consumer.commit(message, asynchronous=False)
                break
        consumer.close()
    assert seen == [b"good-2"]


# kcat


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (a Debian package)")
def test_kcat_produces_and_consumes(judged, topic, stored):
    name = topic()

    def kcat(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kcat", "-b", judged.address, "-t", name, *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    good = kcat("-P", stdin="good-1\ngood-2\n")
    bad = kcat("-P", stdin="bad-3\n")
    consumed = kcat("-C", "-e", "-q")

    assert good.returncode == 0
    assert "Broker: Broker failed to validate record" in bad.stderr
    assert consumed.stdout == "good-1\ngood-2\n"
    assert values_of(stored(name)) == [b"good-1", b"good-2"]


# kafka-python 3


@pytest.mark.parametrize("idempotent", [True, False])
def test_kafka_python_produces_and_consumes(judged, topic, stored, idempotent):
    name = topic()
    producer = KafkaProducer(
        bootstrap_servers=judged.address, enable_idempotence=idempotent, linger_ms=60_000
    )
    first = [producer.send(name, value) for value in (b"good-1", b"good-2")]
    producer.flush()
    second = [producer.send(name, value) for value in (b"bad-3", b"good-4")]
    producer.flush()

    assert [future.get(60).offset for future in first] == [0, 1]
    errors = []
    for future in second:
        with pytest.raises(PythonKafkaError) as raised:
            future.get(60)
        errors.append(f"{type(raised.value).__name__}: {raised.value}")
    assert "InvalidRecordError" in errors[0]
    assert REASON in errors[0]
    if idempotent:
        # Its own limit: after any refusal without a transaction, the producer is done for.
        with pytest.raises(PythonKafkaError):
            producer.send(name, b"good-5").get(60)
    else:
        third = producer.send(name, b"good-5")
        producer.flush()
        assert third.get(60).offset == 2
    producer.close()
    consumer = KafkaConsumer(
        name,
        bootstrap_servers=judged.address,
        group_id=name,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    count = 2 if idempotent else 3
    seen = [message.value for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    assert seen == values_of(stored(name))


# aiokafka


@pytest.mark.parametrize("idempotent", [True, False])
async def test_aiokafka_produces_and_consumes(judged, topic, stored, idempotent):
    name = topic()
    producer = AIOKafkaProducer(
        bootstrap_servers=judged.address, enable_idempotence=idempotent, request_timeout_ms=15_000
    )
    await producer.start()
    try:
        await producer.send_and_wait(name, b"good-1")
        with pytest.raises(AioKafkaError) as raised:
            await producer.send_and_wait(name, b"bad-2")
        # It knows no error 87, and drops the texts.
        assert type(raised.value).__name__ == "UnknownError"
        if not idempotent:
            await producer.send_and_wait(name, b"good-3")
    finally:
        if idempotent:
            # Its own limit: sequence numbers continue as if the refused batch had been stored.
            with pytest.raises(AioKafkaError):
                await asyncio.wait_for(producer.send_and_wait(name, b"good-3"), 60)
        await asyncio.wait_for(producer.stop(), 30)
    consumer = AIOKafkaConsumer(
        name, bootstrap_servers=judged.address, group_id=name, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        expected = values_of(stored(name))
        seen = [(await asyncio.wait_for(anext(consumer), 60)).value for _ in expected]
        await consumer.commit()
    finally:
        await consumer.stop()
    assert seen == expected
    assert expected == ([b"good-1"] if idempotent else [b"good-1", b"good-3"])


async def test_aiokafka_transactions_commit_and_abort(judged, topic, kafka):
    name = topic()
    producer = AIOKafkaProducer(bootstrap_servers=judged.address, transactional_id=name)
    await producer.start()
    with pytest.raises(AioKafkaError):
        async with producer.transaction():
            await producer.send_and_wait(name, b"bad-1")
    await producer.stop()
    producer = AIOKafkaProducer(bootstrap_servers=judged.address, transactional_id=name)
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait(name, b"good-2")
    await producer.stop()

    committed = read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    assert values_of(committed) == [b"good-2"]
