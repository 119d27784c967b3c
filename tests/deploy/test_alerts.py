"""When the alerts of `penstock.rules.yml` fire."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus" / "penstock.rules.yml"
TESTS: Final = Path(__file__).with_name("alerts.yml")


def alerts() -> list[dict[str, Any]]:
    rules: dict[str, Any] = yaml.safe_load(RULES.read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the promtool of `make chart`, or the promtool of this machine."""
    built = Path(os.environ["PENSTOCK_CACHE"]) / "go" / "bin" / "promtool"
    program = str(built) if built.exists() else shutil.which("promtool")
    assert program is not None, "promtool is missing: make chart builds it with Go"
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_there_is_a_case_in_which_each_alert_fires():
    firing = {
        case["alertname"]
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert firing == {alert["alert"] for alert in alerts()}


@pytest.mark.helm
@pytest.mark.system
def test_promtool_accepts_the_rules():
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.helm
@pytest.mark.system
def test_alerts_fire_in_their_cases_only(tmp_path):
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # promtool would compare their texts
    (tmp_path / RULES.name).write_text(yaml.safe_dump(rules))
    cases = shutil.copy(TESTS, tmp_path)
    done = promtool("test", "rules", str(cases))
    assert done.returncode == 0, done.stdout + done.stderr
