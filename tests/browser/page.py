"""Parts of the console's page, and a producer whose records it counts."""

from typing import Any

from confluent_kafka import Producer

from tests.gateways import RunningGateway


def produce(running: RunningGateway, topic: str, *values: bytes | str, client: str = "app") -> None:
    producer = Producer({"bootstrap.servers": running.address, "client.id": client})
    for value in values:
        producer.produce(topic, value)
        assert producer.flush(60) == 0


def rows(page: Any, table: str = "#refusal-rows") -> Any:
    return page.locator(f"{table} tbody tr")


def is_live(page: Any) -> None:
    page.locator("#connection[data-is=live]").wait_for()
