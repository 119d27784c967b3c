"""`penstock explain`: what it writes to standard output."""

import pytest

from penstock.cli import main

pytestmark = pytest.mark.system

POLICY = """
print("imported")
class Loud:
    def configure(self, configs):
        print("configured")
    def validate(self, topic, record):
        print("judged")
    def close(self):
        print("closed")
"""


def test_output_of_policies_goes_to_standard_error(tmp_path, capsys):
    (tmp_path / "loud_when_explained.py").write_text(POLICY)
    file = tmp_path / "penstock.properties"
    file.write_text(
        "upstream.bootstrap.servers=none:1\n"
        "record.validation.policy.class.name=loud_when_explained.Loud\n"
        "topics.*.record.validation.policy=x\n"
    )

    assert main(["explain", str(file), "--topic", "t", "--value", "v"]) == 0

    shown, others = capsys.readouterr()
    assert shown.splitlines()[0] == "--value: accepted"
    assert {"imported", "configured", "judged", "closed"} <= set(others.splitlines())
    assert not {"imported", "configured", "judged", "closed"} & set(shown.splitlines())
