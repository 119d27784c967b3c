"""Rounds of chaos, and their results."""

import random
from collections.abc import Iterator

import pytest

from tests.chaos.rounds import Round
from tests.chaos.world import World

MILD_ROUNDS = 1
_results = pytest.StashKey[list[Round]]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each round, all of them from one seed."""
    if "round_seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("chaos_seed")
        first = random.randrange(1_000_000) if seed is None else seed
        count = metafunc.config.getoption("chaos_rounds") or MILD_ROUNDS
        metafunc.parametrize("round_seed", range(first, first + count))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Judge the rounds together after the last of them."""
    items.sort(
        key=lambda item: "results" in item.fixturenames and "round_seed" not in item.fixturenames
    )


@pytest.fixture(scope="session")
def mild(pytestconfig) -> bool:
    """Return whether rounds lack disturbances by which clients store records twice."""
    return not pytestconfig.getoption("chaos_rounds")


@pytest.fixture(scope="session")
def results(pytestconfig) -> list[Round]:
    """The rounds so far."""
    return pytestconfig.stash.setdefault(_results, [])


@pytest.fixture(scope="module")
def world(tmp_path_factory, pytestconfig) -> Iterator[World]:
    """Brokers and gateways, for all rounds."""
    gateways = pytestconfig.getoption("chaos_gateways")
    with World(tmp_path_factory.mktemp("chaos"), gateways, random.Random()) as running:
        yield running


@pytest.fixture
def show_line(pytestconfig):
    """Returns a function that prints even if output is captured."""
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of pytest-xdist has no terminal
        return print
    capture = pytestconfig.pluginmanager.get_plugin("capturemanager")

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"\n{text}")

    return write


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Print a table of kinds of producers, with the number of rounds with faults."""
    rounds = config.stash.get(_results, [])
    if not rounds:
        return
    terminalreporter.section(f"chaos: {len(rounds)} rounds, producers with at least one")
    columns = (
        "lost",
        "fatal",
        "undropped",
        "misplaced",
        "doubled",
        "disordered",
        "failed",
        "aborted",
    )
    heads = "".join(f"{column:>11}" for column in columns)
    terminalreporter.write_line(f"{'':42}{'records':>9}{heads}")
    for name in [producer.name for producer in rounds[0].accounts]:
        accounts = [a for r in rounds for p, a in r.accounts.items() if p.name == name]
        counts = "".join(f"{sum(1 for a in accounts if a.has(column)):>11}" for column in columns)
        records = sum(len(a.deliveries.acknowledged) for a in accounts)
        terminalreporter.write_line(f"{name:42}{records:>9}{counts}")
