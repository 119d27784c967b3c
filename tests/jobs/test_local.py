"""`--local`: without Spark, Java, PySpark and pyarrow; unsupported arguments are errors."""

import gc
import json
import re
import subprocess
import sys

import pytest

from penstock.cli.jobs import local_rows
from tests.integration.reading import read_topic, values_of

WITHOUT = """
import sys
for name in ("pyspark", "py4j", "pyarrow", "pandas"):
    sys.modules[name] = None
from penstock import cli
sys.exit(cli.main(sys.argv[1:]))
"""
REPAIR = "produce.request.interceptors"


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, arguments), "--local"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert "Traceback" not in done.stderr
    return done


def test_every_command_without_spark(configured, produce, topic, kafka, tmp_path):
    source, good, dead = topic("in", 3), topic("good", 2), topic("dead", 2)
    produce(source, [{"value": b"bad%d" % n if n % 5 == 2 else b"good"} for n in range(100)])
    file = configured()

    done = run("audit", file, "--topic", source, "--report", tmp_path / "r", "--fail-over", "10%")
    assert done.returncode == 1, done
    report = json.loads((tmp_path / "r" / "report.json").read_text())
    assert (report["judged"], report["accepted"], report["refused"]) == (100, 80, 20)
    assert (tmp_path / "r" / "report.html").stat().st_size > 1000

    done = run("split", file, "--topic", source, "--accepted", good, "--rejected", dead)
    assert (done.returncode, "80 accepted, 20 refused" in done.stdout) == (0, True), done

    module = next(path.stem for path in file.parent.glob("policies_*.py"))
    redrive = ("redrive", file, "--from", dead, "--to", good, "--topic", source, "--with",
               f"{module}.Repair")  # fmt: skip
    assert (
        "10 returned, 10 again, 0 parked, 0 dropped (dry run)" in run(*redrive, "--dry-run").stdout
    )
    assert "10 returned, 10 again" in run(*redrive).stdout
    assert "0 returned, 10 again" in run(*redrive).stdout
    assert len(read_topic(kafka.bootstrap_servers, good, isolation="read_committed")) == 90

    done = run(*redrive[:-1], "nowhere.Repair")
    assert done.returncode == 2
    assert "penstock redrive: --with nowhere.Repair: " in done.stderr

    masks, target = configured({REPAIR: "policies.Repair"}), topic("to", 3)
    done = run("redact", masks, "--topic", source, "--to", target)
    assert (done.returncode, "100 accepted" in done.stdout) == (0, True), done
    written = values_of(read_topic(kafka.bootstrap_servers, target, isolation="read_committed"))
    assert sum(value.startswith(b"good") for value in written) == 90


LOUD = """
from penstock.policy import ProduceRequestInterceptor, ProduceRequestInterceptorResult
print("imported")
class Loud(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_record(self, key, value, topic, partition, headers):
        print("intercepted")
        return ProduceRequestInterceptorResult(key, value)
    def close(self): print("closed")
"""


def test_output_of_policies_goes_to_standard_error(configured, produce, topic):
    source, target = topic("in"), topic("to")
    produce(source, [{"value": b"a"}])
    file = configured({REPAIR: "policies.Loud"}, LOUD)
    done = run("redact", file, "--topic", source, "--to", target)
    assert done.returncode == 0, done
    counts, plan = done.stdout.splitlines()
    assert counts == f"{source}: 1 accepted, 0 refused, 0 dropped, 0 failed; accepted in {target}"
    assert re.fullmatch("plan [0-9a-f]{12}", plan)
    assert {"imported", "intercepted", "closed"} <= set(done.stderr.splitlines())


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topic", "t", "--master", "local[2]"), "--master is an option of Spark"),
        (("--topic", "t", "--remote", "sc://a:1"), "--remote is an option of Spark"),
        (("--topic", "t", "--conf", "spark.a=b"), "--conf is an option of Spark"),
        (("--input", "table:t"), "--input table:t needs Spark: leave out --local"),
        (("--input", "x.jsonl", "--column", "value=v"), "--column is an option of Spark"),
    ],
)
def test_arguments_that_need_spark_are_errors(configured, arguments, message):
    done = run("audit", configured(), *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--rejected", "table:d"), "table:d needs Spark: leave out --local"),
        (("--rejected", "path:s3a://b/d"), "path:s3a://b/d needs Spark: leave out --local"),
        (("--rejected", "path:d"), "path:d: Parquet needs pyarrow: pip install pyarrow"),
        (("--rejected", "d", "--streaming"), "--streaming needs Spark: leave out --local"),
    ],
)
def test_a_split_that_needs_more(configured, topic, more, message):
    done = run("split", configured(), "--topic", topic("in"), "--accepted", topic("a"), *more)
    assert (done.returncode, message in done.stderr) == (2, True), done


def test_json_lines_to_topics(configured, topic, kafka, tmp_path):
    lines = tmp_path / "records.jsonl"
    records = [
        {"value": "good", "key": f"k{n}", "partition": n % 3, "topic": "t", "offset": n,
         "timestamp": 1_763_719_200_000 + n, "headers": [{"key": "a\ud800", "value": "1"}]}
        for n in range(30)
    ]  # fmt: skip
    records[4] |= {"value": "bad"}
    lines.write_text("".join(json.dumps(record) + "\n" for record in [*records, {"topic": "t"}]))
    good, dead, file = topic("good", 2), topic("dead"), configured()
    done = run("split", file, "--input", lines, "--accepted", good, "--rejected", dead)
    assert "30 accepted, 1 refused, 0 dropped, 0 failed" in done.stdout, done
    written = read_topic(kafka.bootstrap_servers, good, full=True)
    found = {
        (record.key(), record.partition(), record.timestamp()[1], *(record.headers() or []))
        for record in written
        if record.key()
    }
    assert found == {
        (b"k%d" % n, n % 3 % 2, 1_763_719_200_000 + n, ("a?", b"1")) for n in range(30) if n != 4
    }
    [(_, key, value, headers)] = read_topic(kafka.bootstrap_servers, dead)
    assert (key, value) == (b"k4", b"bad")
    assert dict(headers)["__dlq.errors.offset"] == b"4"

    lines.write_text(lines.read_text() + '{"value": 5}\n')
    done = run("split", file, "--input", lines, "--accepted", good, "--rejected", dead)
    assert (done.returncode, f"{lines}, line 32: value must be a string" in done.stderr) == (
        2, True
    ), done  # fmt: skip
    assert len(read_topic(kafka.bootstrap_servers, good)) == 30


def test_a_policy_that_calls_sys_exit_fails_on_that_record(configured, produce, topic):
    source = topic("in", 1)
    produce(source, [{"value": b"good"}, {"value": b"sys.exit"}])
    done = run("audit", configured(), "--topic", source)
    assert (done.returncode, "1 accepted, 0 refused, 0 dropped, 1 failed" in done.stdout) == (
        0,
        True,
    )


def test_objects_that_others_froze_stay_frozen():
    assert gc.get_freeze_count() > 0, "those that pytest collected"
    with local_rows._few_collections():
        pass
    assert gc.get_freeze_count() > 0
