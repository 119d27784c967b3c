"""`penstock audit --trail` with files: its output and its exit codes."""

import json
import re
import resource
import time

import pytest

from penstock import cli
from penstock.engine.verdict import RecordError, refused_records
from penstock.gateway.observing.audit_trail.file import AuditFile
from penstock.gateway.observing.audit_trail.trail import AuditTrail
from penstock.gateway.observing.plan_watch import PlanChange
from penstock.gateway.refusal_log import Refused


def refusal(n):
    verdict = refused_records([RecordError(0, "no\x1b[2J", "a.V")])
    return Refused("orders", 0, f"shop-{n % 2}", verdict, principal="User:alice",
                   address="10.0.0.7", records=5)  # fmt: skip


@pytest.fixture
def file(tmp_path):
    """A configuration, and a trail of three refusals: one is missing, one is there twice."""
    path = tmp_path / "audit.jsonl"
    trail = AuditTrail(AuditFile(path, path), "gw-1/0.0.0.0:9192")
    for n in range(3):
        trail.put(refusal(n))
    trail.close()
    first, _, last = path.read_text().splitlines(keepends=True)
    (tmp_path / "audit.jsonl.1").write_text(first)
    path.write_text(first + last + "no record\n")
    found = tmp_path / "penstock.properties"
    found.write_text("upstream.bootstrap.servers=127.0.0.1:1\naudit.file=audit.jsonl\n")
    return found


def run(*arguments, capsys):
    code = cli.main(["audit", *map(str, arguments)])
    return code, capsys.readouterr()


def test_clients_reasons_and_missing_numbers_are_listed(file, capsys):
    code, printed = run(file, "--trail", capsys=capsys)
    assert code == 0
    lines = [" ".join(line.split()) for line in printed.out.splitlines()]
    assert lines[0] == f"audit trail {file.parent}/audit.jsonl: 2 refusals of 10 records"
    assert lines[1].endswith("by one run of a gateway")
    assert lines[2:6] == [
        "2 refused: records",
        "1 more are missing between others: left out, or removed",
        "1 lines were there again, and are not counted",
        "1 lines are no records of a trail",
    ]
    for title, line in (
        ("by topic", "2 10 orders"), ("by policy", "2 10 a.V"), ("by client id", "2 10 shop-0"),
        ("by principal", "2 10 User:alice"), ("by error code", "2 10 87"),
        ("by address", "2 10 10.0.0.7"), ("by gateway", "2 10 gw-1/0.0.0.0:9192"),
    ):  # fmt: skip
        assert lines[lines.index(f"{title}, refusals and records") + 1] == line
    assert "\x1b" not in printed.out
    assert "over time, by hour (UTC)" in lines


def test_plans_are_shown_with_the_time_since_when(file, tmp_path, capsys):
    trail = AuditTrail(AuditFile(tmp_path / "b.jsonl", tmp_path / "b.jsonl"), "gw-2")
    trail.put_change(PlanChange("orders", "0123456789ab", "ba9876543210", "reload"))
    trail.close()
    arguments = (file, "--trail", "--input", tmp_path / "b.jsonl", "--report", tmp_path / "r")
    code, printed = run(*arguments, capsys=capsys)
    assert code == 0
    assert re.search(
        r"^  orders: ba9876543210 since (\S+Z), last seen \1, by gw-2$", printed.out, re.MULTILINE
    )
    (plan,) = json.loads((tmp_path / "r" / "trail.json").read_text())["plans"]
    assert (plan["topic"], plan["plan"], plan["gateways"]) == ("orders", "ba9876543210", ["gw-2"])


def test_a_report_is_written(file, tmp_path, capsys):
    code, printed = run(file, "--trail", "--report", tmp_path / "r", capsys=capsys)
    assert code == 0
    assert f"report {tmp_path}/r/trail.json" in printed.out
    found = json.loads((tmp_path / "r" / "trail.json").read_text())
    assert (found["refusals"], found["missing"], found["twice"]) == (2, 1, 1)


def test_the_file_and_the_time_are_options(file, tmp_path, capsys):
    _, printed = run(file, "--trail", "--input", tmp_path / "audit.jsonl.1", capsys=capsys)
    assert ": 1 refusals of 5 records" in printed.out
    after = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 60))
    for option in ("--from", "--to"):
        _, printed = run(file, "--trail", option, after, capsys=capsys)
        assert (": 0 refusals" in printed.out) is (option == "--from")


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--topic", "a", "--input", "b"), 2, "name either --topic T or --input PATH"),
        (("--fail-over", "1%"), 2, "--fail-over cannot be used with --trail"),
        (("--topics",), 2, "--topics cannot be used with --trail"),
        (("--from", "0:5"), 2, "--from 0:5: with --trail it must be an ISO time"),
        (("--input", "/not/there"), 3, "/not/there: this file does not exist"),
    ],
)
def test_wrong_arguments_are_2(file, arguments, code, why, capsys):
    found, printed = run(file, "--trail", *arguments, capsys=capsys)
    assert found == code
    assert why in printed.err


def test_without_a_trail_the_error_names_the_keys_or_the_file(file, capsys):
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")
    code, printed = run(file, "--trail", capsys=capsys)
    assert code == 2
    assert "neither audit.topic nor audit.file is set" in printed.err
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\naudit.file=not-there\n")
    code, printed = run(file, "--trail", capsys=capsys)
    assert code == 3
    assert "not-there: this file does not exist" in printed.err


def test_a_damaged_file_is_3(file, tmp_path, capsys):
    (tmp_path / "audit.jsonl.2.gz").write_bytes(b"no gzip")
    code, printed = run(file, "--trail", capsys=capsys)
    assert code == 3
    assert "audit.jsonl.2.gz: cannot be read" in printed.err


@pytest.fixture
def few_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_files_than_the_soft_limit_of_file_descriptors_are_read(
    file, tmp_path, few_descriptors, capsys
):
    folder = tmp_path / "collected"
    folder.mkdir()
    text = (tmp_path / "audit.jsonl").read_text()
    for number in range(300):
        (folder / f"gw-{number}.jsonl").write_text(text)
    code, printed = run(file, "--trail", "--input", folder, capsys=capsys)
    assert printed.err.count("error") == 0
    assert (code, "2 refusals of 10 records" in printed.out) == (0, True)
