"""`penstock audit`: records of a real Kafka, judged and counted."""

import json
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import jsonschema_rs
import pytest

from penstock.jobs.report.counts import REASONS_KEPT
from penstock.spark import verdicts
from penstock.spark.jobs.audit import audit
from tests.spark.conftest import BOTH, NO_BAD

SCHEMA = Path(__file__).parents[3] / "docs" / "report.schema.json"


def records(count, bad_every, start_ms):
    """Records whose truth is known; two hours of them."""
    made = []
    for number in range(count):
        bad = bad_every and number % bad_every == 0
        made.append({
            "value": b"%s-%d" % (b"bad" if bad else b"good", number),
            "key": b"shop-%d" % (number % 10) if number % 3 else None,
            "headers": [("source", b"pos")] if number % 2 else None,
            "partition": number % 3,
            "timestamp": start_ms + (3_600_000 if number >= count // 2 else 0),
        })  # fmt: skip
    return made


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("bad_every", "share", "runner"),
    [
        (0, 0, "spark"),
        (20, 0.05, "spark"),
        (1, 1, "spark"),
        (0, 0, "local"),
        (20, 0.05, "local"),
        (1, 1, "local"),
    ],
)
def test_counts_are_the_truth(command, configured, produce, topic, tmp_path, bad_every, share):
    name = topic("audit", 3)
    hour = (int(time.time() * 1000) // 3_600_000 - 3) * 3_600_000
    made = records(3000, bad_every, hour)
    produce(name, made)
    bad = [r for r in made if r["value"].startswith(b"bad")]

    done = command("audit", configured(), "--topic", name, "--report", tmp_path / "r",
                   "--fail-over", "0.05")  # fmt: skip

    assert done.code == (1 if share > 0.05 else 0), done
    report = json.loads((tmp_path / "r" / "report.json").read_text())
    jsonschema_rs.validator_for(json.loads(SCHEMA.read_text())).validate(report)
    assert (report["judged"], report["refused"]) == (3000, len(bad))
    assert report["accepted"] == 3000 - len(bad)
    assert (report["dropped"], report["failed"]) == (0, 0)
    assert report["share"] == pytest.approx(share)
    assert [(r["code"], r["message"], r["count"]) for r in report["reasons"]] == (
        [(87, "bad is not good", len(bad))] if bad else []
    )
    check_partitions(report, made, bad)
    assert sum(h["refused"] for h in report["hours"]) == len(bad)
    assert [h["accepted"] + h["refused"] for h in report["hours"]] == [1500, 1500]
    hints = {h["hint"]: h["count"] for h in report["header_keys"]}
    assert hints == dict(Counter("source" if r["headers"] else "" for r in bad))
    prefixes = {h["hint"]: h["count"] for h in report["key_prefixes"]}
    assert prefixes == dict(Counter("shop" if r["key"] else "(no key)" for r in bad))

    page = (tmp_path / "r" / "report.html").read_text()
    assert "://" not in page
    assert ("bad is not good" in page) == bool(bad)
    assert "good-" not in page
    assert "bad-" not in page
    suite = ElementTree.parse(tmp_path / "r" / "junit.xml").getroot()
    assert suite.get("failures") == ("1" if share > 0.05 else "0")


def check_partitions(report, made, bad):
    by_partition = Counter(r["partition"] for r in bad)
    assert {p["partition"]: p["refused"] for p in report["partitions"]} == {
        p: by_partition[p] for p in range(3)
    }
    for partition in report["partitions"]:
        offsets = [r["value"] for r in made if r["partition"] == partition["partition"]]
        refused = [i for i, v in enumerate(offsets) if v.startswith(b"bad")]
        assert partition["first_refused_offset"] == (refused[0] if refused else None)
        assert partition["last_refused_offset"] == (refused[-1] if refused else None)


def test_payloads_are_shown_on_request(command, configured, produce, topic, tmp_path):
    name = topic("audit")
    produce(name, [{"value": b"bad \xff secret", "key": b"k"}, {"value": b"good"}])
    command("audit", configured(), "--topic", name, "--report", tmp_path, "--show-payloads")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["reasons"][0]["samples"] == [
        {"partition": 0, "offset": 0, "key": "k", "value": "bad \\xff secret"}
    ]


def test_two_plans_in_one_pass(command, configured, produce, topic, tmp_path):
    name = topic("audit")
    produce(name, [{"value": v} for v in [b"bad", b"odd"] * 10 + [b"good"] * 5])
    other = """
from penstock.policy import *
class NoGood(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value in (b"odd", b"good"): raise InvalidRecordException("not odd, not good")
"""
    second = configured({**NO_BAD, "record.validation.policy.class.name": "policies.NoGood"}, other)
    done = command("audit", configured(), "--topic", name, "--compare", second,
                   "--report", tmp_path)  # fmt: skip
    assert "5 newly refused, 10 newly accepted" in done.out
    compared = json.loads((tmp_path / "report.json").read_text())["compared"]
    assert (compared["newly_refused"], compared["newly_accepted"]) == (5, 10)
    assert compared["newly_refused_reasons"][0]["message"] == "not odd, not good"
    assert {(o["this"], o["other"]): o["count"] for o in compared["outcomes"]} == {
        ("refused", "accepted"): 10,
        ("refused", "refused"): 10,
        ("accepted", "refused"): 5,
    }


@pytest.mark.cases(1)
@BOTH
def test_ranges(command, configured, produce, topic):
    name = topic("audit", 2)
    now = int(time.time() * 1000)
    produce(name, [
        {"value": b"bad", "partition": i % 2, "timestamp": now - 3_600_000 * (10 - i)}
        for i in range(10)
    ])  # fmt: skip
    file = configured()

    def judged(*arguments):
        done = command("audit", file, "--topic", name, *arguments)
        assert done.code == 0, done
        return int(done.out.split(" records judged")[0].split(": ")[-1])

    iso = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now / 1000 - 3600 * 4.5))
    assert judged() == 10
    assert judged("--from", "0:3") == 7
    assert judged("--from", "0:3,1:4", "--to", "1:5") == 3
    assert judged("--from", iso) == 4
    assert judged("--to", iso) == 6
    assert judged("--from", "latest") == 0


def test_many_reasons_are_bounded_and_add_up(rows, plan):
    values = [b"odd %d" % i for i in range(6000)] + [b"bad"] * 100 + [b"good"] * 10
    result = audit(rows(*values, partitions=2), plan())
    assert result.judged == 6110
    assert result.outcomes["refused"] == 6100
    assert result.reasons.total() == 6100
    assert len(result.reasons) <= 2 * REASONS_KEPT < 6000
    assert result.reasons.most_common(1)[0][0][1] == 100


MASK = """
from penstock.policies import RedactJsonFields
class Mask(RedactJsonFields):
    topics = "."
    fields = ("card.number", "cards.*.number")
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(("by_rows", "other"), [(False, True), (True, False)])
def test_paths_of_policies_are_counted(rows, plan, monkeypatch, by_rows, other):
    if by_rows:
        monkeypatch.setattr(verdicts, "_ARROW_UDF", None)
    masking = plan({"produce.request.interceptors": "policies.Mask"}, MASK)
    values = [b'{"card":{"number":1}}', b"{}", b"bad"] * 50
    result = audit(rows(*values, partitions=2), masking, other=plan() if other else None)
    found = result.paths.counts()
    assert [(path.path, path.values, path.found) for path in found] == [
        ("card.number", 100, 50), ("cards.*.number", 100, 0),
    ]  # fmt: skip
    assert result.outcomes == {"accepted": 100, "failed": 50}
    assert audit(rows(b"good"), plan()).paths.counts() == []


@pytest.mark.cases(1)
@BOTH
def test_files(command, configured, rows, tmp_path):
    rows(b"good", b"bad").write.parquet(str(tmp_path / "parquet"))
    rows(b"good", b"bad", b"bad").coalesce(1).write.json(str(tmp_path / "json"))
    [lines] = (tmp_path / "json").glob("*.json")
    for path, refused in ((tmp_path / "parquet", 1), (lines, 2)):
        done = command("audit", configured(), "--input", path)
        assert f"{refused} refused" in done.out, done


def test_json_lines_written_by_hand(command, configured, spark, tmp_path):
    from penstock.spark.frames.files import list_files, read_files

    path = tmp_path / "records.jsonl"
    lines = [
        {"key": None, "value": "bad \u00e4", "topic": "t", "partition": 0, "offset": 0,
         "timestamp": "2026-11-21T10:00:00Z", "headers": [{"key": "a", "value": "{}"}]},
        {"value": "good", "key": "k", "topic": "t", "partition": 0, "offset": 1},
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    files = list_files(spark, str(path))
    first, second = read_files(spark, files).orderBy("offset").collect()
    assert (first.key, bytes(first.value)) == (None, "bad \u00e4".encode())
    assert [(h.key, bytes(h.value)) for h in first.headers] == [("a", b"{}")]
    assert (bytes(second.key), second.headers) == (b"k", None)
    done = command("audit", configured(), "--input", path)
    assert "1 accepted, 1 refused" in done.out, done


@BOTH
def test_times_out_of_range_are_counted(command, configured, produce, topic, tmp_path):
    name = topic("audit", **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    now_ms = int(time.time() * 1000)
    produce(name, [
        {"value": b"good", "timestamp": now_ms},
        {"value": b"bad", "timestamp": now_ms * 1000},
        {"value": b"good", "timestamp": now_ms * 1000},
    ])  # fmt: skip
    done = command("audit", configured(), "--topic", name, "--report", tmp_path)
    assert done.code == 0, done
    assert "2 records have a time out of range" in done.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["judged"], len(report["hours"])) == (3, 1)
    assert report["out_of_range"] == {"accepted": 1, "refused": 1, "dropped": 0, "failed": 0}
    assert "perhaps in microseconds" in (tmp_path / "report.html").read_text()


@BOTH
@pytest.mark.slow
def test_worse_than_the_baseline_and_the_trend(command, configured, produce, topic, tmp_path):
    name, file = topic("audit"), configured()
    produce(name, [{"value": v} for v in [b"good"] * 9 + [b"bad"]])
    first, second = tmp_path / "first", tmp_path / "second"
    arguments = ("audit", file, "--topic", name, "--history", tmp_path / "history")
    baseline = ("--baseline", first / "report.json")
    assert command(*arguments, "--report", first).code == 0
    same = command(*arguments, *baseline)
    assert (same.code, "no worse than" in same.out) == (0, True), same
    produce(name, [{"value": b"bad"}] * 10)
    worse = command(*arguments, *baseline, "--report", second)
    assert worse.code == 1, worse
    assert f"{name}: 11 of 20 (55.0000%), before 1 of 10 (10.0000%)" in worse.out
    assert command(*arguments, *baseline, "--tolerance", "45%").code == 0
    assert "The share of records turned away in 3 runs" in (second / "report.html").read_text()
    assert len(list((tmp_path / "history").rglob("*.json"))) == 4


def test_a_time_that_spark_cannot_hold(command, configured, produce, topic):
    name = topic("audit", **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    produce(name, [{"value": b"good", "timestamp": time.time_ns()}])
    done = command("audit", configured(), "--topic", name)
    assert (done.code, "1 records have a time out of range" in done.out) == (0, True), done
