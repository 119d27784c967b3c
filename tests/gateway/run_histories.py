"""Play many histories of producers; `make model`.

    python -m tests.gateway.run_histories [count] [first seed]

Ends with 1 if one of them fails, and names the seeds; `histories.World(seed).walk()` plays one.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.gateway.histories import World

COUNT = 1_000_000
PROCESSES = 2
AT_ONCE = 2_000
SEEDS_SHOWN = 5


def play(seeds: Iterable[int]) -> tuple[Counter[str], dict[str, list[int]]]:
    """Return how many histories of each kind were played, and which failed, by what went wrong."""
    played: Counter[str] = Counter()
    failed: dict[str, list[int]] = defaultdict(list)
    for seed in seeds:
        world = World(seed)
        try:
            world.walk()
        except AssertionError as error:
            failed[f"{world.kind}: {str(error)[:40]}"].append(seed)
        played[world.kind] += 1
    return played, dict(failed)


def main(arguments: list[str]) -> int:
    """Play them in several processes."""
    count = int(arguments[0]) if arguments else COUNT
    first = int(arguments[1]) if len(arguments) > 1 else 0
    began = time.monotonic()
    parts = [
        range(start, min(start + AT_ONCE, first + count))
        for start in range(first, first + count, AT_ONCE)
    ]
    played: Counter[str] = Counter()
    failed: dict[str, list[int]] = defaultdict(list)
    with ProcessPoolExecutor(PROCESSES) as processes:
        for place, (some, wrong) in enumerate(processes.map(play, parts), 1):
            played += some
            for what, seeds in wrong.items():
                failed[what] += seeds
                print(f"failed: {what}: {seeds[:SEEDS_SHOWN]}", flush=True)
            if place % 25 == 0:
                took = time.monotonic() - began
                print(f"{played.total()} histories, {took:.0f} s", flush=True)
    for kind, number in sorted(played.items()):
        print(f"{number:>9} {kind}")
    wrong_count = sum(len(seeds) for seeds in failed.values())
    print(f"{wrong_count} of {played.total()} histories failed")
    for what, seeds in sorted(failed.items(), key=lambda one: -len(one[1])):
        print(f"{len(seeds):>9} {what}: {sorted(seeds)[:SEEDS_SHOWN]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
