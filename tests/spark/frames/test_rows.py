"""Columns of rows as policies and sinks see them."""

import pyarrow as pa
import pytest

from penstock.spark.frames.rows import Rows

pytestmark = pytest.mark.unit


def test_timestamps_of_every_year_are_in_ms_rounded_down():
    micros = [0, 999, -1, -1000, -1001, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), None]
    column = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    expected = [-1 if micro is None else micro // 1000 for micro in micros]
    rows = Rows({"timestamp": column})
    assert list(rows.columns(0, len(micros)).timestamps) == expected
    assert list(rows.columns(5, len(micros)).timestamps) == expected[5:]
