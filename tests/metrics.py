"""Reads the metrics of a gateway from `metrics.listener`, as Prometheus does."""

import http.client
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families


class Metrics:
    """The samples of a scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        """Return the value of a series; None if it does not exist."""
        return self.samples.get((name, frozenset(labels.items())))

    def of(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the values of a metric, by the values of its labels in the order of the text."""
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name
        }

    @property
    def names(self) -> Iterator[str]:
        """Return the names of all samples."""
        return (name for name, _ in self.samples)


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Return status and body of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def scrape(port: int) -> Metrics:
    """Return the metrics of a gateway."""
    status, text = get(port, "/metrics")
    assert status == 200, text
    return Metrics(text)
