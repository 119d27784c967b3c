"""The workflows of a forge call targets of the Makefile, and nothing else."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE: Final = (ROOT / "Makefile").read_text()
TARGETS: Final = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))


def jobs() -> dict[str, dict[str, Any]]:
    """Return the jobs of all workflows."""
    return {
        name: job
        for workflow in WORKFLOWS
        for name, job in yaml.safe_load(workflow.read_text())["jobs"].items()
    }


def steps() -> list[dict[str, Any]]:
    return [step for job in jobs().values() for step in job["steps"]]


def suites() -> list[str]:
    """Return the suites that run each night."""
    return list(jobs()["suite"]["strategy"]["matrix"]["suite"])


def test_each_step_is_a_target_or_an_action_of_a_version():
    targets = []
    for step in steps():
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", step["uses"])
        else:
            [(key, command)] = step.items()
            assert key == "run"
            targets.append(re.fullmatch(r"make ([a-z-]+|\$\{\{ matrix\.suite \}\})", command)[1])
    assert set(targets) - {"${{ matrix.suite }}"} <= TARGETS
    assert {"lint", "unit", "test", "floors", "workflows", "dist", "image"} <= set(targets)


def test_each_job_ends():
    for name, job in jobs().items():
        assert job["timeout-minutes"] <= 350, name


def test_the_versions_of_python_begin_with_the_lowest():
    project = (ROOT / "pyproject.toml").read_text()
    versions = jobs()["unit"]["strategy"]["matrix"]["python"]
    assert f'requires-python = ">={versions[0]}"' in project
    assert set(re.findall(r"Programming Language :: Python :: (3\.\d+)", project)) <= set(versions)


def test_each_slow_suite_runs_every_night():
    [slow] = re.findall(r"^SLOW_SUITES := (.*)$", MAKEFILE, re.MULTILINE)
    assert suites() == slow.split()
    assert set(suites()) <= TARGETS


def test_each_target_that_is_described_as_slow_is_a_slow_suite():
    described = re.findall(
        r"^\| `make ([a-z-]+)` \| slow: ", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert len(described) > 5
    assert set(described) <= set(suites())


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_no_address_and_no_path_of_a_machine(workflow):
    assert not re.search(r"://|(^|[\s\"'])[/~]\w", workflow.read_text(), re.MULTILINE)
