"""One run of a suite."""

from tests.conformance.outcomes import Outcome
from tests.conformance.run import attempt
from tests.conformance.suite import Suite


class Sound(Suite):
    name, version, needs, broker, least = "sound", "1", (), {}, (1, 1)

    def prepare(self):
        pass

    def run(self, address, output, tests=None):
        return dict.fromkeys(tests or ["a", "b"], Outcome.PASSED)


class Unable(Sound):
    def run(self, address, output, tests=None):
        raise TimeoutError("no topics")


def test_a_run_gives_the_outcomes_of_its_tests(tmp_path):
    suite = Sound(tmp_path, short=True, seed=1)

    assert attempt(suite, "localhost:1", tmp_path / "run", ["a"]) == {"a": Outcome.PASSED}


def test_a_suite_that_cannot_start_has_no_passed_tests_and_a_reason(tmp_path):
    suite = Unable(tmp_path, short=True, seed=1)

    assert attempt(suite, "localhost:1", tmp_path / "run") == {}
    assert "no topics" in (tmp_path / "run" / "failure.txt").read_text()
