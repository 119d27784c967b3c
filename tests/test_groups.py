"""Which process of `make test` runs which files."""

from types import SimpleNamespace

import pytest

from tests.groups import Scheduling, needs_session


class Process:
    """A process that runs tests at once, as far as a process of pytest-xdist would."""

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.waiting, self.files, self.shutting_down = [], [], False

    def send_runtest_some(self, indices):
        self.waiting += indices

    def shutdown(self):
        self.shutting_down = True


def run(files, processes):
    """Run files of five tests each; return the files that each process has run."""
    tests = [f"{file}::test_{number}" for file in files for number in range(5)]
    options = SimpleNamespace(loadscopereorder=False, tx=["popen"] * processes, px=[])
    config = SimpleNamespace(
        option=options, getvalue=lambda name: getattr(options, name, None), hook=None,
        getoption=lambda name: getattr(options, name, None),
    )  # fmt: skip
    schedule = Scheduling(config)
    nodes = [Process(f"gw{number}") for number in range(processes)]
    for node in nodes:
        schedule.add_node(node)
        schedule.add_node_collection(node, tests)
    schedule.schedule()
    count = 0
    while not schedule.tests_finished or any(node.waiting for node in nodes):
        for node in nodes:
            # The last test of a process waits for the next, or for the end.
            if len(node.waiting) > (not node.shutting_down and not schedule.tests_finished):
                index = node.waiting.pop(0)
                node.files.append(tests[index].split("::")[0])
                schedule.mark_test_complete(node, index)
        count += 1
        assert count < 1000, "processes wait for tests"
    assert sorted(file for node in nodes for file in node.files) == sorted(files * 5)
    return [list(dict.fromkeys(node.files)) for node in nodes]


SPARK = [f"tests/spark/test_{number}.py" for number in range(6)]
OTHERS = [f"tests/cli/test_{number}.py" for number in range(9)]


def test_two_processes_have_a_session_and_run_the_files_on_it_first():
    first, second, third, fourth = run(OTHERS[:4] + SPARK + OTHERS[4:], 4)
    assert first[:3] + second[:3] == [SPARK[0], SPARK[2], SPARK[4], SPARK[1], SPARK[3], SPARK[5]]
    assert not set(SPARK) & {*third, *fourth}
    assert third[0] == OTHERS[0]
    assert fourth[0] == OTHERS[1]


def test_processes_with_a_session_run_other_files_at_the_end():
    first, second, third = run(SPARK[:2] + OTHERS, 3)
    assert first[0] == SPARK[0]
    assert second[0] == SPARK[1]
    assert set(first[1:]) | set(second[1:]) | set(third) == set(OTHERS)
    assert first[1:]
    assert second[1:]


def test_a_process_without_a_session_ends_when_only_files_on_spark_are_left():
    first, second, third = run(SPARK + OTHERS[:1], 3)
    assert set(first + second) == set(SPARK)
    assert third == OTHERS[:1]


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("files", [SPARK, OTHERS, OTHERS[:1] + SPARK, SPARK[:1]])
def test_all_files_are_run_once_on_any_number_of_processes(files, processes):
    run(files, processes)


def test_all_files_of_hostile_clients_are_run_by_one_process():
    hostile = [f"tests/hostile/test_{number}.py" for number in range(4)]
    ran = run([OTHERS[0], hostile[0], OTHERS[1], *hostile[1:], *OTHERS[2:]], 3)
    assert [sum(file in hostile for file in files) for files in ran].count(0) == 2


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/spark/jobs/test_split.py::test_to_topics", True),
        ("tests/parity/test_parity.py::test_the_corpus[records]", True),
        ("tests/jobs/test_audit.py::test_ranges[spark]", True),
        ("tests/jobs/test_audit.py::test_ranges[zstd-spark]", True),
        ("tests/jobs/test_audit.py::test_ranges[local]", False),
        ("tests/cli/test_program.py::test_without_spark[sparkless]", False),
        ("tests/test_unit.py::test_a", False),
    ],
)
def test_files_need_a_session_by_their_folder_or_by_a_parameter_of_a_test(test, expected):
    assert needs_session(["tests/cli/test_program.py::test_a", test]) is expected
