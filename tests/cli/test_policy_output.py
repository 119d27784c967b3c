"""What policies print in the process of a command: on standard error, not among the results."""

import json

import pytest

from penstock.cli import main

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
    assert shown == f"{records}: 1 records judged: 1 accepted, 0 refused, 0 dropped, 0 failed\n"
    printed = {"imported", "configured", "intercepted", "judged", "closed"}
    assert printed <= set(others.splitlines())
