"""A task in a separate process, to be killed: `python -m tests.jobs.batches.working JSON`.

It prints "begins", "chunk" after each chunk, and finally its ending and its counts.
"""

import json
import sys
from uuid import UUID

from penstock.jobs.batches.at_cluster import range_task
from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.batches.returning_letters import Redrive
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.targets import Target
from penstock.jobs.batches.task import TaskLimits, run
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import PositionTask
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.writing.place_records import PlaceRecords
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.policies import Mask, NoBad, Repair
from tests.kafka.client.settings import FILE

SIZE = 1_048_588


def job_of(kind, topic, partition, targets):
    """Return a job.

    Args:
        kind: "split" or "redrive".
        topic: The source.
        partition: Its partition.
        targets: The names and numbers of partitions of the targets.
    """
    to = {name: Target(target, partitions, SIZE) for name, (target, partitions) in targets.items()}
    if kind == "split":
        judge = BatchJudge(chain(interceptors=[Mask], validators=[NoBad]), TOPIC_ID)
        return Split(judge, topic, partition, accepted=to["accepted"], rejected=to["rejected"])
    judge = BatchJudge(chain(interceptors=[Repair], validators=[NoBad]), TOPIC_ID)
    return Redrive(judge, topic, partition, target=to["target"], again=to["again"],
                   parked=to["parked"], replays_max=2, topics=LetterTopics(),
                   originals=lambda topic, partition, offsets: {})  # fmt: skip


def work(connection, given, on_chunk):
    """Run the described task; return its result."""
    topic, topic_id, partition = given["topic"], UUID(given["topic_id"]), given["partition"]
    task = range_task(
        connection,
        WantedRange(topic, partition, given["first"], given["end"], topic_id),
        PositionTask(given["job"], topic, topic_id, partition),
        run=given["run"],
        places=PlaceRecords(given["places"]) if given.get("places") else None,
        limits=TaskLimits(chunk_records=given["chunk"]),
        on_chunk=on_chunk,
        merges=given["kind"] != "redrive",
    )
    return run(task, job_of(given["kind"], topic, partition, given["targets"]))


def main(text):
    given = json.loads(text)
    with Connection({"bootstrap.servers": given["servers"]}, FILE) as connection:
        print("begins", flush=True)
        result = work(connection, given, lambda progress: print("chunk", flush=True))
    counts = result.progress.counts
    print(json.dumps([result.ending, counts.outcomes, counts.reasons.total()]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
