"""`examples/pipelines` on a Spark: a first update, a second, a kill between two, a full refresh.

The project is what this Spark's `init` makes, with the example's lines added.
"""

import os
import shutil
import signal
from pathlib import Path

import pyarrow.parquet as pq

from tests.gateways import wait_until
from tests.limits import HANGS_S
from tests.spark.pipelines.projects import Project, files_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipelines"
PYTHON = "transformations/example_python_materialized_view.py"
LINES = 3
ROW = '{"id": %d, "order_date": "2026-11-04", "amount": %d, "currency": "%s"}\n'
COUNTS = {
    "dated": ("keep", 4, 1),
    "positive": ("drop", 4, 1),
    "orders_quarantine": ("quarantine", 4, 1),
}


def with_added_lines(made: str) -> str:
    """Return the Python file that `init` makes, with the lines of the example."""
    lines = (EXAMPLE / PYTHON).read_text().splitlines()
    added = [line for line in lines if "dp.expect" in line]
    [imported] = [line for line in lines if "import pipelines" in line]
    assert len(added) + 1 == LINES
    text = made.replace("from pyspark import pipelines as dp", imported)
    text = text.replace("@dp.materialized_view\n", "\n".join(["@dp.materialized_view", *added, ""]))
    assert len(set(text.splitlines()) - set(made.splitlines())) == LINES
    return text


def run_scenario(folder: Path, spark: Path, environment: dict[str, str]) -> None:
    """Run the updates, and check the tables after each.

    Args:
        spark: The folder of Spark.
        environment: The variables for its command.
    """
    project = Project.initialised(folder / "orders", spark, environment)
    file = project.folder / PYTHON
    file.write_text(with_added_lines(file.read_text()))
    shutil.copytree(EXAMPLE / "orders", project.folder / "orders")
    shutil.copy(EXAMPLE / "transformations" / "orders.py", file.parent)

    project.update()
    assert rows(project, "example_sql_materialized_view") == [0, 2, 4, 6]
    assert counts(project, "example_python_materialized_view") == {
        "even": ("keep", 5, 5),
        "small": ("drop", 8, 2),
    }
    assert rows(project, "orders") == [1, 4, 5]
    assert rows(project, "orders_quarantine") == [3]
    assert counts(project, "orders") == COUNTS

    good, bad = [1, 4, 5], [3]

    def add() -> int:
        """Add two good orders, one to drop, and one to quarantine."""
        number = 10 * (len(good) + 1)
        new = [(number, 5, "EUR"), (number + 1, 5, "GBP"), (number + 2, 0, "EUR")]
        new.append((number + 3, 7, "USD"))
        (project.folder / "orders" / f"{number}.json").write_text("".join(ROW % row for row in new))
        good.extend((number, number + 3))
        bad.append(number + 1)
        return len(bad)

    def check() -> None:
        more = len(bad) - 1
        assert rows(project, "orders") == good, "each row once"
        assert rows(project, "orders_quarantine") == bad
        assert counts(project, "orders") == {
            name: (action, passed + more * (4 if name == "dated" else 3), failed + more * (name != "dated"))
            for name, (action, passed, failed) in COUNTS.items()
        }  # fmt: skip

    add()
    project.update()
    check()
    updates = add()
    # The table of all rows is written, and those that read it are perhaps not.
    kill_after(project, project.warehouse / "orders_judged" / "_spark_metadata" / str(updates - 1))
    project.update()
    check()
    project.update("--full-refresh-all")
    check()


def kill_after(project: Project, commit: Path) -> None:
    """Kill an update as soon as it has committed rows to a table."""
    assert not commit.exists()
    process = project.start()
    try:
        wait_until(lambda: commit.exists() or process.poll() is not None, HANGS_S, what=str(commit))
        assert commit.exists(), process.returncode
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def rows(project: Project, table: str) -> list[int]:
    """Return the ids of a table."""
    return sorted(row["id"] for row in read(project, table))


def counts(project: Project, table: str) -> dict[str, tuple[str, int, int]]:
    """Return what each expectation of a table counted."""
    return {
        row["expectation"]: (row["action"], row["passed"], row["failed"])
        for row in read(project, f"{table}_expectations")
    }


def read(project: Project, table: str) -> list[dict]:
    """Return the rows of a table, without a session of Spark."""
    return [
        row
        for file in files_of(project.warehouse / table)
        for row in pq.read_table(file).to_pylist()
    ]
