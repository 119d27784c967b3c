"""The Spark session of a command: how it starts, how it ends, and what its errors are."""

from __future__ import annotations

import contextlib
import importlib
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import CommandError, ExitCode
from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from penstock.progress import Progress

_NEEDS_SPARK: Final = "needs Spark: pip install 'penstock-kafka[spark]'"


class CommandSession:
    """A command's Spark session, which starts when it is needed.

    Attributes:
        remote: The address of a Spark Connect server; None for a session that has a JVM.
    """

    def __init__(self, options: argparse.Namespace, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self._conf = _settings(options.conf)
        self.remote: str | None = getattr(options, "remote", None)
        if self.remote is not None:
            from penstock.spark.execution.remote import check_remote  # noqa: PLC0415

            check_remote(self.remote, options.master)
        self._session: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """The session; it is started if it has not been."""
        if self._session is not None:
            return self._session
        name = f"penstock {self._options.command}"
        if self.remote is not None:
            from penstock.spark.execution.remote import remote_session  # noqa: PLC0415

            with self._progress.phase(f"{name}: connecting to {self.remote}"):
                self._session = remote_session(self.remote, name, self._conf)
        else:
            from penstock.spark.session import start_session  # noqa: PLC0415

            with self._progress.phase(f"{name}: starting Spark"):
                self._session = start_session(name, self._options.master, self._conf)
        return self._session

    @cached_property
    def slots(self) -> int:
        """How many tasks run at a time."""
        from penstock.spark.execution.task_slots import task_slots  # noqa: PLC0415

        return task_slots(self.spark)

    @contextlib.contextmanager
    def counting(self, what: str) -> Iterator[None]:
        """Show how many records of files are read inside a `with` block.

        Args:
            what: The work, such as `judging orders.parquet`.
        """
        if self.remote is not None:
            with self._progress.phase(what):
                yield
            return
        from penstock.spark.execution.progress import RecordsRead  # noqa: PLC0415

        with self._progress.phase(what, RecordsRead(self.spark), None):
            yield

    def check_input(self, source: str, other: str = "name topics or a table") -> None:
        """Check that the session can read files.

        Args:
            source: What `--input` names.
            other: What to do if it cannot.

        Raises:
            ConfigurationError: It cannot.
        """
        if self.remote is not None:
            raise ConfigurationError(
                f"--input {source}: with --remote, {other}; files need a session that this "
                "command starts (--master)"
            )

    def jvm_failure(self, error: Exception) -> str | None:
        """Return why Spark's JVM ended by itself, if an error results from that."""
        from penstock.spark.execution.failures import lost_its_jvm  # noqa: PLC0415

        if self._session is None or self.remote is not None:
            return None
        from penstock.spark.session import has_stopped, jvm_failure  # noqa: PLC0415

        is_lost = lost_its_jvm(error) or has_stopped(self._session)
        return jvm_failure() if is_lost else None

    def close(self) -> None:
        """Close the policies of its workers, and the session."""
        from penstock.spark import close_policies  # noqa: PLC0415

        if self._session is None:
            return
        with contextlib.suppress(Exception):
            close_policies(self._session, workers=self.slots)
        if self.remote is not None:
            from penstock.spark.execution.remote import stop_remote  # noqa: PLC0415

            stop_remote(self._session)
        else:
            from penstock.spark.session import stop_session  # noqa: PLC0415

            stop_session(self._session)
        self._session = None


@contextlib.contextmanager
def quiet_spark(instead: str = "") -> Iterator[None]:
    """Use PySpark inside a `with` block, without its log.

    Args:
        instead: What the command can do without it, for the error.

    Raises:
        ConfigurationError: PySpark is not installed.
    """
    try:
        importlib.import_module("pyspark")  # an extra
    except ImportError:
        raise ConfigurationError(_NEEDS_SPARK + instead) from None
    from penstock.spark.execution.loggers import quiet_loggers  # noqa: PLC0415

    with quiet_loggers():
        yield


@contextlib.contextmanager
def reported(session: CommandSession, source: str | None) -> Iterator[None]:
    """End a command whose work fails inside a `with` block with a text and an exit code.

    Args:
        source: The value of `--input`, for errors about it.

    Raises:
        CommandError: The work failed.
    """
    from penstock.spark.execution.failures import reason_of  # noqa: PLC0415

    try:
        yield
    except (CommandError, ConfigurationError, KeyboardInterrupt):
        raise
    except Exception as error:
        text, code = session.jvm_failure(error), int(ExitCode.CLUSTER_FAILED)
        if text is None and isinstance(error, (UnavailableError, OSError)):
            text = str(error)
        if text is None:
            text, code = reason_of(error)
        if text is None:
            raise
        if code == ExitCode.WRONG_USE and source:
            text = f"--input {source}: {text}"
        raise CommandError(text, code) from error


def _settings(arguments: list[str]) -> dict[str, str]:
    settings = {}
    for setting in arguments:
        key, separator, value = setting.partition("=")
        if not separator or not key.startswith("spark."):
            raise ConfigurationError(f"--conf {setting}: must be spark.KEY=VALUE")
        if key == "spark.sql.execution.arrow.maxRecordsPerBatch" and not value.isdecimal():
            raise ConfigurationError(f"--conf {setting}: must be 1 or more")
        settings[key] = value
    if settings.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "0":
        raise ConfigurationError(
            "--conf spark.sql.execution.arrow.maxRecordsPerBatch: must be 1 or more"
        )
    return settings
