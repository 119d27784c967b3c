"""Runs the programs of a suite: each ends by itself, or is ended."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class BuildError(Exception):
    """A suite cannot be fetched or built."""


def run(
    command: Sequence[str],
    output: Path,
    *,
    seconds: float,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Run a program; it is killed with its child processes if it takes too long.

    Args:
        command: The program and its arguments.
        output: The file to which its output and its errors are appended.
        seconds: How long it may take.
        folder: Where it runs.
        environment: Variables in addition to ours.

    Returns:
        Its exit code; None if it took too long.
    """
    with output.open("ab") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT,
            cwd=folder, env={**os.environ, **(environment or {})},
            start_new_session=True,  # its own group, which can be killed as a whole
        )  # fmt: skip
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that was started in its own session, and its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def build(
    command: Sequence[str],
    log: Path,
    *,
    folder: Path,
    seconds: float = 3600,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run one step of fetching or building.

    Raises:
        BuildError: It failed, or took too long; the text has the end of its output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    code = run(command, log, seconds=seconds, folder=folder, environment=environment)
    if code != 0:
        why = "took too long" if code is None else f"ended with {code}"
        last = log.read_text(errors="replace")[-800:].strip()
        raise BuildError(f"`{' '.join(command)}` {why} ({log}): {last}")
