"""Parts of the console's page, and a producer whose records it counts."""

from confluent_kafka import Producer


def produce(running, topic, *values, client="app"):
    producer = Producer({"bootstrap.servers": running.address, "client.id": client})
    for value in values:
        producer.produce(topic, value)
        assert producer.flush(60) == 0


def rows(page, table="#refusal-rows"):
    return page.locator(f"{table} tbody tr")


def is_live(page):
    page.locator("#connection[data-is=live]").wait_for()
