"""Many records at an even pace, by a client of Python: `many.py CLIENT BOOTSTRAP TOPIC COUNT RATE`.

Prints a line for each record that failed, for each fatal error, and finally the number of acknowledged
records.
"""

import asyncio
import sys
import time

SETTINGS = {"linger_ms": 5, "batch_size": 4000}


def pace(began: float, done: int, rate: int) -> None:
    """Sleep if the records are ahead of their rate."""
    ahead = done / rate - (time.monotonic() - began)
    if ahead > 0.002:
        time.sleep(ahead)


def librdkafka(bootstrap: str, topic: str, count: int, rate: int) -> int:
    from confluent_kafka import KafkaError, Producer

    acknowledged = 0

    def report(error, message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            print("failed", message.value().decode(), error.name(), sep="\t")

    def failed(error) -> None:
        if error.code() == KafkaError._FATAL:
            print("fatal", error.str(), sep="\t")

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True,
                         "linger.ms": 5, "batch.size": 4000, "log_level": 0, "error_cb": failed,
                         "reconnect.backoff.max.ms": 500})  # fmt: skip
    began = time.monotonic()
    for number in range(count):
        pace(began, number, rate)
        producer.produce(topic, b"%d" % number, key=b"k%d" % (number % 10), on_delivery=report)
        producer.poll(0)
    producer.flush(120)
    return acknowledged


def kafka_python(bootstrap: str, topic: str, count: int, rate: int) -> int:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, reconnect_backoff_max_ms=500, **SETTINGS)
    began = time.monotonic()
    futures = []
    for number in range(count):
        pace(began, number, rate)
        futures.append(producer.send(topic, b"%d" % number, key=b"k%d" % (number % 10)))
    producer.flush(timeout=120)
    acknowledged = 0
    for number, future in enumerate(futures):
        if future.succeeded():
            acknowledged += 1
        else:
            print("failed", number, type(future.exception).__name__, sep="\t")
    producer.close(timeout=5)
    return acknowledged


async def aiokafka(bootstrap: str, topic: str, count: int, rate: int) -> int:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        linger_ms=5,
        max_batch_size=4000,
        retry_backoff_ms=50,
    )
    await producer.start()
    began = time.monotonic()
    futures = []
    for number in range(count):
        if number % 100 == 0:
            await asyncio.sleep(max(0.0, number / rate - (time.monotonic() - began)))
        futures.append(await producer.send(topic, b"%d" % number, key=b"k%d" % (number % 10)))
    results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 120)
    for number, result in enumerate(results):
        if isinstance(result, BaseException):
            print("failed", number, type(result).__name__, sep="\t")
    await producer.stop()
    return sum(1 for result in results if not isinstance(result, BaseException))


def main() -> None:
    """Run the named client."""
    client, bootstrap, topic = sys.argv[1:4]
    count, rate = map(int, sys.argv[4:])
    produce = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}[client]
    acknowledged = produce(bootstrap, topic, count, rate)
    if asyncio.iscoroutine(acknowledged):
        acknowledged = asyncio.run(acknowledged)
    print("acknowledged", acknowledged, sep="\t")


if __name__ == "__main__":
    main()
