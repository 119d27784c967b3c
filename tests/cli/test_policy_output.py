"""What policies print in the process of a command: on standard error, not among the results."""

import json
import os
import re

import pytest

from penstock.cli import main
from penstock.cli.output.policy_output import policies_run
from tests.gateways import run_penstock

pytestmark = pytest.mark.system

POLICY = """
from penstock.policy import ProduceRequestInterceptor, ProduceRequestInterceptorResult
print("imported")
class Loud:
    def configure(self, configs):
        print("configured")
    def validate(self, topic, record):
        print("judged")
    def close(self):
        print("closed")

class LoudInterceptor(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return ""
    def process_record(self, key, value, topic, partition, headers):
        print("intercepted")
        return ProduceRequestInterceptorResult(key, value)
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / f"loud_{tmp_path.name}.py".replace("-", "_")).write_text(POLICY)
    module = f"loud_{tmp_path.name}".replace("-", "_")
    written = tmp_path / "penstock.properties"
    written.write_text(
        "upstream.bootstrap.servers=none:1\n"
        f"record.validation.policy.class.name={module}.Loud\n"
        f"produce.request.interceptors={module}.LoudInterceptor\n"
        "topics.*.record.validation.policy=x\n"
    )
    return written


def test_an_audit_without_spark(file, tmp_path, capsys):
    records = tmp_path / "records.jsonl"
    fields = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 1, "key": None, "value": "v!"}
    records.write_text(json.dumps(fields) + "\n")

    assert main(["audit", str(file), "--input", str(records), "--local"]) == 0

    shown, others = capsys.readouterr()
    counts, plan = shown.splitlines()
    assert counts == f"{records}: 1 records judged: 1 accepted, 0 refused, 0 dropped, 0 failed"
    assert re.fullmatch("plan [0-9a-f]{12}", plan)
    printed = {"imported", "configured", "intercepted", "judged", "closed"}
    assert printed <= set(others.splitlines())


PROCESS = """
import os, subprocess
class Loud:
    def configure(self, configs):
        subprocess.run(["echo", "configured"], check=True)
    def validate(self, topic, record):
        os.write(1, b"judged\\n")
    def close(self):
        subprocess.run(["echo", "closed"], check=True)
"""


@pytest.mark.parametrize("command", ["audit", "explain"])
def test_results_are_without_the_output_of_processes_of_policies(tmp_path, command):
    (tmp_path / "loud_process.py").write_text(PROCESS)
    file, records = tmp_path / "penstock.properties", tmp_path / "records.jsonl"
    file.write_text(
        "upstream.bootstrap.servers=none:1\n"
        "record.validation.policy.class.name=loud_process.Loud\n"
        "topics.*.record.validation.policy=x\n"
    )
    fields = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 1, "key": None, "value": "v!"}
    records.write_text(json.dumps(fields) + "\n")
    options = {
        "audit": ["--local", "--input", records],
        "explain": ["--topic", "t", "--value", "v"],
    }

    done = run_penstock(command, file, *options[command])

    assert done.returncode == 0, done
    printed = {"configured", "judged", "closed"}
    assert printed <= set(done.stderr.splitlines())
    assert not printed & set(done.stdout.splitlines())
    first = {"audit": f"{records}: 1 records judged", "explain": "--value: accepted"}
    assert done.stdout.startswith(first[command])


def test_standard_output_is_back_after_blocks_inside_each_other(capfd):
    with pytest.raises(OSError, match="failed"), policies_run():
        with policies_run():
            os.write(1, b"first\n")
        os.write(1, b"second\n")
        raise OSError("failed")
    os.write(1, b"result\n")
    assert capfd.readouterr() == ("result\n", "first\nsecond\n")


def test_a_closed_standard_output():
    before = os.dup(1)
    try:
        os.close(1)
        with policies_run():
            pass
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(1)
    finally:
        os.dup2(before, 1)
        os.close(before)
