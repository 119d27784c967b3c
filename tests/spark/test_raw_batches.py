"""Ranges of a topic read as raw batches by Spark's Python workers."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

RECORDS, TASKS = 4000, 8


def reads(properties: dict[str, str], topic: str, per_task: int):
    """Return a function for `mapInArrow` with a plain closure."""

    def read(frames):
        import os
        import warnings

        import pyarrow as pa

        from penstock.kafka.client.connections.connection import connect
        from penstock.kafka.client.reading.offset_ranges import WantedRange
        from penstock.kafka.client.reading.reader import RangeReader

        with warnings.catch_warnings():  # the worker is used again
            warnings.simplefilter("error")
            connection = connect(properties, Path("/nowhere/penstock.properties"))
            for frame in frames:
                for task in frame.column("id").to_pylist():
                    offsets = WantedRange(topic, 0, task * per_task, (task + 1) * per_task)
                    batches = RangeReader(connection, offsets, on_lost=print)
                    count = sum(batch.end - batch.first for batch in batches)
                    columns = [[task], [count], [os.getpid()], [id(connection)]]
                    names = ["task", "records", "process", "connection"]
                    yield pa.RecordBatch.from_arrays(
                        [pa.array(column) for column in columns], names
                    )

    return read


def test_each_worker_has_a_single_connection(spark, kafka, topic):
    name = topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.size": 2000})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(30) == 0

    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    schema = "task long, records long, process long, connection long"
    for _ in range(2):
        rows = (
            spark.range(0, TASKS, 1, TASKS)
            .mapInArrow(reads(properties, name, RECORDS // TASKS), schema)
            .collect()
        )
        assert sorted(row.task for row in rows) == list(range(TASKS))
        assert {row.records for row in rows} == {RECORDS // TASKS}
        connections = {(row.process, row.connection) for row in rows}
        assert len(connections) == len({row.process for row in rows})


@pytest.mark.parametrize("problem", ["unreachable", "unconfigured"])
def test_an_error_of_a_task_ends_the_job(spark, problem):
    """The text of the error is in Spark's; retries end when the time is over."""
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        "default.api.timeout.ms": "200",
        "security.protocol": "PLAINTEXT" if problem == "unreachable" else "SASL_PLAINTEXT",
    }
    text = "no broker of 127.0.0.1:1 responds" if problem == "unreachable" else "GSSAPI"
    frame = spark.range(0, 1, 1, 1).mapInArrow(
        reads(properties, "t", 5), "task long, records long, process long, connection long"
    )
    with pytest.raises(Exception, match=text):
        frame.collect()
