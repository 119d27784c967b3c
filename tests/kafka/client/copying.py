"""A task in a separate process, to be killed: `python -m tests.kafka.client.copying ARGUMENTS`.

It writes made-up records as if it had read them: batches to the target, each seventh to the dead
letters, and commits after each chunk. Exit code 3: another writer has taken over.
"""

import sys
import time
from pathlib import Path
from uuid import UUID

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import Position, PositionTask
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import FencedError
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

FENCED = 3
BATCH, CHUNK = 100, 2_000
SINCE = int(time.time() * 1000) - 3_600_000
"""Retention removes records that are older than a few days."""
FILE = Path("/nowhere/penstock.properties")


def value(number):
    return b"%d " % number + b"x" * 20


def made_up(first):
    """The batch from an offset on."""
    return encode_batch(
        [Record(SINCE + n, b"k%d" % n, value(n)) for n in range(first, first + BATCH)],
        codec="lz4",
    )


def is_dead(first):
    return first // BATCH % 7 == 0


def copy(connection, task, target, dead, count, *, progress=lambda at: None):
    with TransactionalWriter(connection, task) as writer:
        at = writer.position.offset if writer.position else 0
        while at < count:
            for first in range(at, at + CHUNK, BATCH):
                to = dead if is_dead(first) else target
                writer.write(to, 0, made_up(first), BatchSource(task.topic, 0, first))
            at += CHUNK
            writer.commit(Position(at))
            progress(at)


def main(servers, job, source, source_id, target, dead, count):
    task = PositionTask(job, source, UUID(source_id), 0)
    with Connection({"bootstrap.servers": servers}, FILE) as connection:
        print("begins", flush=True)
        try:
            copy(connection, task, target, dead, int(count))
        except FencedError:
            sys.exit(FENCED)


if __name__ == "__main__":
    main(*sys.argv[1:])
