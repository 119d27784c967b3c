"""What the Spark commands have in common: their options, their session, their errors."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.failures import CommandError
from penstock.configuration import ConfigurationError, load_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from penstock.cluster.offsets import Cluster, Topic
    from penstock.configuration import Configuration
    from penstock.spark.locations import Location
    from penstock.spark.plan import RecordPlan
    from penstock.spark.sinks import Sinks
    from penstock.topic_configs.index import TopicConfigIndex


_SETTINGS_TIMEOUT_S: Final = 30.0


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every Spark command."""
    parser.add_argument("file", metavar="FILE", help="the gateway's configuration file")
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="the cluster (default: the file's upstream.bootstrap.servers)",
    )
    parser.add_argument("--master", default="local[*]", help="Spark's master (default local[*])")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one of Spark's own settings; may be given again",
    )
    parser.add_argument(
        "--records-policy-batch",
        type=_positive,
        default=1,
        metavar="N",
        help="how many consecutive records of a partition a RecordsPolicy (KIP-686) is given at "
        "a time (default 1)",
    )


def add_source_arguments(parser: argparse.ArgumentParser, *, end: bool = True) -> None:
    """Declare where records are read from."""
    parser.add_argument("--topic", metavar="T", help="the topic to read")
    parser.add_argument(
        "--input",
        metavar="PATH",
        help="Parquet or JSON lines files with Kafka's columns, in place of the topic",
    )
    where = "earliest, latest, an ISO time, or PARTITION:OFFSET,..."
    parser.add_argument("--from", dest="start", default="earliest", metavar="WHERE", help=where)
    if end:
        parser.add_argument("--to", dest="end", default="latest", metavar="WHERE", help=where)


class SparkJob:
    """A command's plan, its cluster and its Spark session, which starts when it is needed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        configuration = load_configuration(options.file)
        self.properties = configuration.upstream_properties
        if options.bootstrap_server:
            self.properties["bootstrap.servers"] = options.bootstrap_server
        self.folder = configuration.folder
        for warning in configuration.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        self._conf = _settings(options.conf)
        self._session: SparkSession | None = None
        self._cluster: Cluster | None = None
        self.began = time.monotonic()

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        from penstock.cluster.offsets import Cluster  # noqa: PLC0415

        if self._cluster is None:
            self._cluster = Cluster(self.properties, self.folder)
        return self._cluster

    @property
    def spark(self) -> SparkSession:
        """The session."""
        from penstock.spark.session import start_session  # noqa: PLC0415

        if self._session is None:
            name = f"penstock {self._options.command}"
            self._session = start_session(name, self._options.master, self._conf)
        return self._session

    @property
    def kafka_options(self) -> dict[str, str]:
        """The options of Spark's Kafka connector."""
        from penstock.spark.sources import client_options  # noqa: PLC0415

        return client_options(self.properties, self.folder)

    def plan(self, topic: Topic | None, *, file: str | None = None) -> RecordPlan:
        """Load the plan, with the ids of the topics if there are any."""
        from penstock.spark.plan import load_plan  # noqa: PLC0415

        plan = load_plan(
            file or self._options.file,
            topic_ids={topic.name: topic.topic_id} if topic else {},
            records_policy_batch=self._options.records_policy_batch,
            topic_settings={topic.name: self._settings_of(topic, file)} if topic else {},
        )
        if topic is not None and not plan.judges(topic.name):
            print(f"warning: no policy of {plan.path} judges topic {topic.name}", file=sys.stderr)
        return plan

    def _settings_of(self, topic: Topic, file: str | None) -> Mapping[str, str]:
        configuration = load_configuration(file or self._options.file)
        return settings_of(topic, configuration, self.properties)

    def source(self) -> Topic | None:
        """Return the topic that is read; None for files.

        Raises:
            ConfigurationError: Not one source is named, or the topic is not there.
        """
        if bool(self._options.topic) == bool(self._options.input):
            raise ConfigurationError("name one of --topic T and --input PATH")
        return self.cluster.topic(self._options.topic) if self._options.topic else None

    def range(self, topic: Topic | None) -> dict[int, tuple[int, int]]:
        """Return the offsets from and up to which each partition is read; none for files."""
        if topic is None:
            return {}
        options = self._options
        start = self.cluster.offsets(topic, options.start, key="--from")
        end = self.cluster.offsets(topic, getattr(options, "end", "latest"), key="--to")
        for partition, offset in start.items():
            if offset > end[partition]:
                raise ConfigurationError(
                    f"--from {options.start} is behind --to {options.end} in partition "
                    f"{partition} of {topic.name}: {offset} and {end[partition]}"
                )
        return {partition: (start[partition], end[partition]) for partition in topic.partitions}

    def read(self, topic: Topic | None, between: Mapping[int, tuple[int, int]]) -> DataFrame:
        """Read the range of a topic, or the files."""
        from penstock.spark.sources import read_files, read_range  # noqa: PLC0415

        if topic is None:
            return read_files(self.spark, self._options.input)
        start = {partition: first for partition, (first, _) in between.items()}
        end = {partition: last for partition, (_, last) in between.items()}
        return read_range(self.spark, self.kafka_options, topic.name, start, end)

    def sinks(self, locations: Mapping[str, Location], *, appended: tuple[str, ...] = ()) -> Sinks:
        """Prepare places to write to; topics among them have to exist."""
        from penstock.spark.sinks import Sinks  # noqa: PLC0415

        partitions = {
            location.name: len(self.cluster.topic(location.name).partitions)
            for location in locations.values()
            if not location.is_folder
        }
        return Sinks(self.spark, locations, self.kafka_options, partitions, appended=appended)

    def close(self) -> None:
        """Close the policies and the session."""
        from penstock.spark import close_policies  # noqa: PLC0415

        if self._session is not None:
            from penstock.spark.session import stop_session  # noqa: PLC0415

            with contextlib.suppress(Exception):
                workers = self._session.sparkContext.defaultParallelism
                close_policies(self._session, workers=workers)
            stop_session(self._session)
            self._session = None


@contextlib.contextmanager
def job(options: argparse.Namespace) -> Iterator[SparkJob]:
    """Run a Spark command's work; whatever goes wrong ends it with a text and an exit code."""
    try:
        import pyspark  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigurationError(
            f"penstock {options.command} needs Spark: pip install 'penstock[spark]'"
        ) from None
    from penstock.artifacts import ArtifactError  # noqa: PLC0415
    from penstock.cluster.offsets import ClusterError  # noqa: PLC0415
    from penstock.spark.failures import SparkError, reason_of  # noqa: PLC0415

    running = SparkJob(options)
    try:
        yield running
    except (ArtifactError, ClusterError, SparkError, OSError) as error:
        raise CommandError(str(error)) from error
    except (CommandError, ConfigurationError, KeyboardInterrupt):
        raise
    except Exception as error:
        text, code = reason_of(error)
        if text is None:
            raise
        raise CommandError(text, code) from error
    finally:
        running.close()


def kept_settings(configuration: Configuration, properties: Mapping[str, str]) -> TopicConfigIndex:
    """Read the topic level keys of all topics; none where topics have no settings of their own.

    Raises:
        ConfigurationError: They may not be read.
        CompactedTopicError: The cluster does not answer.
    """
    from penstock.engine.plan import allows_topic_settings  # noqa: PLC0415
    from penstock.topic_configs.index import index_of  # noqa: PLC0415
    from penstock.topic_configs.storage import topic_configs_topic  # noqa: PLC0415

    if not allows_topic_settings(configuration):
        return index_of(())
    return index_of(topic_configs_topic(configuration, properties).read(_SETTINGS_TIMEOUT_S))


def settings_of(
    topic: Topic, configuration: Configuration, properties: Mapping[str, str]
) -> Mapping[str, str]:
    """Read the topic level keys that were set on a topic, as the gateway does.

    Args:
        topic: The topic.
        configuration: Says where they are kept.
        properties: How the cluster is reached.

    Raises:
        ConfigurationError: They may not be read.
        CommandError: The cluster does not answer, or they cannot be understood.
    """
    from penstock.cluster.compacted_topic import CompactedTopicError  # noqa: PLC0415
    from penstock.topic_configs.index import UnreadableTopicConfigsError  # noqa: PLC0415

    try:
        return kept_settings(configuration, properties).of(topic.name, topic.topic_id)
    except (CompactedTopicError, UnreadableTopicConfigsError) as error:
        raise CommandError(str(error)) from None


def location(text: str) -> Location:
    """Read a place for argparse."""
    from penstock.spark.locations import Location  # noqa: PLC0415

    try:
        return Location.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def ratio(text: str) -> float:
    """Read a share from 0 to 1 for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return number


def show_counts(counts: Mapping[str, Any]) -> str:
    """Write counts as a sentence."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not separator or not key.startswith("spark."):
            raise ConfigurationError(f"--conf {one}: must be spark.KEY=VALUE")
        if key == "spark.sql.execution.arrow.maxRecordsPerBatch" and not value.isdecimal():
            raise ConfigurationError(f"--conf {one}: must be 1 or more")
        settings[key] = value
    if settings.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "0":
        raise ConfigurationError(
            "--conf spark.sql.execution.arrow.maxRecordsPerBatch: must be 1 or more"
        )
    return settings
