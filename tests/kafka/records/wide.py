"""A batch that is read or refused, and a record by its bytes."""

from typing import Any

import pytest

from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.errors import UnreadableRecords
from tests.kafka.records.encoding import zigzag

LIMIT = 1 << 20


def read(data: bytes, api_version: int = 9, limit: int = LIMIT, **options: Any) -> Any:
    return read_batch(data, api_version=api_version, max_decompressed_bytes=limit, **options)


def refusal(data: bytes, api_version: int = 9, limit: int = LIMIT) -> tuple[int, str]:
    with pytest.raises(UnreadableRecords) as refused:
        read(data, api_version, limit)
    assert str(refused.value) == refused.value.message
    return refused.value.code, refused.value.message


def record(body: bytes) -> bytes:
    return zigzag(len(body)) + body


WIDE = b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
