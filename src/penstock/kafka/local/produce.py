"""Send records one by one, and print the response for each: `penstock dev` shows the command.

`python -m penstock.kafka.local.produce HOST:PORT TOPIC VALUE...`. The reason of a refusal is in the
response (KIP-467). Not every client shows it; this program does.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.produce.v9.response import PartitionProduceResponse, ProduceResponse

from penstock.configuration import ConfigurationError
from penstock.configuration.arguments import bootstrap_servers
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.errors import ClientError, ResponseError, describe
from penstock.kafka.client.protocol.produce import write_request
from penstock.kafka.client.protocol.raw_requests import read_entity
from penstock.kafka.wire.errors import RETRIABLE, WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.kafka.client.connections.metadata import PartitionLeader

CLIENT_ID: Final = "penstock-produce"
_PARTITION: Final = 0
_TIMEOUT_S: Final = 30.0
_TOPIC_WITHIN_MS: Final = "5000"
"""`penstock dev` creates topics, and a busy broker knows a new topic only after a moment."""
_BATCH_BYTES: Final = 64 * 2**20
_REFUSED, _CLUSTER_FAILED = 1, 3
_ELSEWHERE: Final = "it is in the dead letter topic (quarantine), or an interceptor dropped it"
_AGAIN: Final = "retriable: producers send the record again"
_OTHERS: Final = """\
Other clients get the same response. Java clients and kafka-python show its text. librdkafka
shows it in C, but in Python only the name of the error code. The gateway's terminal and its console
show the text for every client."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the records of the command line.

    Returns:
        The exit code: 0 if every record is stored, 1 if a record was refused, 3 if there is only
        a retriable error, or the gateway cannot be reached.
    """
    parser = argparse.ArgumentParser(
        prog="python -m penstock.kafka.local.produce", description=__doc__
    )
    parser.add_argument("address", metavar="HOST:PORT", type=bootstrap_servers)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("values", metavar="VALUE", nargs="+", help="a record each")
    options = parser.parse_args(arguments)
    try:
        errors = set(_send(options.address, options.topic, options.values)) - {0}
        is_refused = not errors <= RETRIABLE
        if is_refused:
            print(f"\n{_OTHERS}", flush=True)  # noqa: T201
    except (ClientError, ConfigurationError, WireError) as error:
        print(f"{options.address}: {error}", file=sys.stderr)  # noqa: T201 - a program
        return _CLUSTER_FAILED
    except BrokenPipeError:  # the program that reads the output has ended, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if is_refused:
        return _REFUSED
    return _CLUSTER_FAILED if errors else 0


def _send(address: str, topic: str, values: Sequence[str]) -> list[int]:
    """Send and print; return the error codes."""
    codes = []
    properties = {
        "bootstrap.servers": address,
        "client.id": CLIENT_ID,
        "default.api.timeout.ms": _TOPIC_WITHIN_MS,
    }
    with Connection(properties, Path("command line")) as connection:
        node = leader_of(connection, topic).node
        for value in values:
            batch = _batch(value.encode(errors="surrogateescape"))
            request = write_request(None, _TIMEOUT_S, {(topic, _PARTITION): [batch]})
            response = read_entity(connection.begin(node, request).wait(), ProduceResponse)
            answer = response.responses[0].partition_responses[0]
            print("\n".join(lines_of(value, answer)), flush=True)  # noqa: T201
            codes.append(int(answer.error_code))
    return codes


def leader_of(connection: Connection, topic: str) -> PartitionLeader:
    """Return the leader of the partition that is written to; wait a moment for a new topic.

    Raises:
        ClientError: There is no such topic, or no broker responds.
        WireError: The response cannot be read.
    """
    retries = connection.retries()
    while True:
        try:
            return connection.leader(topic, _PARTITION)
        except ResponseError as error:
            retries.after(error)


def _batch(value: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, _BATCH_BYTES)
    builder.append(0, int(time.time() * 1000), None, value, [])
    return bytes(builder.build())


def lines_of(value: str, answer: PartitionProduceResponse) -> list[str]:
    """Return the response for a record, without characters that control a terminal.

    Args:
        value: The record's value, as it stood on the command line.
        answer: The part of the response about its partition.
    """
    if not answer.error_code:
        if answer.base_offset < 0:
            return [f"success: {_printable(value)}  without an offset", f"         {_ELSEWHERE}"]
        return [f"stored:  {_printable(value)}  at offset {answer.base_offset}"]
    texts = [error.batch_index_error_message or "" for error in answer.record_errors]
    texts = list(filter(None, texts)) or [answer.error_message or "the response has no text"]
    is_retriable = answer.error_code in RETRIABLE
    lines = [f"{'postponed' if is_retriable else 'refused'}: {_printable(value)}"]
    lines += [f"         {describe(answer.error_code)}: {_printable(text)}" for text in texts]
    return [*lines, f"         {_AGAIN}"] if is_retriable else lines


def _printable(text: str) -> str:
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


if __name__ == "__main__":
    sys.exit(main())
