"""Random rows: with and without Spark, commands write the same records with the same headers."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.jobs.files.reading import read_files
from tests.integration.reading import read_topic
from tests.spark.conftest import NO_BAD

SCHEMA = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("timestampType", pa.int32()),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip
VALUES = [b"good", b"bad1", b"bad7", b"odd", b"drop", b"fail", b"raise", b"", None]
REPAIRED = {**NO_BAD, "produce.request.interceptors": "policies.Repair"}
FAR = [b"%d" % far for far in (2**62, -(2**62), 2**63 - 1, -(2**63))]
NUMBERS = [b"0", b"7", b" 3 ", b"-5", b"+2", b"x", b"", b"9" * 18, None]
LETTER = ["__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset",
          "__penstock.timestamp", "__penstock.replays", "__penstock.message", "__dlq.id"]  # fmt: skip


def header(chance):
    name = chance.choice(["own", "own", "", *LETTER])
    if name == "__dlq.errors.topic":
        return {"key": name, "value": chance.choice([b"t", b"other", None])}
    if name == "__penstock.timestamp":
        return {"key": name, "value": chance.choice([*NUMBERS, *FAR])}
    return {"key": name, "value": chance.choice(NUMBERS)}


def row(chance, number, *, is_known):
    known = {
        "topic": chance.choice(["t", "u"]),
        "partition": chance.randrange(5),
        "offset": chance.randrange(2**40),
        "timestamp": chance.randrange(-(10**12), 2 * 10**12) * 1000,
        "timestampType": chance.randrange(2),
    }
    if not is_known:
        known = {name: chance.choice([value, value, None]) for name, value in known.items()}
    return known | {
        "key": b"k%d" % number,
        "value": chance.choice(VALUES),
        "headers": chance.choice([None, [header(chance) for _ in range(chance.randrange(1, 6))]]),
    }


def plain(found):
    """Return a record with its headers as tuples, whose contents are shown."""
    return *found[:-1], *map(tuple, found.headers)


def written(folder):
    """Return the records of a folder by key."""
    return {found.key: found for found in read_files(str(folder))}


def stored(kafka, topic, *, timed):
    found = {}
    for record in read_topic(kafka.bootstrap_servers, topic, full=True):
        headers = record.headers() or []
        time = record.timestamp()[1] if timed else None
        found[record.key()] = record.value(), record.partition(), time, headers
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
def test_folders_are_equal(command, configured, tmp_path, chance, is_known):
    made = [row(chance, number, is_known=is_known) for number in range(3000)]
    pq.write_table(pa.Table.from_pylist(made, SCHEMA), tmp_path / "in.parquet")
    files, places = (configured(), configured(REPAIRED)), {}
    for runner, more in {"spark": (), "local": ("--local",)}.items():
        places[runner] = folder = tmp_path / runner
        outs = [
            command("split", file, "--input", tmp_path / "in.parquet", "--accepted",
                    f"path:{folder}/good{number}", "--rejected", f"path:{folder}/dead{number}",
                    *more)
            for number, file in enumerate(files)
        ]  # fmt: skip
        outs.append(command("redact", files[1], "--input", tmp_path / "in.parquet", "--to",
                            f"path:{folder}/redacted", *more))  # fmt: skip
        for target, file in (("back", files[1]), ("back", files[1]), ("again", files[0])):
            outs.append(command("redrive", file, "--from", f"path:{folder}/dead0", "--to",
                                f"path:{folder}/{target}", "--max-replays", 3, *more))  # fmt: skip
        places[runner, "out"] = [
            (done.code, done.out.replace(str(folder), "").partition(" (")[0]) for done in outs
        ]
    assert places["local", "out"] == places["spark", "out"]
    names = {path.name for path in places["spark"].iterdir()}
    assert names == {path.name for path in places["local"].iterdir()}
    for name in sorted(names):
        ours, theirs = (written(places[runner] / name) for runner in ("local", "spark"))
        assert ours.keys() == theirs.keys(), name
        for key, found in theirs.items():
            assert plain(ours[key]) == plain(found), (name, key)
    assert len(names) == 8


def test_topics_are_equal(command, configured, kafka, topic, tmp_path, chance):
    anything = {"message.timestamp.type": "CreateTime",
                "message.timestamp.after.max.ms": str(2**63 - 1)}  # fmt: skip
    made = [row(chance, number, is_known=False) for number in range(1000)]
    for given in made:
        given["timestamp"] = abs(given["timestamp"] or 5_000)
        given["partition"] = given["partition"] or 0
    pq.write_table(pa.Table.from_pylist(made, SCHEMA), tmp_path / "in.parquet")
    file, found = configured(REPAIRED), {}
    for runner, more in {"spark": (), "local": ("--local",)}.items():
        good, dead = (topic(name, 3, **anything) for name in ("good", "dead"))
        done = command("split", file, "--input", tmp_path / "in.parquet", "--accepted", good,
                       "--rejected", dead, *more)  # fmt: skip
        assert done.code == 0, done
        found[runner] = stored(kafka, good, timed=True), stored(kafka, dead, timed=False)
    for ours, theirs in zip(found["local"], found["spark"], strict=True):
        assert ours.keys() == theirs.keys()
        for key, record in theirs.items():
            assert ours[key] == record
