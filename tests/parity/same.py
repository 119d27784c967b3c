"""Records that are judged alike by the gateway, Spark and raw batches."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import ACCEPTED
from penstock.jobs.evaluation import Evaluator
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.kafka.local import LocalKafka
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from penstock.spark import judge, load_plan, register
from tests.gateways import RunningGateway
from tests.kafka.records.encoding import encode_batch
from tests.kafka.records.implementations import IMPLEMENTATIONS, use
from tests.raw import RawClient, produce_request, produced
from tests.spark_connector import read_by_connector

# What the engine adds to a failure is a class's name, never the text of the exception.
POLICIES = """
import hashlib, json
from penstock.policy import *

def digest(*seen):
    return hashlib.sha256(repr(seen).encode()).hexdigest()

class Batch(RecordsPolicy):
    def validate(self, topic, partition, records):
        for r in records:
            if r.value is not None and r.value.startswith(b"\\x00"):
                raise PolicyViolationException(
                    "batch " + digest(r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]))

class Keyed(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if key == b"":
            return InvalidRecordException(
                f"{topic_partition.partition} {digest(key, value, [tuple(h) for h in headers])}")
        if key == b"fail":
            raise KeyError(value)

class Json(RecordValidationPolicy):
    def validate(self, topic, record):
        seen = digest(record.key, record.value, [tuple(h) for h in record.headers])
        if record.value is None:
            if record.headers:
                raise InvalidRecordException("tombstone " + seen)
            return
        document = json.loads(record.value)  # what it raises, it raises at both doors
        if not isinstance(document, dict):
            raise InvalidRecordException(f"{type(document).__name__} {seen}")
        if document.get("refuse") is not None:
            raise InvalidRecordException(str(document["refuse"]))

class KeyedColumns(Keyed):
    def validate_batch(self, topic_partition, batch):
        for index, (key, value, headers) in enumerate(zip(batch.keys, batch.values, batch.headers)):
            objection = self.validate_record(topic_partition, key, value, headers)
            if objection is not None:
                yield index, objection.message

class JsonColumns(Json):
    def validate_batch(self, topic, batch):
        keys = batch.keys_arrow.to_pylist()
        values = batch.values_arrow.to_pylist()
        for index, (key, value) in enumerate(zip(keys, values)):
            try:
                self.validate(topic, RecordProxy(batch.headers[index], key, value))
            except InvalidRecordException as refusal:
                yield index, refusal.message
"""
PROPERTIES = {
    "topics.parity-*.records.policy.class.name": "policies.Batch",
    "topics.parity-*.records.policy.enabled": "true",
    "record.validator.classes": "policies.Keyed",
    "record.validation.policy.class.name": "policies.Json",
    "topics.parity-*.record.validation.policy": "json",
    "policy.workers": "1",
}
COLUMNS = {
    "record.validator.classes": "policies.KeyedColumns",
    "record.validation.policy.class.name": "policies.JsonColumns",
}
"""The same policies, which judge a batch at a time."""
READINGS = [*IMPLEMENTATIONS]
"""The readers of raw batches."""
deep = b"[" * 500 + b"]" * 500
VALUES = [
    None, b"", b"{}", b"[]", b"null", b"NaN", b'{"a": NaN}', b'{"a": 1e999}', b"\xff\xfe", b"\x00",
    b"\x00\x00\x00\x00\x01{}", b'{"a": "\xc3\xa4"}', b'{"a": "\xed\xa0\x80"}', b"\xef\xbb\xbf{}",
    b'{"a": 1, "a": 2}', b"{" * 20, deep, b"[" * 100_000,
    json.dumps({"big": "x" * 200_000}).encode(), b'{"n": ' + b"9" * 4000 + b"}",
    b'{"n": ' + b"9" * 5000 + b"}", b'{"refuse": "plain"}',
    '{"refuse": "Umlaut \u00e4, emoji \U0001f600, \u0000 and \u2028"}'.encode(),
    json.dumps({"refuse": "long " * 1000}).encode(), json.dumps({"refuse": "\ud800"}).encode(),
    json.dumps({"refuse": ""}).encode(), b"1", b'"text"', b"true",
]  # fmt: skip
HEADERS = [
    (),
    (Header("a", b"1"), Header("a", b"2")),
    (Header("a", None), Header("", b"")),
    (Header("\u00e4\U0001f600", b"\xff\x00"), Header("b" * 3000, b"c" * 3000)),
]
KEYS = [None, b"", b"k", b"fail", b"\xff" * 50]


class Sinks:
    """Both doors with the same file."""

    def __init__(
        self,
        spark: Any,
        kafka: LocalKafka,
        running: RunningGateway,
        topic: Callable[..., str],
        admin: AdminClient,
    ) -> None:
        self.spark, self.kafka, self.running, self._topic = spark, kafka, running, topic
        self._through = topic("parity-through")
        self.plan = load_plan(running.file)

    def gateway(self, records: Sequence[Record], codecs: Sequence[str]) -> list[tuple[Any, ...]]:
        """What the gateway answers for each record, alone in its batch."""
        answers = []
        with RawClient(self.running.broker_address()) as client:
            for record, codec in zip(records, codecs, strict=True):
                batch = encode_batch([record], codec=codec)
                request = produce_request([(self._through, [(0, batch)])], version=9)
                [answer] = produced(client.call(request)).values()
                code = int(answer.error_code)
                if code == 0:
                    answers.append(("accepted", 0, None))
                    continue
                message = answer.error_message
                if answer.record_errors:
                    [error] = answer.record_errors
                    message = error.batch_index_error_message
                answers.append(("failed" if code == -1 else "refused", code, message))
        return answers

    def store(self, records: Sequence[Record], codecs: Sequence[str]) -> list[OffsetRange]:
        """Store the same bytes past the gateway; return the topic's ranges."""
        name = self._topic("parity-stored")
        with RawClient(self.kafka.bootstrap_servers) as client:
            for record, codec in zip(records, codecs, strict=True):
                batch = encode_batch([record], codec=codec)
                [answer] = produced(
                    client.call(produce_request([(name, [(0, batch)])], version=9))
                ).values()
                assert int(answer.error_code) == 0, (codec, record)
        properties = self.plan.configuration.upstream_properties
        cluster = Cluster(properties, self.plan.path)
        return cluster.ranges(cluster.topics(name), "earliest")

    def by_connector(self, ranges: Sequence[OffsetRange]) -> list[tuple[Any, ...]]:
        """What Spark's verdicts are on the records."""
        df = read_by_connector(self.spark, self.kafka.bootstrap_servers, ranges[0].topic)
        rows = judge(df, self.plan).orderBy("offset").select("verdict.*").collect()
        return [(row.outcome, row.code, row.message) for row in rows]

    def by_data_source(self, ranges: Sequence[OffsetRange]) -> list[tuple[Any, ...]]:
        """What the verdicts are that the data source reads."""
        register(self.spark)
        reader = self.spark.read.format("penstock").option("plan", str(self.plan.path))
        df = reader.option("subscribe", ranges[0].topic).load()
        rows = df.orderBy("offset").select("verdict.*").collect()
        return [(row.outcome, row.code, row.message) for row in rows]

    def by_raw_batches(self, ranges: Sequence[OffsetRange], reading: str) -> list[tuple[Any, ...]]:
        """What the verdicts are on the records of raw batches."""
        properties = self.plan.configuration.upstream_properties
        verdicts = {}
        with (
            pytest.MonkeyPatch.context() as patch,
            Connection(properties, self.plan.path) as connection,
            closing(Evaluator(self.plan)) as policies,
        ):
            use(reading, patch)
            [range_] = ranges
            for fetched in RangeReader(connection, WantedRange(*range_), on_lost=pytest.fail):
                data = read_stored_batch(fetched.data, max_decompressed_bytes=2**27)
                columns = StoredColumns(data.records)
                found = policies.judge_records(range_.topic, range_.partition, columns).verdicts
                verdicts |= dict.fromkeys(data.offsets, ACCEPTED)
                verdicts |= {data.offsets[position]: verdict for position, verdict in found}
        return [(v.outcome.value, v.code, v.message) for _, v in sorted(verdicts.items())]


def check(doors: Sinks, records: Sequence[Record], codecs: Sequence[str]) -> list[tuple[Any, ...]]:
    through, ranges = doors.gateway(records, codecs), doors.store(records, codecs)
    raw = [doors.by_raw_batches(ranges, reading) for reading in READINGS]
    for stored in (doors.by_connector(ranges), doors.by_data_source(ranges), *raw):
        for record, codec, by_gateway, by_spark in zip(
            records, codecs, through, stored, strict=True
        ):
            assert by_gateway == by_spark, (record, record.value and record.value[:40], codec)
    return through
