"""Delta tables that are refused; `make spark-tables` writes real tables."""

from types import SimpleNamespace

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.sink.tables.delta_problems import check_constraints

pytestmark = pytest.mark.unit


def session(**properties):
    found = [(key.replace("__", "."), value) for key, value in properties.items()]
    return SimpleNamespace(sql=lambda _: SimpleNamespace(collect=lambda: found))


@pytest.mark.parametrize(
    "condition",
    ["value.id > 0", "VALUE IS NOT NULL", "`value`.`id` > 0", "size ( value . tags ) < 5"],
)
def test_constraints_of_values(condition):
    with pytest.raises(ConfigurationError) as raised:
        check_constraints(session(delta__constraints__pos=condition), "db.orders")
    assert str(raised.value) == (
        f"table:db.orders: the constraint pos ({condition}) is of value, and is not checked before "
        "records are written, so one record would end the stream: use a policy, such as Rules, and "
        "ALTER TABLE db.orders DROP CONSTRAINT pos"
    )


@pytest.mark.parametrize(
    "condition",
    ["offset >= 0", "topic <> 'value'", "headers [ 0 ] . value IS NULL", "old_value > 0"],
)
def test_other_constraints(condition):
    check_constraints(session(delta__constraints__pos=condition, owner="value"), "db.orders")
