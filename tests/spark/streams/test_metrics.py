"""The figures of a stream: added up, as metrics in a file, and over HTTP."""

import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.configuration.values import Address
from penstock.jobs.report.counts import Reason, RecordCounts
from penstock.jobs.tasks.writing_task import WritingResult
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.local import free_ports
from penstock.spark.streams.figures import StreamFigures
from penstock.spark.streams.metrics import registry_of, serve_metrics, write_metrics


def result(topic="t", accepted=5, refused=3, left_out=0, removed=0):
    counts = RecordCounts()
    counts.add_outcomes(Partition(topic, 0), {"accepted": accepted, "refused": refused})
    counts.add_removed(Partition(topic, 0), removed)
    if refused:
        counts.reasons.add(Reason(topic, "refused", "p.P", 87, "bad"), refused - left_out)
    counts.reasons.left_out = left_out
    return WritingResult(counts)


@pytest.fixture
def figures():
    found = StreamFigures()
    found.add(result(removed=7), 1.5, 1000.0)
    found.add(result(left_out=1), 0.5, 1010.0)
    found.add(result("u", 1, 0), 0.5, 1020.0)
    found.look({Partition("t", 0): 12, Partition("t", 1): 0}, 2, 1030.0)
    return found


LABELS = ("topic", "partition", "policy", "outcome", "version")


def samples(text):
    return {
        (
            sample.name,
            tuple(sample.labels[key] for key in LABELS if key in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


EXPECTED = {
    ("penstock_records_total", ("t", "", "accepted")): 10,
    ("penstock_records_total", ("t", "p.P", "refused")): 5,
    ("penstock_records_total", ("t", "", "refused")): 1,
    ("penstock_records_total", ("u", "", "accepted")): 1,
    ("penstock_stream_removed_offsets_total", ("t",)): 7,
    ("penstock_stream_lag_records", ("t", "0")): 12,
    ("penstock_stream_lag_records", ("t", "1")): 0,
    ("penstock_stream_batches_total", ()): 3,
    ("penstock_stream_batch_seconds_total", ()): 2.5,
    ("penstock_stream_last_batch_timestamp_seconds", ()): 1020,
    ("penstock_stream_last_look_timestamp_seconds", ()): 1030,
    ("penstock_stream_unavailable_partitions", ()): 2,
}


@pytest.mark.unit
def test_metrics(figures):
    found = samples(generate_latest(registry_of(figures)).decode())
    assert {name: value for name, value in found.items() if name in EXPECTED} == EXPECTED
    others = {name for name, _ in found.keys() - EXPECTED.keys()}
    assert others == {"penstock_build_info"}


@pytest.mark.unit
def test_a_stream_that_has_done_nothing_has_metrics():
    found = samples(generate_latest(registry_of(StreamFigures())).decode())
    assert found["penstock_stream_batches_total", ()] == 0
    assert found["penstock_stream_last_batch_timestamp_seconds", ()] == 0


@pytest.mark.unit
def test_a_file_is_replaced_as_a_whole(figures, tmp_path):
    path = tmp_path / "penstock.prom"
    registry = registry_of(figures)
    write_metrics(registry, path)
    before = path.stat().st_ino
    with path.open() as reading:
        figures.look({}, 0, 1040.0)
        write_metrics(registry, path)
        assert samples(reading.read())["penstock_stream_unavailable_partitions", ()] == 2
    assert path.stat().st_ino != before
    assert list(tmp_path.iterdir()) == [path]
    assert ("penstock_stream_lag_records", ("t", "0")) not in samples(path.read_text())
    with pytest.raises(OSError, match="No such file"):
        write_metrics(registry, tmp_path / "none" / "penstock.prom")


def test_metrics_over_http(figures):
    port = free_ports(1)[0]
    stop = serve_metrics(registry_of(figures), Address("127.0.0.1", port))
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url) as response:
        found = samples(response.read().decode())
    assert found["penstock_records_total", ("t", "p.P", "refused")] == 5
    wanted = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(wanted) as response:
        assert response.read().endswith(b"# EOF\n")
    with pytest.raises(OSError, match="in use"):
        serve_metrics(registry_of(figures), Address("127.0.0.1", port))
    stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
