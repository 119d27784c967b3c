"""The order of tests: random, except for the slowest files, which are first.

`make test` passes whole files to four processes in the order of the collection (`groups.py`): with a
long file at the end, three of them would have nothing to do. All of `hostile` is one long file.
`--durations` in a log of CI shows when the list has to change.
"""

import os
import random
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
LONGEST: Final = (
    "spark/test_options_of_spark.py",
    "spark/test_frame_stream.py",
    "hostile/test_connections.py",
    "chaos/test_exactly_once.py",
    "kafka/client/test_writer_failures.py",
    "spark/execution/test_failures.py",
    "integration/test_interceptors.py",
    "integration/test_producer_state.py",
    "integration/test_modes.py",
    "spark/jobs/test_redrive.py",
    "jobs/test_writing.py",
    "spark/streams/test_split_stream.py",
    "cli/test_commands.py",
    "interop/test_refusals.py",
    "spark/jobs/test_split.py",
    "parity/test_parity.py",
    "jobs/test_audit.py",
    "spark/jobs/test_audit.py",
    "spark/test_secrets.py",
    "spark/test_large_records.py",
    "integration/test_security.py",
    "integration/test_chaos.py",
    "integration/test_record_validation.py",
    "hostile/test_login.py",
    "engine/test_supervisor.py",
    "integration/topics/test_settings_kept.py",
    "interop/test_dropped_connections.py",
    "spark/test_verdicts.py",
    "spark/jobs/test_redact.py",
    "interop/test_java.py",
    "hostile/test_memory.py",
    "hostile/test_names.py",
    "interop/test_clients.py",
    "spark/test_connect.py",
    "spark/test_secured.py",
    "cli/test_topics.py",
    "integration/topics/test_kills.py",
    "integration/topics/test_equality.py",
    "hostile/test_bombs.py",
    "hostile/test_fuzz.py",
    "hostile/test_same_answers.py",
    "integration/equivalence/test_same_verdicts.py",
)


_RANKS: Final = {TESTS / file: number for number, file in enumerate(LONGEST)}


def rank(path: Path) -> int:
    """Return the place of a file: its index in `LONGEST`; the same for all others."""
    return _RANKS.get(path, len(LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the longest files to the front; keep the order of everything else."""
    items.sort(key=lambda item: rank(item.path))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let each worker draw its own ports: pytest-randomly seeds all workers alike."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    random.seed(f"{session.config.getoption('randomly_seed', None)} {worker}")
