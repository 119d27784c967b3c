"""The audit trail of gateways, read with Spark as in docs/spark.md."""

import re
from pathlib import Path

import pytest

from penstock.engine.verdict import RecordError, refused, refused_records
from penstock.gateway.observing.audit_trail.file import AuditFile
from penstock.gateway.observing.audit_trail.trail import AuditTrail
from penstock.gateway.refusal_log import Refused

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
ERRORS = [RecordError(n, f"no {n}", "a.V") for n in (3, 5)]
GIVEN = [
    Refused("orders", 0, "shop", refused_records(ERRORS), principal="User:alice",
            address="10.0.0.7", records=9),
    Refused("orders", 1, "shop", refused_records(ERRORS), principal="User:alice",
            address="10.0.0.7", records=4),
    Refused("a topic", None, None, refused(44, None, "a.T")),
]  # fmt: skip


def blocks():
    text = DOCUMENT.read_text().partition("\n### The audit trail\n")[2]
    read, of_topic, figures = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return read, of_topic, figures


@pytest.fixture
def folder(tmp_path):
    """A trail in two files, with one record twice and one left out."""
    path = tmp_path / "audit.jsonl"
    for record in GIVEN:
        trail = AuditTrail(AuditFile(path, path), "gw-1/0.0.0.0:9192")
        trail.put(record)
        trail.close()
    first = path.read_text().splitlines(keepends=True)[0]
    (tmp_path / "audit.jsonl.1").write_text(first + first.replace('"number":1', '"number":3'))
    return tmp_path


def test_files_are_read_as_the_document_says(spark, folder):
    read, _, figures = blocks()
    names = {"spark": spark}
    for block in (read.replace("/var/lib/penstock", str(folder)), figures):
        exec(block, names)

    # One run has the numbers 1 and 3: the record of 1 is in both files.
    assert sorted(row["left_out"] for row in names["gaps"].collect()) == [0, 0, 1]
    first, *_ = names["worst"].collect()
    assert (first["principal"], first["topic"], first["why"]) == ("User:alice", "orders", "no 3")
    assert (first["refusals"], first["records"]) == (3, 22)
    trail = names["trail"]
    assert trail.where("time IS NULL OR run IS NULL").count() == 0
    (created,) = trail.where("subject = 'topic'").collect()
    assert (created["topic"], created["partition"], created["records"]) == ("a topic", None, None)


def test_a_topic_is_read_as_the_document_says(spark, folder):
    read, of_topic, _ = blocks()
    names = {"spark": spark}
    exec(read.replace("/var/lib/penstock", str(folder)), names)
    names["lines"] = spark.read.text(str(folder / "audit.jsonl")).selectExpr(
        "CAST(value AS BINARY) AS value"
    )
    exec(of_topic[of_topic.index("parsed = ") :], names)

    assert names["trail"].count() == 3
    assert {row["outcome"] for row in names["trail"].collect()} == {"refused"}
