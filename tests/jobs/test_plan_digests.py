"""The digest of a topic's plan is that of the wire in all that jobs write about it."""

import pytest

from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.targets import Target
from penstock.jobs.evaluation import Evaluator
from penstock.jobs.plan import load_plan
from penstock.jobs.report.counts import RecordCounts
from penstock.jobs.rows.records import RecordRow
from penstock.jobs.rows.row_jobs import split_rows
from penstock.jobs.subject import subject_of
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.wire.names import NO_ID
from penstock.policy import Record
from tests.gateways import write_configuration
from tests.jobs.batches.memory import LIMIT, rows_of
from tests.jobs.digests import of_wire
from tests.kafka.records.encoding import encode_stored

POLICIES = """
from penstock.policy import InvalidRecordException, RecordValidationPolicy
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        raise InvalidRecordException("bad")
"""
KEYS = {
    "policies": "none,rules",
    "policies.none.type": "nothing.NoBad",
    "policies.rules.type": "penstock.policies.Rules",
    "policies.rules.rules.a": "value.x > 0",
    "topics.orders.penstock.policies": "none,rules",
    "topics.others.penstock.policies": "rules",
}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "nothing.py").write_text(POLICIES)
    return write_configuration(tmp_path, "none:1", 9192, KEYS)


def test_reports(file):
    digests = {topic: of_wire(file, topic) for topic in ("orders", "others")}
    assert len(set(digests.values())) == 2
    about = subject_of(
        "orders,others,free", ["orders", "others", "free"], load_plan(file), seconds=1
    )
    assert about.plans == digests
    assert subject_of("x", ["orders"], load_plan(file, topic="orders"), seconds=1).plans == {
        "orders": digests["orders"]
    }


def test_dead_letters_of_rows(file):
    evaluator = Evaluator(load_plan(file))
    letters = split_rows([RecordRow("orders", 0, 1, 2, 0, b"k", b"v", ())], evaluator)
    [headers] = [dict(letter.row.headers) for letter in letters]
    assert headers["__dlq.plan"].decode() == of_wire(file, "orders")
    evaluator.close()


def test_dead_letters_of_batches(file):
    evaluator = Evaluator(load_plan(file))
    judge = BatchJudge(evaluator.chain("orders"), NO_ID)
    targets = {name: Target(name, 1, LIMIT) for name in ("accepted", "rejected")}
    job = Split(judge, "orders", 0, **targets)
    stored = encode_stored([Record(1, b"k", b"v", ())])
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    [written] = [*job.process(batch, RecordCounts()), *job.rest()]
    [row] = rows_of(written[2])
    assert dict(row.headers)["__dlq.plan"].decode() == of_wire(file, "orders")
    evaluator.close()
