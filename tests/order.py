"""The order of tests: random, but for the files that take longest, which come first.

`make test` passes whole files to two workers in the order of the collection: with a long file
at the end, one of them would have nothing to do. `--durations` in a log of CI shows when the list
has to change.
"""

import os
import random
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
LONGEST: Final = (
    "chaos/test_exactly_once.py",
    "spark/test_split.py",
    "interop/test_refusals.py",
    "integration/test_record_validation.py",
    "spark/test_failures.py",
    "integration/test_interceptors.py",
    "spark/test_cluster.py",
    "spark/test_redrive.py",
    "cli/test_commands.py",
    "interop/test_clients.py",
    "hostile/test_fuzz.py",
    "hostile/test_connections.py",
    "hostile/test_nulls.py",
    "hostile/test_names.py",
    "hostile/test_all_at_once.py",
    "integration/test_chaos.py",
    "engine/test_supervisor.py",
    "integration/topics/test_settings_kept.py",
    "integration/test_garbage.py",
    "hostile/test_same_answers.py",
    "integration/equivalence/test_same_verdicts.py",
    "parity/test_parity.py",
    "interop/test_dropped_connections.py",
    "integration/test_security.py",
    "integration/test_records_policy.py",
    "spark/test_audit.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest files to the front; keep the order of everything else."""
    rank = {TESTS / file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let each worker draw its own ports: pytest-randomly gives them all the same seed."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    random.seed(f"{session.config.getoption('randomly_seed', None)} {worker}")
