"""The memory of Spark's JVM."""

import pytest

from penstock.spark.execution.memory import cores_of, jvm_memory

pytestmark = pytest.mark.unit
GIB = 2**30


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[*]", 12), ("local[3]", 3), ("local[4,2]", 4), ("local[*, 2]", 12)],
)
def test_cores_of_a_local_master(master, cores):
    assert cores_of(master, 12) == cores


@pytest.mark.parametrize(
    ("cores", "machine", "memory"),
    [(2, 24 * GIB, "1280m"), (16, 64 * GIB, "4864m"), (64, 24 * GIB, "8192m"), (2, GIB, "1024m")],
)
def test_it_grows_with_the_cores_and_leaves_most_to_others(cores, machine, memory):
    assert jvm_memory(cores, machine) == memory
