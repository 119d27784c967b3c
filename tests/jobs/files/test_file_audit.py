"""Audits of files: counts, positions of samples, contents if they are requested."""

from penstock.engine.chain import RecordVerdicts
from penstock.engine.path_counts import PathCount
from penstock.engine.verdict import refused
from penstock.jobs.files.file_audit import add_file_payloads, audit_files
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

BAD = refused(87, "bad", "p.NoBad")
HOUR_MS = 3_600_000


class NoBad:
    """Stands for the policies of a plan."""

    def judge_records(self, topic, partition, records):
        bad = [(at, BAD) for at, value in enumerate(records.values) if value == b"bad"]
        return RecordVerdicts(bad, None)

    def take_path_counts(self):
        return [PathCount("mask", "card.number", 3, 0)]


def record(offset, value=b"good", partition=0, topic="t", hour=490_000):
    return RecordRow(topic, partition, offset, hour * HOUR_MS, 0, b"key-1", value,
                      (Header("source", b"pos"),))  # fmt: skip


def audit(*records, evaluators=1):
    read = []
    counts = audit_files(records, [NoBad()] * evaluators, read.append)
    assert sum(read) == len(records)
    return counts


def test_counts_and_hints():
    records = [record(n, b"bad" if n % 5 == 0 else b"good", n % 2) for n in range(100)]
    found = audit(*records, RecordRow(None, None, None, None, None, None, None, ()))
    assert found.judged == 101
    assert found.outcomes == {"accepted": 81, "refused": 20}
    assert dict(found.header_keys.items()) == {"source": 20}
    assert dict(found.key_prefixes.items()) == {"key": 20}


def test_paths_of_policies_are_counted():
    assert audit(record(0)).paths.counts() == [PathCount("mask", "card.number", 3, 0)]


def test_samples_are_the_lowest_offsets_in_any_order():
    found = audit(*(record(n, b"bad") for n in range(100, 0, -1)))
    (samples,) = found.samples.values()
    assert [sample.offset for sample in samples] == [1, 2, 3, 4, 5]


def test_the_lowest_offsets_over_several_parts():
    first = [record(n, b"bad") for n in range(20_000, 9_999, -1)]
    (samples,) = audit(*first, *(record(n, b"bad") for n in range(10))).samples.values()
    assert [sample.offset for sample in samples] == [0, 1, 2, 3, 4]


def test_two_plans():
    found = audit(record(0, b"bad"), record(1), evaluators=2)
    assert found.comparison is not None


def test_contents_of_samples():
    records = [record(n, b"bad") for n in range(3)] + [record(9)]
    found = audit(*records)
    add_file_payloads(records, found, max_bytes=2)
    (samples,) = found.samples.values()
    assert [(sample.offset, sample.key, sample.value) for sample in samples] == [
        (n, b"ke", b"ba") for n in range(3)
    ]
