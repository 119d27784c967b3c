"""The commands over stored records in this process, without Spark (`--local`)."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.jobs.job import CommandJob, warn_of_base64
from penstock.cli.output.policy_output import policies_run
from penstock.configuration import ConfigurationError
from penstock.errors import MalformedError, UnavailableError
from penstock.jobs.locations import TABLE
from penstock.jobs.runner import LocalRunner

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from penstock.cli.jobs.local_rows import LocalRows
    from penstock.jobs.files.listing import ListedFiles
    from penstock.jobs.runner import Merge, OffsetCounter, Runner, Work
    from penstock.jobs.tasks.planning import Task


class _CommandRunner(LocalRunner):
    """Runs tasks while standard output is that of the command."""

    def run(
        self,
        tasks: Sequence[Task],
        work: Work,
        merge: Merge,
        *,
        counter: OffsetCounter | None = None,
    ) -> bytes | None:
        """Run tasks; see `LocalRunner.run`."""
        with policies_run():
            return super().run(tasks, work, merge, counter=counter)


class LocalJob(CommandJob):
    """A command's job in this process."""

    def __init__(self, options: argparse.Namespace) -> None:
        of_spark = {
            "--master": options.master,
            "--remote": options.remote,
            "--conf": options.conf,
            "--column": getattr(options, "column", None),
        }
        for name, value in of_spark.items():
            if value:
                raise ConfigurationError(
                    f"{name} is an option of Spark, and cannot be used with --local"
                )
        super().__init__(options)
        self._runner = _CommandRunner()

    @property
    def runner(self) -> Runner:
        """What runs tasks in this process."""
        return self._runner

    @property
    def rows(self) -> LocalRows:
        """The commands over rows, in this process."""
        from penstock.cli.jobs.local_rows import LocalRows  # noqa: PLC0415

        return LocalRows(self, lambda: self.input_files)

    def check_input(self) -> None:
        """Check that `--input` is no table of Spark, and that there are such files.

        Raises:
            ConfigurationError: It is not so.
        """
        source = self._options.input or ""
        if source.startswith(TABLE):
            raise ConfigurationError(f"--input {source} needs Spark: leave out --local")
        if source:
            warn_of_base64(self.input_files)

    @cached_property
    def input_files(self) -> ListedFiles:
        """The files of `--input`."""
        from penstock.jobs.files.listing import ListedFiles, find_files  # noqa: PLC0415

        return ListedFiles.of(self._options.input, find_files(self._options.input))


@contextlib.contextmanager
def local_job(options: argparse.Namespace) -> Iterator[LocalJob]:
    """Run a command's work; whatever goes wrong ends it with a text and an exit code."""
    job = LocalJob(options)
    try:
        yield job
    except (CommandError, ConfigurationError):
        raise
    except (UnavailableError, MalformedError, OSError) as error:
        raise CommandError(str(error), ExitCode.CLUSTER_FAILED) from error
    finally:
        job.close()
