"""Play many histories of producers; `make model`.

    python -m tests.gateway.model.run_histories [count] [first seed]

Every fifth history is of transactions, every tenth of a topic without interceptors. Ends with 1 if a
history fails, and names the seeds; `World(seed, features=features_of(seed)).walk()` plays one,
`TransactionWorld` those of transactions, `OrderWorld` those without interceptors.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from logging import CRITICAL
from typing import Final

import structlog

from tests.gateway.model.histories import World
from tests.gateway.model.history_coverage import Seen, counted, table
from tests.gateway.model.history_features import features_of
from tests.gateway.model.order_histories import OrderWorld
from tests.gateway.model.transaction_histories import TransactionWorld

COUNT: Final = 1_000_000
PROCESSES: Final = 2
AT_ONCE: Final = 2_000
COUNTED_EVERY: Final = 10
"""Counting the coverage costs time: it is done for every tenth part."""
TRANSACTIONS_EVERY: Final = 5
ORDER_EVERY: Final = 10
SEEDS_SHOWN: Final = 5


@dataclass
class Played:
    """The results of some histories.

    Attributes:
        kinds: How many there were of each kind.
        features: How many there were with each special event.
        failed: The seeds of failed histories, by error.
        held_up: How many batches were answered 7 until their client gave them up.
        seen: The coverage.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    failed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    held_up: int = 0
    seen: Seen = field(default_factory=Counter)

    def add(self, other: "Played") -> None:
        """Add others."""
        self.kinds += other.kinds
        self.features += other.features
        self.seen += other.seen
        self.held_up += other.held_up
        for what, seeds in other.failed.items():
            self.failed[what] += seeds


def kind_of(seed: int) -> type[World | OrderWorld]:
    """Choose the kind of a history."""
    if seed % TRANSACTIONS_EVERY == 0:
        return TransactionWorld
    return OrderWorld if seed % ORDER_EVERY == 1 else World


def play(seeds: Iterable[int], *, counts: bool = False) -> Played:
    """Play some histories."""
    played = Played()
    with counted(played.seen) if counts else nullcontext():
        for seed in seeds:
            features = features_of(seed)
            world = kind_of(seed)(seed, features=features)
            try:
                world.walk()
            except Exception as error:
                what = f"{type(error).__name__} " * (not isinstance(error, AssertionError))
                played.failed[f"{world.kind}: {what}{str(error)[:40]}"].append(seed)
            played.kinds[world.kind] += 1
            played.held_up += world.held_up
            for name in str(features).split(", "):
                played.features[name] += 1
    played.failed = dict(played.failed)  # type: ignore[assignment]  # a lambda is not pickled
    return played


def quiet() -> None:
    """Leave out the gateway's warnings."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))


def _play(part: tuple[int, range]) -> Played:
    place, seeds = part
    return play(seeds, counts=place % COUNTED_EVERY == 0)


def report(played: Played, took_s: float) -> Iterable[str]:
    """Print the results of all of them."""
    total = played.kinds.total()
    for what in (played.kinds, played.features):
        yield from (f"{number:>9} {kind}" for kind, number in sorted(what.items()))
        yield ""
    yield f"reached in every {COUNTED_EVERY}th part:"
    yield from table(played.seen)
    yield f"{played.held_up} batches answered 7 until their client gave them up, too"
    yield f"{total / took_s:.0f} histories a second"
    yield f"{sum(map(len, played.failed.values()))} of {total} histories failed"
    for what, seeds in sorted(played.failed.items(), key=lambda item: -len(item[1])):
        yield f"{len(seeds):>9} {what}: {sorted(seeds)[:SEEDS_SHOWN]}"


def main(arguments: Sequence[str]) -> int:
    """Play them in several processes."""
    count = int(arguments[0]) if arguments else COUNT
    first = int(arguments[1]) if len(arguments) > 1 else 0
    began = time.monotonic()
    parts = [
        range(start, min(start + AT_ONCE, first + count))
        for start in range(first, first + count, AT_ONCE)
    ]
    played = Played()
    with ProcessPoolExecutor(PROCESSES, initializer=quiet) as processes:
        for place, some in enumerate(processes.map(_play, enumerate(parts)), 1):
            played.add(some)
            for what, seeds in some.failed.items():
                print(f"failed: {what}: {seeds[:SEEDS_SHOWN]}", flush=True)
            if place % 25 == 0:
                took = time.monotonic() - began
                print(f"{played.kinds.total()} histories, {took:.0f} s", flush=True)
    for line in report(played, time.monotonic() - began):
        print(line)
    return 1 if played.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
