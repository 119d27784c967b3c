"""`penstock explain`: one record, policy by policy, without Spark."""

import json
import subprocess
import sys

from tests.spark.conftest import NO_BAD, POLICIES

CHAIN = {
    **NO_BAD,
    "produce.request.interceptors": "policies.Repair",
    "record.validator.classes": "policies.Keyed",
}
KEYED = """
class Keyed(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if key is None: return InvalidRecordException("a key is required")
"""


def test_a_value_and_the_result_of_each_policy(command, configured):
    file = configured(CHAIN, POLICIES + KEYED)
    done = command("explain", file, "--topic", "t", "--value", "bad7", "--key", "k", "--header",
                   "a=b", "--show-payloads")  # fmt: skip
    assert done.code == 1
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[0] == "--value: refused"
    assert lines[1].endswith(".Repair: left as it is")
    assert lines[2] == "saw key=b'k' value=b'bad7' headers=[a=b'b']"
    assert lines[3].endswith(".Keyed: accepted")
    assert lines[5].endswith(".NoBad: refused with 87: bad is not good")
    hidden = command("explain", file, "--topic", "t", "--value", "bad7", "--key", "k")
    assert "bad7" not in hidden.out


def test_records_of_a_file(command, configured, tmp_path):
    lines = [
        {"value": "bad1", "key": "k"},
        {"value_base64": "YmFkNw==", "key": ""},
        {"value": {"any": "json"}},
        {"value": "drop", "key": "k", "headers": [{"key": "a", "value": None}]},
    ]
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = command("explain", configured(CHAIN, POLICIES + KEYED), "--topic", "t", "--input", path)
    outcomes = [line.rsplit(": ")[-1] for line in done.out.splitlines() if line[0] != " "]
    assert outcomes == ["accepted", "refused", "refused", "dropped"]
    assert "replaced value" in done.out
    path.write_text('{"value": "x"}\n{"valu": 1}\n')
    wrong = command("explain", configured(), "--topic", "t", "--input", path)
    assert (wrong.code, f"{path}:2" in wrong.err) == (2, True)


def test_a_record_of_the_cluster(command, configured, produce, topic):
    name = topic("in", 2)
    produce(name, [{"value": v, "partition": 1} for v in (b"good", b"bad")])
    file = configured()
    assert command("explain", file, "--topic", name, "--offset", "1:0").code == 0
    done = command("explain", file, "--topic", name, "--offset", "1:1")
    assert (done.code, "bad is not good" in done.out) == (1, True)
    assert f"topic {name}, topic id " in done.err
    missing = command("explain", file, "--topic", name, "--offset", "1:9")
    assert (missing.code, "from 0 up to 2" in missing.err) == (2, True)


def test_it_needs_no_spark(configured):
    file = configured()
    code = "import sys; sys.modules['pyspark'] = None; from penstock.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", str(file), "--topic", "t", "--value", "bad"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "bad is not good" in done.stdout, done.stderr
