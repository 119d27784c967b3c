"""`penstock audit --trail` on records that gateways have written."""

import json
import subprocess
import uuid

import pytest

from tests.audit_records import lines_of
from tests.gateways import run_penstock, wait_until, write_configuration
from tests.integration.reading import read_topic
from tests.integration.trail import CHECK, POLICIES, produce

pytestmark = [pytest.mark.system, pytest.mark.slow]


def audit(file, *arguments):
    done = run_penstock("audit", file, "--trail", *arguments)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_a_topic_that_two_gateways_write(kafka, gateway, topic, tmp_path):
    trail, name = topic("audit", partitions=3), topic()
    for client_id, count in (("shop", 20), ("web", 5)):
        running = gateway({**CHECK, "audit.topic": trail}, POLICIES)
        batches = [[b"secret-bad", b"secret-good"]] * count
        codes = produce(running.broker_address(), name, *batches, client_id=client_id)
        assert codes == [87] * count
    wait_until(lambda: len(read_topic(kafka.bootstrap_servers, trail)) == 25, what="the trail")

    done = audit(running.file, "--report", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == f"audit trail {trail}: 25 refusals of 50 records"
    assert lines[1].endswith("by 2 runs of gateways")
    assert lines[2] == "25 refused: records"
    assert lines[3] == "by topic, refusals and records"
    assert lines[4] == f"25 50 {name}"
    at = lines.index("by client id, refusals and records")
    assert lines[at + 1 : at + 3] == ["20 40 shop", "5 10 web"]
    assert "25 50 bad is not good" in lines
    found = json.loads((tmp_path / "trail.json").read_text())
    assert (found["refusals"], found["missing"], found["unreadable"]) == (25, 0, 0)

    last = max(entry["hour"] for entry in found["hours"])
    assert ": 0 refusals" in audit(running.file, "--to", last).stdout
    assert ": 25 refusals" in audit(running.file, "--from", last).stdout


def test_a_file_that_was_rotated_over_a_restart(gateway, topic):
    running = gateway({**CHECK, "audit.file": "audit.jsonl"}, POLICIES)
    path, name = running.file.parent / "audit.jsonl", topic()
    produce(running.broker_address(), name, *[[b"bad"]] * 3)
    wait_until(lambda: len(lines_of(path)) == 3, what="three lines")
    path.rename(path.with_suffix(".jsonl.1"))
    subprocess.run(["gzip", str(path) + ".1"], check=True)
    running.restart()
    produce(running.broker_address(), name, *[[b"bad"]] * 2)
    assert running.stop() == 0

    done = audit(running.file)
    assert done.returncode == 0, done.stderr
    assert f"audit trail {path}: 5 refusals of 5 records" in done.stdout
    assert "by 2 runs of gateways" in done.stdout
    assert "missing" not in done.stdout


def test_exit_codes_without_a_topic_or_a_cluster(kafka, tmp_path):
    missing = f"audit-{uuid.uuid4().hex[:8]}"
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 9192, {"audit.topic": missing})
    done = audit(file)
    assert done.returncode == 2
    assert f"there is no topic {missing} on" in done.stderr
    done = audit(file, "--bootstrap-server", "127.0.0.1:1")
    assert done.returncode == 3
    last = done.stderr.splitlines()[-1]  # it takes so long that there is a line of progress
    assert last.startswith(f"penstock audit: topic {missing}: ")
