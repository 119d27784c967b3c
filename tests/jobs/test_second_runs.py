"""The table of docs/pipeline.md about second runs: each of its rows is kept."""

from pathlib import Path

import pytest

from tests.integration.reading import read_topic, values_of
from tests.spark.conftest import BOTH, NO_BAD

TESTS = Path(__file__).parents[1]
MASKS = {**NO_BAD, "produce.request.interceptors": "policies.Repair"}
SENT = [{"value": b"bad%d" % n if n % 5 == 0 else b"good%d" % n} for n in range(50)]
ROWS = {
    "`audit`": "jobs/test_second_runs.py::test_an_audit_writes_nothing_and_counts_the_same",
    "`split`, `redact` to topics": "jobs/test_writing.py::test_the_same_command_writes_nothing_twice",
    "`split` to folders": "spark/jobs/test_split.py::test_to_folders",
    "`split` to [Delta and Iceberg tables](spark.md#tables)": "spark_tables/scenario.py::batches",
    "`split` to a topic and a folder or table": (
        "jobs/test_second_runs.py::test_a_split_to_a_folder_and_a_topic_writes_the_same_again"
    ),
    "`redrive`": (
        "spark/jobs/test_redrive.py::test_accepted_letters_return_once_and_the_rest_waits_for_a_better_repair"
    ),
}


@pytest.mark.unit
def test_each_row_has_a_test():
    text = (TESTS.parent / "docs" / "pipeline.md").read_text()
    table = text.partition("## Second runs")[2].partition("\n### ")[0]
    rows = [
        line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line[:3] == "| `"
    ]
    assert rows == list(ROWS)
    for place in ROWS.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text()


def committed(kafka, *topics):
    """Return the committed values of topics, sorted."""
    found = (
        read_topic(kafka.bootstrap_servers, name, isolation="read_committed") for name in topics
    )
    return sorted(value for of_topic in found for value in values_of(of_topic))


@BOTH
def test_an_audit_writes_nothing_and_counts_the_same(command, configured, produce, topic, admin):
    source = topic("in", 2)
    produce(source, SENT)
    file, topics = configured(), set(admin.list_topics(timeout=60).topics)
    first, second = (command("audit", file, "--topic", source) for _ in range(2))
    assert "50 records judged: 40 accepted, 10 refused" in first.out
    assert second.out == first.out
    assert set(admin.list_topics(timeout=60).topics) == topics


@pytest.mark.cases(1)
@BOTH
def test_a_redaction_writes_new_records_and_with_again_all_records(
    command, configured, produce, topic, kafka
):
    source, target = topic("in", 2), topic("to", 2)
    redact = ("redact", configured(MASKS), "--topic", source, "--to", target)
    produce(source, SENT[:40])
    assert "40 accepted" in command(*redact).out
    produce(source, SENT[40:])
    second = command(*redact)
    assert "an earlier run has done 40 offsets" in second.out
    assert "10 accepted" in second.out
    once = committed(kafka, target)
    assert len(once) == len(set(once)) == 50
    assert "50 accepted" in command(*redact, "--again").out
    assert committed(kafka, target) == sorted(once * 2)


@pytest.mark.slow
def test_a_split_to_a_folder_and_a_topic_writes_the_same_again(
    command, configured, produce, topic, kafka, spark, tmp_path
):
    source, good = topic("in", 2), topic("good", 2)
    produce(source, SENT)
    for run in (1, 2):
        folder = tmp_path / f"dead-{run}"
        done = command("split", configured(), "--topic", source, "--accepted", good,
                       "--rejected", f"path:{folder}")  # fmt: skip
        assert "40 accepted, 10 refused" in done.out
        assert "run again, this appends the same records to topics again" in done.out
        assert spark.read.parquet(str(folder)).count() == 10
        assert len(committed(kafka, good)) == 40 * run
