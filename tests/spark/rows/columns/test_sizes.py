"""Bounds of the texts of rows."""

import random
from math import inf

import pyarrow as pa
import pytest

from penstock.spark.rows.columns.row_texts import row_texts
from penstock.spark.rows.columns.sizes import longest_text
from tests.spark.rows.columns import random_columns

pytestmark = pytest.mark.unit


def test_no_text_is_longer():
    rng = random.Random(5)
    for _ in range(200):
        array = random_columns.columns(rng)
        texts = row_texts(array, keeps_nulls=True).to_pylist()
        assert max(len(text.encode()) for text in texts) <= longest_text(array)


def test_of_other_types_nothing_is_known():
    assert longest_text(pa.array([{"a": None}], pa.struct([("a", pa.duration("s"))]))) == inf
