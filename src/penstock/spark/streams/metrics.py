"""The figures of a stream for Prometheus: in a text file, or at a port.

The counters begin at 0 with each start, as those of any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from penstock import __version__

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.metrics_core import Metric

    from penstock.configuration.values import Address
    from penstock.spark.streams.figures import StreamFigures


class StreamCollector(Collector):
    """Makes metrics of figures whenever they are read."""

    def __init__(self, figures: StreamFigures) -> None:
        """Take the figures."""
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        figures = self._figures
        with figures.lock:
            yield from (
                self._records(),
                self._removed(),
                self._behind(),
                _counter("stream_batches", "Micro-batches that are done.", figures.batches),
                _counter("stream_batch_seconds", "Seconds in micro-batches.", figures.seconds),
                _gauge(
                    "stream_last_batch_timestamp_seconds",
                    "When the last micro-batch was done.",
                    figures.last_at,
                ),
                _gauge(
                    "stream_last_look_timestamp_seconds",
                    "When the cluster last responded to a request for new records.",
                    figures.looked_at,
                ),
                _gauge(
                    "stream_unavailable_partitions",
                    "Partitions that could not be read.",
                    figures.unavailable,
                ),
            )
        build = GaugeMetricFamily("penstock_build_info", "Penstock.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build

    def _records(self) -> Metric:
        family = CounterMetricFamily(
            "penstock_records",
            "Records that were judged, by what became of them.",
            labels=["topic", "policy", "outcome"],
        )
        for labels, count in sorted(self._figures.records.items()):
            family.add_metric(labels, count)
        return family

    def _removed(self) -> Metric:
        family = CounterMetricFamily(
            "penstock_stream_removed_offsets",
            "Offsets that retention removed before they were read.",
            labels=["topic"],
        )
        for topic, count in sorted(self._figures.removed.items()):
            family.add_metric([topic], count)
        return family

    def _behind(self) -> Metric:
        family = GaugeMetricFamily(
            "penstock_stream_lag_records",
            "How many offsets the stream is behind the end of a partition.",
            labels=["topic", "partition"],
        )
        for (topic, number), count in sorted(self._figures.behind.items()):
            family.add_metric([topic, str(number)], count)
        return family


def registry_of(figures: StreamFigures) -> CollectorRegistry:
    """Return a registry with the metrics of a stream, and no others."""
    registry = CollectorRegistry()
    registry.register(StreamCollector(figures))
    return registry


def write_metrics(registry: CollectorRegistry, path: Path) -> None:
    """Write metrics for node_exporter's textfile collector; readers see a complete file.

    Raises:
        OSError: It cannot be written.
    """
    write_to_textfile(str(path), registry)


def serve_metrics(registry: CollectorRegistry, address: Address) -> Callable[[], None]:
    """Serve metrics over HTTP until the returned function is called.

    Raises:
        OSError: The address is not free.
    """
    server: WSGIServer
    thread: threading.Thread
    server, thread = start_http_server(address.port, address.host, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(f"penstock_{name}", meaning, value=value)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"penstock_{name}", meaning, value=value)
