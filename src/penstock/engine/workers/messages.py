"""What crosses the socket pair between the gateway and a worker: bytes and plain values.

A message is its length (4 bytes, without itself), its kind (1 byte) and a body:

- to the worker: LOAD (JSON), JUDGE (the header below, the topic's plan, the record bytes),
  CLOSE (empty)
- from the worker: READY (empty), LOAD_FAILED (text), VERDICT (job, outcome, JSON unless the
  batch is accepted)
"""

from __future__ import annotations

import json
from dataclasses import asdict
from struct import Struct
from typing import TYPE_CHECKING, Final

from penstock.engine.verdict import ACCEPTED, Outcome, RecordError, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOAD, JUDGE, CLOSE = 1, 2, 3
READY, LOAD_FAILED, VERDICT = 11, 12, 13

PREFIX: Final = Struct(">IB")  # length of kind and body, kind
JUDGE_HEADER: Final = Struct(">QhI16sI")  # job, Produce version, partition, topic id, plan length
_JUDGE_PREFIX: Final = Struct(">IBQhI16sI")
_VERDICT: Final = Struct(">IBQB")  # length, kind, job, whether accepted
_ACCEPTED, _NOT_ACCEPTED = 1, 0


def message(kind: int, body: bytes = b"") -> bytes:
    """Frame a body."""
    return PREFIX.pack(1 + len(body), kind) + body


def load(path: Path, properties: Mapping[str, str]) -> bytes:
    """Ask a worker to load the policies of a configuration."""
    return message(LOAD, json.dumps([str(path), dict(properties)]).encode())


def judge_header(
    job: int, version: int, partition: int, topic_id: bytes, plan_size: int, data_size: int
) -> bytes:
    """Frame a batch to be judged; the topic's plan and the record bytes follow it."""
    length = 1 + JUDGE_HEADER.size + plan_size + data_size
    return _JUDGE_PREFIX.pack(length, JUDGE, job, version, partition, topic_id, plan_size)


def verdict(job: int, decided: Verdict) -> bytes:
    """Frame a verdict."""
    if decided is ACCEPTED:
        return _VERDICT.pack(10, VERDICT, job, _ACCEPTED)
    fields = asdict(decided)
    fields["outcome"] = decided.outcome.value
    body = json.dumps(fields).encode()
    return _VERDICT.pack(10 + len(body), VERDICT, job, _NOT_ACCEPTED) + body


def read_verdict(body: bytes) -> tuple[int, Verdict]:
    """Read the body of a VERDICT.

    Raises:
        ValueError: It is not one.
    """
    job = int.from_bytes(body[:8], "big")
    if body[8] == _ACCEPTED:
        return job, ACCEPTED
    fields = json.loads(body[9:])
    fields["outcome"] = Outcome(fields["outcome"])
    fields["record_errors"] = tuple(RecordError(**error) for error in fields["record_errors"])
    return job, Verdict(**fields)
