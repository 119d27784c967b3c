"""The order of rows that are written: that of the offsets, within each partition."""

import pyarrow as pa
import pytest

from penstock.kafka.cluster.ranges import Partition
from penstock.spark.sink.penstock_format.source_order import (
    OrderLostError,
    ReadOffsets,
    SourceOrder,
    check_together,
)

pytestmark = pytest.mark.unit
PLACES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


def batch(*places):
    return pa.RecordBatch.from_pylist(
        [dict(zip(PLACES.names, place, strict=True)) for place in places], PLACES
    )


def test_offsets_that_rise_in_each_partition_are_in_order():
    order = SourceOrder("out")
    order.add(batch(("a", 0, 5), ("a", 1, 2), ("a", 0, 7), ("b", 0, 1)))
    order.add(batch())
    order.add(batch(("a", 0, 7), ("a", 0, 9), ("a", 1, 3)))
    assert order.read == {
        Partition("a", 0): ReadOffsets(5, 9),
        Partition("a", 1): ReadOffsets(2, 3),
        Partition("b", 0): ReadOffsets(1, 1),
    }


@pytest.mark.parametrize(
    "batches",
    [
        [batch(("a", 0, 5), ("a", 0, 4))],
        [batch(("a", 0, 5)), batch(("a", 0, 4))],
        [batch(("a", 0, 3), ("a", 0, 5), ("a", 1, 1)), batch(("a", 1, 2), ("a", 0, 4))],
        [batch(("a", 0, 5), (None, None, None), ("a", 0, 4))],
        [batch(("a", 0, 5), ("a", 0, None), ("a", 0, 4))],
    ],
)
def test_a_step_back_is_an_error_that_names_the_place_and_what_to_do(batches):
    order = SourceOrder("out")
    with pytest.raises(OrderLostError) as error:
        for some in batches:
            order.add(some)
    assert str(error.value).startswith(
        "topic out: the rows of a-0 are not in its order (offset 4 comes after 5), and nothing is "
        "written: sort the frame with sortWithinPartitions('topic', 'partition', 'offset')"
    )
    assert "failOnOrderLoss" in str(error.value)


def test_rows_without_a_place_have_no_order():
    order = SourceOrder("out")
    order.add(batch((None, 0, 5), ("a", None, 4), ("a", -1, 3), ("a", 0, None), (None, 0, 1)))
    order.add(batch(("a", 0, 5)).drop_columns(["topic"]))
    order.add(batch(("a", 0, 4)).drop_columns(["offset"]))
    assert order.read == {}


def test_random_rows_are_in_order_exactly_if_no_partition_steps_back(chance):
    for _ in range(300):
        places = [
            (chance.choice("ab"), chance.randrange(2), chance.randrange(20))
            for _ in range(chance.randrange(1, 7))
        ]
        if chance.random() < 0.5:
            places.sort(key=lambda place: place[2])
        cut = chance.randrange(len(places) + 1)
        rising = all(
            mine == sorted(mine)
            for of in (("a", 0), ("a", 1), ("b", 0), ("b", 1))
            for mine in [[place[2] for place in places if place[:2] == of]]
        )
        order = SourceOrder("out")
        try:
            order.add(batch(*places[:cut]))
            order.add(batch(*places[cut:]))
            found = True
        except OrderLostError:
            found = False
        assert found == rising, places


def test_a_partition_in_several_tasks_is_an_error():
    of = {Partition("a", number): ReadOffsets(0, 9) for number in range(3)}
    first, other = dict(list(of.items())[:2]), dict(list(of.items())[2:])
    check_together("out", [first, {}, other])
    with pytest.raises(OrderLostError, match=r"topic out: several tasks have records of a-1, "):
        check_together("out", [first, {Partition("a", 1): ReadOffsets(10, 12)}])
