"""`make floors` installs the lowest versions that pyproject.toml allows."""

from tests.floors import declared, floors


def test_the_highest_of_several_floors_counts():
    requirements = ["a>=1.9,<2", "a>=1.10", "b-c[sql]>=3", "d<3"]
    assert floors(requirements) == {"a": "1.10", "b-c": "3"}


def test_each_dependency_has_a_floor():
    """But pandas, of which PySpark has the floor."""
    names = {requirement.partition(">=")[0].partition("[")[0] for requirement in declared()}
    assert names - floors(declared()).keys() == {"pandas<3"}
    assert {"aiokafka", "jsonschema-rs", "pyspark"} < names
