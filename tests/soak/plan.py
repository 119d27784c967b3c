"""The faults of a stage and their times, drawn from a seed alone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Lane:
    """Faults that happen in sequence.

    Attributes:
        kinds: Each happens once before any is repeated.
        pause: The minimum and maximum seconds between two faults.
    """

    kinds: tuple[str, ...]
    pause: tuple[float, float]


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        at: Seconds after the start.
        seed: The seed of its other random choices.
    """

    at: float
    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.at:7.1f} s  {self.kind}"


LANES: Final = {
    "brokers": Lane(("stop a broker", "kill a broker", "move leaders"), (18, 35)),
    "gateways": Lane(("stop a gateway", "kill a gateway"), (18, 35)),
    "workers": Lane(("kill a worker",), (6, 14)),
    "connections": Lane(("cut all connections", "cut some connections"), (5, 12)),
    "reloads": Lane(("reload", "reload an invalid file"), (9, 18)),
    "registry": Lane(
        ("registry unreachable", "registry answers 503", "registry silent", "registry hangs up"),
        (9, 18),
    ),
    "topics": Lane(
        (
            "create and delete a topic",
            "create a refused topic",
            "add partitions",
            "alter configs",
            "set refused configs",
        ),
        (3, 9),
    ),
}
_FIRST_AT: Final = 4.0


def draw(seed: int, seconds: float) -> dict[str, list[Fault]]:
    """Return the faults of each lane: the same for the same seed, except at the end."""
    return {name: _lane(lane, f"{seed} {name}", seconds) for name, lane in LANES.items()}


def _lane(lane: Lane, seed: str, seconds: float) -> list[Fault]:
    chance = random.Random(seed)
    at = _FIRST_AT + chance.uniform(0, lane.pause[1] - lane.pause[0])
    made: list[Fault] = []
    bag: list[str] = []
    while at < seconds:
        bag = bag or chance.sample(lane.kinds, len(lane.kinds))
        made.append(Fault(round(at, 1), bag.pop(), chance.randrange(2**32)))
        at += chance.uniform(*lane.pause)
    return made


def in_order(lanes: dict[str, list[Fault]]) -> Sequence[Fault]:
    """Return the faults of all lanes by their time."""
    return sorted((fault for lane in lanes.values() for fault in lane), key=lambda fault: fault.at)
