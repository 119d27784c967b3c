"""Judge single records, and show what each policy received and decided.

It does not need Spark. Each line of RECORDS.jsonl is an object with any of `key`, `value` (strings
or null; any other JSON value stands for its JSON text), `key_base64`, `value_base64`, `headers` (a
list of objects with `key`, and `value` or `value_base64`), `timestamp` (an ISO time, or ms),
`partition`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.output.policy_output import policies_run
from penstock.cli.output.record_lines import records_in_file
from penstock.configuration import ConfigurationError, load_configuration
from penstock.configuration.arguments import bootstrap_servers
from penstock.engine.explain import LocatedRecord, explain
from penstock.engine.instances import PolicyInstances
from penstock.engine.plans.plan import Plan
from penstock.engine.verdict import REJECTED, Outcome
from penstock.kafka.wire.names import NO_ID
from penstock.policy import Header, Record
from penstock.progress import waiting

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from penstock.configuration import Configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="the gateway's configuration file")
    parser.add_argument("--topic", required=True, metavar="T", help="the records' topic")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--value", metavar="V", help="a record with this value, as text")
    source.add_argument(
        "--input", metavar="RECORDS.jsonl", help="a file with a record in each line"
    )
    source.add_argument(
        "--offset", metavar="P:N", help="the record at this partition and offset in the cluster"
    )
    parser.add_argument("--key", metavar="K", help="with --value: the record's key")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --value: a header; repeatable",
    )
    parser.add_argument(
        "--bootstrap-server",
        type=bootstrap_servers,
        metavar="HOST:PORT",
        help="with --offset: the cluster",
    )
    parser.add_argument(
        "--show-payloads", action="store_true", help="show keys, values and headers"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    configuration = load_configuration(options.file)
    if (options.key is not None or options.header) and options.value is None:
        raise ConfigurationError("--key and --header require --value")
    plan = Plan(configuration.policies)
    with policies_run(), waiting(f"loading the policies of {configuration.path}"):
        policies = PolicyInstances(configuration.policies, plan.names)
    plan.set_interceptor_patterns(policies.patterns)
    refused = postponed = False
    try:
        for place, located_record in _records(options, configuration):
            with (
                policies_run(),
                waiting(
                    f"{place}: judging takes long; a gateway gives up after policy.timeout.ms "
                    f"({configuration.policy_timeout_ms})"
                ),
            ):
                explained = explain(plan, policies, options.topic, located_record)
            print(f"{place}: {explained.verdict.outcome.value}")
            for step in explained.steps:
                print(f"  {step.number}. {step.kind:<11} {step.name}: {step.decision}")
                saw = step.input if options.show_payloads else step.input_sizes
                if saw:
                    print(f"     saw {saw}")
            if not explained.steps:
                print("  no policy judges this topic")
            refused = refused or explained.verdict.outcome in REJECTED
            postponed = postponed or explained.verdict.outcome is Outcome.POSTPONED
    finally:
        with policies_run():
            policies.close()
    if refused:
        return ExitCode.CHECK_FAILED
    return ExitCode.CLUSTER_FAILED if postponed else ExitCode.DONE


def _records(
    options: argparse.Namespace, configuration: Configuration
) -> Iterator[tuple[str, LocatedRecord]]:
    if options.value is not None:
        headers = [_inline_header(header) for header in options.header]
        key = None if options.key is None else os.fsencode(options.key)
        record = Record(-1, key, os.fsencode(options.value), tuple(headers))
        yield "--value", LocatedRecord(0, NO_ID, record)
    elif options.input:
        yield from records_in_file(Path(options.input))
    else:
        yield _from_cluster(options, configuration)


def _inline_header(text: str) -> Header:
    key, separator, value = text.partition("=")
    if not separator:
        raise ConfigurationError(f"--header {text}: must be KEY=VALUE")
    # As readers of records do with a key that is not UTF-8.
    return Header(os.fsencode(key).decode(errors="replace"), os.fsencode(value))


def _from_cluster(
    options: argparse.Namespace, configuration: Configuration
) -> tuple[str, LocatedRecord]:
    from penstock.cli.checks.topic_settings import settings_of  # noqa: PLC0415
    from penstock.kafka.cluster.errors import ClusterError  # noqa: PLC0415
    from penstock.kafka.cluster.offsets import Cluster  # noqa: PLC0415

    partition, separator, offset = options.offset.partition(":")
    if not (separator and partition.isdecimal() and offset.isdecimal()):
        raise ConfigurationError(f"--offset {options.offset}: must be PARTITION:OFFSET")
    properties = configuration.upstream_properties
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    try:
        cluster = Cluster(properties, configuration.path)
        topic = cluster.topic(options.topic)
        record = cluster.record(topic, int(partition), int(offset))
    except ClusterError as error:
        raise CommandError(str(error)) from error
    print(f"topic {options.topic}, topic id {topic.topic_id}", file=sys.stderr)
    own = settings_of((topic,), configuration, properties)[topic.name]
    located_record = LocatedRecord(int(partition), topic.topic_id, record, own)
    return f"{options.topic} {options.offset}", located_record
