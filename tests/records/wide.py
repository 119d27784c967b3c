"""A batch, and the refusal of one."""

import pytest

from penstock.records.batch import read_batch
from penstock.records.errors import UnreadableRecords
from tests.records.encoding import zigzag

LIMIT = 1 << 20


def read(data, api_version=9, limit=LIMIT, **options):
    return read_batch(data, api_version=api_version, max_decompressed_bytes=limit, **options)


def refusal(data, api_version=9, limit=LIMIT):
    with pytest.raises(UnreadableRecords) as refused:
        read(data, api_version, limit)
    assert str(refused.value) == refused.value.message
    return refused.value.code, refused.value.message


def record(body: bytes) -> bytes:
    return zigzag(len(body)) + body


WIDE = b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
