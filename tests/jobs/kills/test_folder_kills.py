"""`redrive` from a folder to a folder, killed at random moments: each letter is in one of the two."""

import contextlib
import random
import time

import pytest

from tests.jobs.kills.jobs import Attempt, kill_all, kill_jvm
from tests.limits import HANGS_S
from tests.spark.conftest import NO_BAD
from tests.spark.jobs.record_folders import RecordFolder, read_folder

pytestmark = [pytest.mark.system, pytest.mark.spark_processes]
POLICIES = """
import time
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        time.sleep(0.002)
        if record.value.startswith(b"bad"): raise InvalidRecordException("bad is not good")
"""


def numbers(folder):
    """Return the numbers of the records in a folder."""
    rows = [row for rows in read_folder(folder) for row in rows] if folder.exists() else []
    return sorted(int(row["value"].rpartition(b"-")[2]) for row in rows)


def staged(folder):
    """Return the files that have not appeared yet; a folder of them may disappear now."""
    found = set()
    with contextlib.suppress(FileNotFoundError):
        for path in folder.rglob(".penstock-*/*"):
            found.add(path)
    return found


def attacked(attempt, folder, chance):
    """Kill an attempt: at any time, or when it has begun to write."""
    begun, deadline = staged(folder), time.monotonic() + HANGS_S
    if chance.random() < 0.7:
        while not attempt.has_ended and staged(folder) <= begun:
            assert time.monotonic() < deadline, attempt.text
            time.sleep(0.01)
        time.sleep(chance.choice([0, chance.uniform(0, 0.1), chance.uniform(0, 2)]))
    else:
        time.sleep(chance.uniform(0, 8))
    chance.choice([kill_all, kill_all, kill_jvm])(attempt, chance)
    attempt.wait()


@pytest.mark.parametrize("more", [("--master", "local[2]"), ("--local",)], ids=["spark", "local"])
def test_a_round(round_seed, tmp_path, more):
    chance, place = random.Random(round_seed), tmp_path / "place"
    print(f"--chaos-seed={round_seed}")
    place.mkdir()
    letters = RecordFolder(place, chance, count=2000, are_letters=True)
    (tmp_path / "policies.py").write_text(POLICIES)
    lines = {**NO_BAD, "upstream.bootstrap.servers": "127.0.0.1:9"}
    file = tmp_path / "penstock.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    arguments = ["redrive", str(file), "--from", f"path:{letters.path}", "--to",
                 f"path:{place / 'back'}", "--max-replays", "50", *more]  # fmt: skip
    for number in range(chance.randrange(1, 4)):
        attacked(Attempt(arguments, tmp_path / f"{number}.txt"), place, chance)
    last = Attempt(arguments, tmp_path / "last.txt")
    assert last.wait() == 0, last.text
    good = sorted(record.number for record in letters.records if not record.is_bad)
    bad = sorted(record.number for record in letters.records if record.is_bad)
    assert numbers(place / "back") == good
    assert numbers(letters.path) == bad
