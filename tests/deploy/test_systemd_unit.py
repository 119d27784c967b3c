"""The unit of systemd: what the gateway needs of it, and systemd's own check."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.failures import ExitCode

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "penstock.service"


def settings() -> dict[str, str]:
    lines = [line for line in UNIT.read_text().splitlines() if line and line[0] not in "#["]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines), "a key is set twice"
    return found


def test_it_waits_until_the_gateway_is_ready_and_watches_its_event_loop():
    unit = settings()
    assert unit["Type"] == "notify"
    assert unit["NotifyAccess"] == "main"
    assert int(unit["WatchdogSec"]) > 0
    assert unit["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_workers_are_neither_stopped_first_nor_a_reason_to_stop():
    unit = settings()
    assert unit["KillMode"] == "mixed"
    assert unit["OOMPolicy"] == "continue"


def test_a_wrong_configuration_is_not_tried_again():
    assert settings()["RestartPreventExitStatus"] == str(int(ExitCode.WRONG_USE))


def test_a_start_that_may_work_later_is_tried_without_a_limit():
    unit = settings()
    assert unit["Restart"] == "on-failure"
    assert unit["StartLimitIntervalSec"] == "0"


def test_it_runs_with_few_rights():
    unit = settings()
    assert unit["DynamicUser"] == unit["NoNewPrivileges"] == "yes"
    assert unit["CapabilityBoundingSet"] == ""
    assert unit["ProtectSystem"] == "strict"
    assert "AF_UNIX" in unit["RestrictAddressFamilies"]  # the socket of systemd itself


@pytest.mark.system
@pytest.mark.parametrize(
    "tool", [tool for tool in ("systemd-analyze", "grep") if shutil.which(tool)][:1]
)
def test_systemd_finds_no_mistake(tool, tmp_path):
    """Without systemd on the machine only the names of sections are checked."""
    if tool == "grep":
        assert re.findall(r"^\[(\w+)\]$", UNIT.read_text(), re.MULTILINE) == [
            "Unit",
            "Service",
            "Install",
        ]
        return
    program = str(Path(sys.executable).with_name("penstock"))
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/local/bin/penstock", program))
    done = subprocess.run(
        [tool, "verify", "--man=no", str(copy)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
