"""The result of a suite, and its findings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.conformance.expected import Expected, reason
from tests.conformance.outcomes import Finding, Outcome, compare, count
from tests.conformance.worlds import DIRECTLY, WAYS


@dataclass
class Way:
    """One way to Kafka.

    Attributes:
        attempts: The outcomes of each test, run by run.
        judged: How many records the gateways let pass, and did not, by outcome.
        faults: What the gateways should not have logged.
        seconds: How long all of it took.
    """

    attempts: dict[str, list[Outcome]] = field(default_factory=dict)
    judged: Mapping[str, float] = field(default_factory=dict)
    faults: Sequence[str] = ()
    seconds: float = 0.0

    def add(self, outcomes: Mapping[str, Outcome]) -> None:
        """Add the outcomes of a run."""
        for name, outcome in outcomes.items():
            self.attempts.setdefault(name, []).append(outcome)


@dataclass
class Result:
    """One suite.

    Attributes:
        suite: Its name.
        version: Its version.
        least: So many tests have to pass directly.
        not_run: Why it was not run; empty if it was.
        left_out: Whether somebody wanted it left out.
        ways: What came of it, way by way.
    """

    suite: str
    version: str
    least: int = 0
    not_run: str = ""
    left_out: bool = False
    ways: dict[str, Way] = field(default_factory=dict)

    def found(self, expected: Sequence[Expected]) -> Iterator[tuple[str, str, Finding]]:
        """Yield way, test and finding, for each test in each way through the gateway."""
        if DIRECTLY not in self.ways:
            return
        directly = self.ways[DIRECTLY].attempts
        for way in list(WAYS)[1:]:
            if way not in self.ways:
                continue
            through = self.ways[way].attempts
            for test in sorted({*directly, *through}):
                is_expected = bool(reason(expected, self.suite, test, way))
                runs = through.get(test, ())
                yield way, test, compare(directly.get(test, ()), runs, is_expected=is_expected)

    def shortcomings(self, expected: Sequence[Expected]) -> list[str]:
        """Return why this is not green, apart from differences: nothing, where it is."""
        if self.left_out:
            return []
        if self.not_run:
            return [f"{self.suite} is not run: {self.not_run}"]
        lacking = [f"{self.suite} {way} is not run" for way in WAYS if way not in self.ways]
        if DIRECTLY in self.ways:
            passed = count(self.ways[DIRECTLY].attempts, Outcome.PASSED)
            if passed < self.least:
                lacking.append(
                    f"{self.suite}: only {passed} tests pass directly, not {self.least}: "
                    "it shows nothing"
                )
        lacking += [
            f"{self.suite} {name}: {fault[:400]}"
            for name, way in self.ways.items()
            for fault in way.faults[:5]
        ]
        return lacking + [
            f"{self.suite} {test} ({way}): passes directly, and does not through the gateway"
            for way, test, finding in self.found(expected)
            if finding is Finding.DIFFERENT
        ]
