"""Random records, judged at each door."""

import json
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import ACCEPTED
from penstock.jobs.evaluation import Evaluator
from penstock.jobs.plan import RecordPlan
from penstock.jobs.topics.access import ClusterAccess
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.reading.offset_ranges import WantedRange
from penstock.kafka.client.reading.reader import RangeReader
from penstock.kafka.cluster.offsets import Cluster
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.wire.errors import REQUEST_TIMED_OUT
from penstock.policy import Header, Record
from penstock.spark import apply, load_plan
from penstock.spark.source.range_frames import read_range
from tests.gateways import RunningGateway
from tests.integration.reading import read_topic
from tests.kafka.records.encoding import CODECS, encode_batch
from tests.kafka.records.implementations import use
from tests.parity.json_texts import TEXTS
from tests.parity.same import HEADERS, KEYS, READINGS, VALUES
from tests.raw import RawClient, produce_request, produced

PARTITIONS = 50
ATTEMPTS = 3
CONTRACT = Path(__file__).with_name("order.odcs.yaml")
JSON_KEYS = [None, b'"k"', b'"key"', b'""', b"7"]
INTERCEPTOR = """
class Odd(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ".*"
    def process_record(self, key, value, topic, partition, headers):
        if value is None or value[:1] == b"n":
            raise ProduceRequestInterceptorSkipRecordException()
        if key == b"fail":
            raise KeyError(key)
        if value[:1] == b"{":
            return ProduceRequestInterceptorResult(digest(key, value, partition).encode(), value)
        return ProduceRequestInterceptorResult(key, None if value == b"true" else value)

class Spoil(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ".*"
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, b"spoilt" if value and value[:1] == b"{" else value)
"""
OBSERVED_INTERCEPTOR = "KIP-905, observed beside stricter policies"
"""The kind whose gateway stores other contents than `apply` returns."""
BATCH = {
    "topics.parity-*.records.policy.class.name": "policies.Batch",
    "topics.parity-*.records.policy.enabled": "true",
}
JSON = {"topics.parity-*.record.validation.policy": "json"}
ALL_BUT_BATCH = {
    **JSON,
    "record.validator.classes": "policies.Keyed",
    "record.validation.policy.class.name": "policies.Json",
    "policies": "small,order",
    "policies.small.type": "penstock.policies.MaxBytes",
    "policies.small.headers.max.bytes": "20",
    "policies.order.type": "penstock.policies.JsonSchema",
    "policies.order.schema": "order.json",
    "topics.parity-*.penstock.policies": "small,order",
}
QUARANTINE = {
    "topics.parity-*.penstock.mode": "quarantine",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
LONG = {
    "policy.timeout.ms": "20000",
    "policy.preparation.timeout.ms": "20000",
    "produce.request.interceptors.timeout.ms": "20000",
}
"""The gateway's error after a deadline: a busy machine is not a difference between doors."""
KINDS = {
    "KIP-686": BATCH,
    "KIP-729": {"record.validator.classes": "policies.Keyed"},
    "KIP-729, columns": {"record.validator.classes": "policies.KeyedColumns"},
    "KIP-940": {**JSON, "record.validation.policy.class.name": "policies.Json"},
    "KIP-940, columns": {**JSON, "record.validation.policy.class.name": "policies.JsonColumns"},
    "KIP-905": {"produce.request.interceptors": "policies.Odd"},
    "JSON Schema": {
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "topics.parity-*.record.validation.policy": "key=key.json,value=order.json",
    },
    "Rules": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.Rules",
        "rules.id": "!has(value.id) || value.id == null || value.id.matches('^ord-[0-9]{2}$')",
        "rules.amount": "!has(value.amount) || value.amount < 1e30 && value.amount != 0.001",
        "rules.lines": "!has(value.lines) || size(value.lines) <= 3",
    },
    "Rules, of all parts": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.Rules",
        "rules.value": "type(value) != map || !('refuse' in value) || value.refuse != true",
        "rules.key": "key == null || size(key) < 4 && key != '\"\"'",
        "rules.headers": "size(headers) < 4 && headers.n.matches('[0-8]$')",
        "rules.timestamp": "timestamp > timestamp('2020-01-01T00:00:00Z') && partition < 45",
    },
    "Required": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.Required",
        "fields": "id",
    },
    "MaxBytes": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.MaxBytes",
        "value.max.bytes": "40",
        "key.max.bytes": "3",
        "headers.max.bytes": "20",
    },
    "KeyRequired": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.KeyRequired",
    },
    "HeaderRequired": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.HeaderRequired",
        "headers": "n",
        "headers.n.pattern": "[0-8]$",
    },
    "DataContract": {
        **JSON,
        "record.validation.policy.class.name": "penstock.policies.DataContract",
        "contract": str(CONTRACT),
    },
    "JSON Schema, named": {
        "policies": "order",
        "policies.order.type": "penstock.policies.JsonSchema",
        "policies.order.schema": "order.json",
        "topics.parity-*.penstock.policies": "order",
    },
    "several, named": ALL_BUT_BATCH,
    "mark": {**ALL_BUT_BATCH, "topics.parity-*.penstock.mode": "mark"},
    "mark, KIP-686": {**BATCH, "topics.parity-*.penstock.mode": "mark"},
    "quarantine": {**ALL_BUT_BATCH, **QUARANTINE},
    "quarantine, KIP-686": {**BATCH, **QUARANTINE},
    "quarantine, KIP-905": {
        **ALL_BUT_BATCH, **QUARANTINE, "produce.request.interceptors": "policies.Odd",
    },
    "a mode for each policy": {
        **ALL_BUT_BATCH, **QUARANTINE,
        "policies.small.mode": "mark",
        "policies.order.mode": "enforce",
    },
    OBSERVED_INTERCEPTOR: {
        "policies": "small,order",
        "policies.small.type": "penstock.policies.MaxBytes",
        "policies.small.headers.max.bytes": "20",
        "policies.small.mode": "enforce",
        "policies.order.type": "penstock.policies.JsonSchema",
        "policies.order.schema": "order.json",
        "policies.order.mode": "mark",
        "topics.parity-*.penstock.policies": "small,order",
        "topics.parity-*.penstock.mode": "observe",
        "produce.request.interceptors": "policies.Spoil",
    },
    "all": {
        **BATCH, **JSON,
        "record.validator.classes": "policies.Keyed",
        "record.validation.policy.class.name": "policies.Json",
        "produce.request.interceptors": "policies.Odd",
    },
}  # fmt: skip


class Generator:
    """Records that are awkward: texts that are cut, joined, and changed in a byte."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        # A hundred thousand of the longest would take gigabytes.
        self._texts = [text for text in (*VALUES, *TEXTS) if text is not None and len(text) < 1200]

    def record(self, number: int, now_ms: int) -> Record:
        chance = self._chance
        headers = (Header("n", b"%d" % number), *chance.choice(HEADERS[:3]))
        keys = KEYS if chance.random() < 0.5 else JSON_KEYS
        key = chance.choice(keys) if chance.random() < 0.9 else chance.randbytes(3)
        return Record(now_ms + number % 1000, key, self._value(), headers)

    def codec(self) -> str:
        return self._chance.choice(list(CODECS))

    def _value(self) -> bytes | None:
        chance = self._chance
        text = chance.choice(self._texts)
        match chance.randrange(8):
            case 0:
                return None
            case 1:
                return text[: chance.randrange(len(text) + 1)]
            case 2:
                return text + chance.choice(self._texts)
            case 3 | 4 if text:
                changed = bytearray(text)
                changed[chance.randrange(len(text))] = chance.randrange(256)
                return bytes(changed)
            case 5:
                return json.dumps(self._document(3)).encode()
            case _:
                return text

    def _document(self, depth: int) -> Any:
        chance = self._chance
        kind = chance.randrange(8 if depth else 6)
        if kind == 6:
            return [self._document(depth - 1) for _ in range(chance.randrange(4))]
        if kind == 7:
            names = ["id", "refuse", "amount", "lines", "\u00e4", "a longer name"]
            return {chance.choice(names): self._document(depth - 1) for _ in range(3)}
        return [None, True, chance.randrange(-9, 2**70), chance.random(), "ord-12", "x" * 9][kind]


def send(address: str, topic: str, batches: Sequence[bytes], partitions: int) -> list[Any]:
    """Produce batches, each of one record, those with 7 again as clients do; return the answers."""
    answers = []
    with RawClient(address) as client:
        for first in range(0, len(batches), partitions):
            left = dict(enumerate(batches[first : first + partitions]))
            found = {}
            for _ in range(ATTEMPTS):
                found |= produced(
                    client.call(produce_request([(topic, [*left.items()])], version=9))
                )
                left = {
                    number: batch
                    for number, batch in left.items()
                    if int(found[topic, number].error_code) == REQUEST_TIMED_OUT
                }
                if not left:
                    break
            answers += [found[topic, number] for number in range(len(found))]
    return answers


def of_gateway(
    answers: Sequence[Any], stored: Sequence[Any], letters: Sequence[Any], records: Sequence[Record]
) -> list[tuple[Any, ...]]:
    """Return outcome, code and message of each record, and its key and value where it is stored.

    Marked records and dead letters count as refused.
    """
    contents = {
        dict(message.headers())["n"]: (message.key(), message.value()) for message in stored
    }
    objections = of_headers(stored, "__mark.errors") | of_headers(letters, "__penstock")
    found = []
    for number, answer in enumerate(answers):
        code = int(answer.error_code)
        objection = objections.pop(b"%d" % number, None)
        if objection is not None:
            assert not code
            contents.pop(b"%d" % number, None)
            found.append(objection)
            continue
        if code:
            message = answer.error_message
            if answer.record_errors:
                message = answer.record_errors[0].batch_index_error_message
            found.append(("failed" if code == -1 else "refused", code, message, None))
        elif (content := contents.pop(b"%d" % number, None)) is None:
            found.append(("dropped", 0, None, None))
        else:
            found.append(("accepted", 0, None, content))
    assert not contents, "a refused record is stored"
    assert not objections, "a refused record is a dead letter"
    assert len(found) == len(records)
    return found


def of_headers(messages: Sequence[Any], prefix: str) -> dict[bytes, tuple[Any, ...]]:
    """Return what gateways wrote into headers of why they object to records."""
    found = {}
    for message in messages:
        headers = dict(message.headers())
        code = headers.get(f"{prefix}.code")
        if code is not None:
            text = headers[f"{prefix}.message"]
            found[headers["n"]] = (
                "refused", int(code), None if text is None else text.decode(), None,
            )  # fmt: skip
    return found


def by_frames(
    spark: Any, plan: RecordPlan, ranges: Sequence[OffsetRange]
) -> dict[int, tuple[Any, ...]]:
    rows = apply(rows_of(spark, plan, ranges), plan).select(
        "partition", "offset", "verdict", "key", "value"
    )
    found = {}
    for row in all_of(rows):
        verdict, content = row.verdict, None
        if verdict.outcome == "accepted":
            content = tuple(None if part is None else bytes(part) for part in (row.key, row.value))
        message = None if verdict.outcome == "dropped" else verdict.message
        found[row.offset * len(ranges) + row.partition] = (
            verdict.outcome, verdict.code, message, content,
        )  # fmt: skip
    return found


def rows_of(spark: Any, plan: RecordPlan, ranges: Sequence[OffsetRange]) -> Any:
    """Return ranges as a frame with Kafka's columns."""
    access = ClusterAccess.of(plan.configuration.upstream_properties, plan.path)
    return read_range(spark, access, ranges, {})


def all_of(rows: Any) -> Iterator[Any]:
    """Yield all rows of a DataFrame, by two jobs; it would be one for each of its partitions."""
    return rows.coalesce(2).toLocalIterator(prefetchPartitions=True)


def by_raw_batches(
    plan: RecordPlan, ranges: Sequence[OffsetRange], reading: str, monkeypatch: pytest.MonkeyPatch
) -> dict[int, tuple[Any, ...]]:
    use(reading, monkeypatch)
    found = {}
    with (
        closing(Evaluator(plan)) as policies,
        Connection(plan.configuration.upstream_properties, plan.path) as connection,
    ):
        for range_ in ranges:
            for fetched in RangeReader(connection, WantedRange(*range_), on_lost=pytest.fail):
                data = read_stored_batch(fetched.data, max_decompressed_bytes=2**27)
                columns = StoredColumns(data.records)
                judged = policies.judge_records(range_.topic, range_.partition, columns)
                verdicts = dict(judged.verdicts)
                keys, values = judged.replaced or (columns.keys, columns.values)
                for position, offset in enumerate(data.offsets):
                    verdict = verdicts.get(position, ACCEPTED)
                    outcome = verdict.outcome.value
                    content = (keys[position], values[position]) if outcome == "accepted" else None
                    message = None if outcome == "dropped" else verdict.message
                    found[offset * len(ranges) + range_.partition] = (
                        outcome, verdict.code, message, content,
                    )  # fmt: skip
    return found


def same_at_all_doors(
    running: RunningGateway, spark: Any, bootstrap: str, topics: tuple[str, str], generator: Any, count: int, monkeypatch: pytest.MonkeyPatch, *, partitions: int = PARTITIONS,
    note: str = "", dead_letters: bool = False, contents: bool = True,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """Judge records at each door; return the gateway's verdict on each."""
    now = int(time.time() * 1000)
    records = [generator.record(number, now) for number in range(count)]
    batches = [encode_batch([record], codec=generator.codec()) for record in records]
    plan = load_plan(running.file)

    through, name = topics
    answers = send(running.broker_address(), through, batches, partitions)
    stored = read_topic(bootstrap, through, full=True)
    letters = read_topic(bootstrap, f"{through}.dead", full=True) if dead_letters else []
    expected = in_any_topic(topics, of_gateway(answers, stored, letters, records))
    assert all(
        not int(response.error_code) for response in send(bootstrap, name, batches, partitions)
    )
    cluster = Cluster(plan.configuration.upstream_properties, plan.path)
    ranges = cluster.ranges(cluster.topics(name), "earliest")

    doors = {"frames": by_frames(spark, plan, ranges)}
    for reading in READINGS:
        doors[f"raw, {reading}"] = by_raw_batches(plan, ranges, reading, monkeypatch)
    for door, found in doors.items():
        assert len(found) == count, door
        of_door = in_any_topic(topics, [found[number] for number in range(count)])
        if not contents:
            of_door = [
                (*verdict[:3], was[3]) for verdict, was in zip(of_door, expected, strict=True)
            ]
        different = [number for number in range(count) if of_door[number] != expected[number]]
        examples = [(number, expected[number][:3], of_door[number][:3]) for number in different[:3]]
        assert not different, f"{len(different)} of {count} differ, {door}{note}: {examples}"
    assert len({outcome for outcome, *_ in expected}) > 1
    return expected


def in_any_topic(
    topics: Iterable[str], verdicts: Iterable[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Return the same with messages that name no topic: each door has its own topic."""
    of_topic = re.compile("|".join(map(re.escape, topics)))
    return [
        (outcome, code, message and of_topic.sub("TOPIC", message), content)
        for outcome, code, message, content in verdicts
    ]
