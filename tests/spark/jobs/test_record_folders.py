"""Each job over random folders: every record is in one place, as it was, and in its order."""

import shutil
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from penstock.engine.modes.dead_letters import own_headers
from penstock.policy import Header
from tests.integration.reading import read_topic
from tests.spark.conftest import BOTH
from tests.spark.jobs.record_folders import RecordFolder, read_folder

RETURNED = {"__penstock.replays", "__penstock.timestamp"}
SOME, MANY = range(8), range(200)


class Target:
    """A topic or a folder, and what was written to it."""

    def __init__(self, kafka, topic, path, chance):
        self._kafka = kafka
        self.is_topic = chance.random() < 0.5
        self.place = topic(path.name, chance.choice([1, 3])) if self.is_topic else path
        self.option = self.place if self.is_topic else f"path:{self.place}"

    def check(self, expected, *, is_letters=False):
        """Compare it with the records that it should have, by their numbers."""
        runs = self._of_topic() if self.is_topic else self._of_folder()
        numbers = Counter(number for run in runs for number, _ in run)
        assert numbers == Counter(expected.keys())
        for run in runs:
            last = {}
            for number, (key, value, partition, headers, time) in run:
                record = expected[number]
                assert (key, value) == (record.key, record.value)
                assert own_headers([Header(*header) for header in headers]) == record.headers
                assert is_letters or time == record.timestamp
                assert self.is_topic or partition == record.partition
                of = record.topic, record.partition
                assert last.get(of, -1) < record.offset, "a step back"
                last[of] = record.offset

    def _of_topic(self):
        runs = {}
        for found in read_topic(self._kafka.bootstrap_servers, self.place, full=True):
            fields = (found.key(), found.value(), found.partition(), tuple(found.headers() or ()),
                      found.timestamp()[1])  # fmt: skip
            run = runs.setdefault(found.partition(), [])
            run.append((int(found.value().rpartition(b"-")[2]), fields))
        return list(runs.values())

    def _of_folder(self):
        return [[numbered(row) for row in rows] for rows in read_folder(self.place)]


def numbered(row):
    """Return the number of a record, and what is compared of its row."""
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    fields = row["key"], row["value"], row["partition"], headers, row["timestamp"] // 1000
    return int(row["value"].rpartition(b"-")[2]), fields


class Jobs:
    """The jobs over a random folder."""

    def __init__(self, command, configured, kafka, topic, place, chance):
        self._command, self._configured = command, configured
        self._kafka, self._topic, self._place, self._chance = kafka, topic, place, chance
        self._fill(RecordFolder(place, chance))

    def _fill(self, folder):
        self.folder = folder
        self.all = {record.number: record for record in self.folder.records}
        self.good = {n: record for n, record in self.all.items() if not record.is_bad}
        self.bad = {n: record for n, record in self.all.items() if record.is_bad}

    def audit(self):
        before = self.folder.files()
        done = self._command("audit", self._configured(), "--input", self.folder.path)
        assert done.code == 0, done
        assert f": {len(self.all):,} records judged: {len(self.good):,} accepted, " in done.out
        assert self.folder.files() == before

    def split(self):
        good, dead = self._target("good"), self._target("dead")
        before = self.folder.files()
        done = self._command("split", self._configured(), "--input", self.folder.path,
                             "--accepted", good.option, "--rejected", dead.option)  # fmt: skip
        assert done.code == 0, done
        good.check(self.good)
        dead.check(self.bad, is_letters=True)
        assert self.folder.files() == before

    def redact(self):
        target, before = self._target("redacted"), self.folder.files()
        file = self._configured({"produce.request.interceptors": "policies.RepairAll"})
        done = self._command("redact", file, "--input", self.folder.path, "--to", target.option)
        assert done.code == 0, done
        target.check({
            number: record._replace(value=record.value.replace(b"bad", b"good"))
            for number, record in self.all.items()
        })  # fmt: skip
        assert self.folder.files() == before

    def redrive(self):
        shutil.rmtree(self.folder.path)
        shutil.rmtree(self._place / "elsewhere", ignore_errors=True)
        self._fill(RecordFolder(self._place, self._chance, are_letters=True))
        back, before = self._target("back"), self.folder.files()
        is_last = self._chance.random() < 0.3
        arguments = ("redrive", self._configured(), "--from", f"path:{self.folder.path}", "--to",
                     back.option, "--topic", "t,u", "--max-replays", 1 if is_last else 5)  # fmt: skip
        counts = {"returned": len(self.good), "again": 0, "parked": 0, "dropped": 0}
        counts["parked" if is_last else "again"] = len(self.bad)
        expected = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        done = self._command(*arguments, "--dry-run")
        assert (done.code, expected in done.out) == (0, True), done
        assert self.folder.files() == before
        done = self._command(*arguments)
        assert (done.code, expected in done.out) == (0, True), done
        back.check(self.good)
        waiting = Target.__new__(Target)
        waiting.is_topic, waiting.place = False, self.folder.path
        if is_last:
            assert not list(chain(*read_folder(self.folder.path)))
            waiting.place = self.folder.path.with_name(f"{self.folder.path.name}.parked")
        waiting.check(self.bad, is_letters=True)
        hidden = {name for name in before if Path(name).name[0] in "._"}
        assert hidden - {"_SUCCESS"} <= self.folder.files()
        again = self._command(*arguments)
        assert (again.code, "0 returned" in again.out) == (0, True), again

    def _target(self, name):
        return Target(self._kafka, self._topic, self._place / name, self._chance)


@pytest.fixture
def jobs(command, configured, kafka, topic, tmp_path, chance):
    place = tmp_path / "place"
    place.mkdir()
    return Jobs(command, configured, kafka, topic, place, chance)


@BOTH
@pytest.mark.slow
@pytest.mark.parametrize("number", SOME)
@pytest.mark.parametrize("job", ["audit", "split", "redact", "redrive"])
def test_some_folders(jobs, job, number):
    getattr(jobs, job)()


@BOTH
@pytest.mark.spark_processes
@pytest.mark.parametrize("number", MANY)
def test_many_folders(jobs, number, chance):
    jobs.audit()
    chance.choice([jobs.split, jobs.redact, jobs.redrive])()
