"""`penstock redact` prints why records are not in its target."""

import json
import uuid

import pytest

from penstock import cli

POLICIES = """
from penstock.policy import *

class Shorten(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop": raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, bytes([value[9]]))
"""
VALUES = ["long enough", "short", "drop", "short"]


@pytest.fixture
def files(tmp_path):
    """A file with records, and a configuration."""
    module = f"policies_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(POLICIES)
    file = tmp_path / "penstock.properties"
    file.write_text(
        f"upstream.bootstrap.servers=none:1\nproduce.request.interceptors={module}.Shorten\n"
    )
    with (tmp_path / "in.jsonl").open("w") as lines:
        for number, value in enumerate(VALUES):
            row = {
                "topic": "orders",
                "partition": 0,
                "offset": number,
                "timestamp": 1,
                "value": value,
            }
            lines.write(json.dumps(row) + "\n")
    return file, tmp_path / "in.jsonl"


def test_reasons_of_failures_are_printed(files, tmp_path, capsys):
    file, rows = files
    code = cli.main(
        ["redact", str(file), "--input", str(rows), "--to", f"path:{tmp_path / 'to'}", "--local"]
    )
    found = capsys.readouterr()
    assert code == 1, found
    counts, *reasons = found.out.splitlines()
    assert "1 accepted, 0 refused, 1 dropped, 2 failed" in counts
    [reason] = reasons
    count, topic, policy, failed, message = reason.split(maxsplit=4)
    assert (count, topic, failed) == ("2", "orders", "-1")
    assert policy.endswith(".Shorten")
    assert message
