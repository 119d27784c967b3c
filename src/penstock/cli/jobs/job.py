"""What a command over stored records works with: its file, its cluster, its plan, its topics."""

from __future__ import annotations

import contextlib
import sys
import time
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from penstock.cli.checks.topic_settings import settings_of
from penstock.cli.output.policy_output import policies_run
from penstock.configuration import ConfigurationError, load_configuration
from penstock.progress import Progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.cli.jobs.row_jobs import RowJobs
    from penstock.jobs.files.listing import ListedFiles
    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.plan import RecordPlan
    from penstock.jobs.runner import OffsetCounter, Runner
    from penstock.jobs.topics.stored_topics import StoredTopics
    from penstock.kafka.cluster.offsets import Cluster, Topic
    from penstock.kafka.cluster.ranges import OffsetRange


class CommandJob(ABC):
    """A command's plan and its cluster, and what runs its tasks."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        configuration = load_configuration(options.file)
        self.properties = configuration.upstream_properties
        if options.bootstrap_server:
            self.properties["bootstrap.servers"] = options.bootstrap_server
        self.file = configuration.path
        self._places_topic = configuration.redrive_places_topic
        self.decompressed_batch_max_bytes = configuration.decompressed_batch_max_bytes
        for warning in configuration.warnings:
            warn(warning)
        self.begin_s = time.monotonic()
        self.progress = Progress()
        self._plans: dict[str, RecordPlan] = {}

    @property
    @abstractmethod
    def runner(self) -> Runner:
        """What runs tasks over raw batches."""

    @property
    @abstractmethod
    def rows(self) -> RowJobs:
        """The commands over rows: for folders, files and tables."""

    @abstractmethod
    def check_input(self) -> None:
        """Check the options that name sources instead of topics.

        Raises:
            ConfigurationError: They cannot be.
        """

    def close(self) -> None:
        """Close the policies of this process."""
        from penstock.jobs.evaluation import close_all  # noqa: PLC0415

        with policies_run():
            close_all()

    @contextlib.contextmanager
    def counting_tasks(self, what: str, ranges: Sequence[OffsetRange]) -> Iterator[OffsetCounter]:
        """Show how many records are read by tasks over raw batches inside a `with` block.

        Args:
            what: The work, such as `judging orders`.
            ranges: The offset ranges to read.

        Returns:
            What the tasks add to; for `Runner.run`.
        """
        counter = self.runner.counter()
        total = sum(offset_range.offsets for offset_range in ranges)
        with self.progress.phase(what, lambda: counter.value, total):
            yield counter

    @cached_property
    def there(self) -> StoredTopics:
        """The cluster's topics."""
        from penstock.jobs.topics.stored_topics import StoredTopics  # noqa: PLC0415

        return StoredTopics(self.properties, self.file, self._places_topic)

    @property
    def cluster(self) -> Cluster:
        return self.there.cluster

    def plan(self, topics: Sequence[Topic], *, file: str | None = None) -> RecordPlan:
        """Load the plan, with the ids and the own settings of the topics.

        Each topic has its own policies; a warning names those that have none.
        """
        from penstock.jobs.topics.stored_topics import names_of  # noqa: PLC0415

        plan = self.plan_without_topics(file)
        if topics:
            ids = {topic.name: topic.topic_id for topic in topics}
            settings = settings_of(topics, plan.configuration, self.properties)
            with policies_run():
                plan = plan.for_topics(ids, settings)
        without = [topic.name for topic in topics if not plan.judges(topic.name)]
        if without:
            warn(f"no policy of {plan.path} judges {names_of(without)}")
        return plan

    def plan_without_topics(self, file: str | None = None) -> RecordPlan:
        """Load the policies of a file, by default of FILE, once. Nothing is contacted.

        Raises:
            ConfigurationError: They cannot be loaded.
        """
        from penstock.jobs.plan import load_plan  # noqa: PLC0415

        path = file or self._options.file
        if path not in self._plans:
            batch = self._options.records_policy_batch
            with policies_run():
                self._plans[path] = load_plan(path, records_policy_batch=batch)
        return self._plans[path]

    def sources(self, targets: Sequence[RecordLocation] = ()) -> tuple[Topic, ...]:
        """Return the topics that are read; none for files.

        Args:
            targets: What the command writes to: none of it may be read. Globs leave it out, and
                the parked part of it.

        Raises:
            ConfigurationError: Not one source is named, or a topic does not exist, or is
                written to, or `--from` or `--to` is no place, or a policy cannot be loaded.
        """
        topic_option = self._options.topic
        if bool(topic_option) == bool(self._options.input):
            raise ConfigurationError("name either --topic T or --input PATH")
        self.check_input()
        start, end = self._options.start, self._options.end
        if not topic_option:
            check_no_range(start, end)
            return ()
        from penstock.kafka.cluster.offsets import check_place  # noqa: PLC0415

        check_place(start, "--from")
        check_place(end, "--to")
        for file in (getattr(self._options, "compare", None), self._options.file):
            if file is not None:
                self.plan_without_topics(file)  # before the cluster is contacted
        return self.there.sources(
            topic_option, [location.name for location in targets if location.is_topic], warn=warn
        )

    def ranges(self, topics: Sequence[Topic]) -> tuple[OffsetRange, ...]:
        """Return the offsets from and up to which each partition is read; none for files."""
        if not topics:
            return ()
        options = self._options
        return self.cluster.ranges(topics, options.start, options.end)


def check_no_range(start: str, end: str) -> None:
    """Check that no part of `--input` is named: all of it is read.

    Args:
        start: The value of `--from`.
        end: The value of `--to`.

    Raises:
        ConfigurationError: A part is named.
    """
    for option, value, default in (("--from", start, "earliest"), ("--to", end, "latest")):
        if value != default:
            raise ConfigurationError(
                f"{option} {value}: all of --input is read; leave out {option}, or read a topic"
            )


def warn(text: str) -> None:
    """Print a warning.

    Args:
        text: The warning, without the word.
    """
    print(f"warning: {text}", file=sys.stderr)


def warn_of_base64(files: ListedFiles) -> None:
    """Report that contents are decoded: short texts can look like base 64.

    Args:
        files: The files that are read.

    Raises:
        ConfigurationError: One of the first lines is not a record.
    """
    from penstock.jobs.files.reading import are_listed_base64  # noqa: PLC0415

    if are_listed_base64(files):
        warn(
            f"{files.key}{files.argument}: keys, values and headers are decoded from base64, "
            "because the first 1,000 all look like it; write texts that are not base64 to Parquet "
            "files"
        )


def show_plans(digests: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print which plans judge, as `penstock check` does; those of several topics with the topics.

    Args:
        digests: The digest of each topic's plan.
        file: Where to; by default standard output.
    """
    by_digest: dict[str, list[str]] = {}
    for topic, digest in digests.items():
        by_digest.setdefault(digest, []).append(topic)
    for digest, topics in by_digest.items():
        names = f": {', '.join(topics)}" if len(digests) > 1 else ""
        print(f"plan {digest}{names}", file=file, flush=True)


def show_counts(counts: Mapping[str, Any]) -> str:
    """Write counts as a sentence."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
