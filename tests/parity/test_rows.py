"""Rows by the thousand: each has the verdict of the record whose value it is, in each format."""

import random

import pytest

from penstock.policies.rules.settings import Format
from tests.spark.rows.same_json import same_as_their_json
from tests.spark.rows.same_types import same_as_records

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]


@pytest.fixture
def some(pytestconfig):
    """How many rows there are, and the seed that makes them."""
    seed = pytestconfig.getoption("parity_seed") or random.randrange(2**32)
    return pytestconfig.getoption("parity_records"), seed


@pytest.mark.parametrize("nulls", ["null", "missing"])
def test_rows_are_judged_as_records_with_their_json(spark, some, nulls):
    same_as_their_json(spark, *some, nulls)


@pytest.mark.parametrize("kind", [Format.AVRO, Format.PROTOBUF])
def test_rows_are_judged_as_records_of_avro_and_protobuf(spark, tmp_path, some, kind):
    same_as_records(spark, tmp_path, *some, kind)
