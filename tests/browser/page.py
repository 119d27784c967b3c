"""Parts of the console's page, and a producer whose records it counts."""

from typing import Any

from confluent_kafka import Producer

from tests.gateways import RunningGateway


def produce(running: RunningGateway, topic: str, *values: bytes | str, client: str = "app") -> None:
    producer = Producer({"bootstrap.servers": running.address, "client.id": client})
    for value in values:
        producer.produce(topic, value)
        assert producer.flush(60) == 0


def fail(running: RunningGateway, topic: str, value: bytes) -> None:
    """Produce a record for which the policy raises an exception."""
    producer = Producer({"bootstrap.servers": running.address})
    errors: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors[0] is not None


def rows(page: Any, table: str = "#refusal-rows") -> Any:
    return page.locator(f"{table} tbody tr")


def is_live(page: Any) -> None:
    page.locator("#connection[data-is=live]").wait_for()
