"""What is done to the stage, and when: drawn from a seed, and from nothing else."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Lane:
    """Things of which one is done at a time, one after the other.

    Attributes:
        kinds: All of them are done once before any is done again.
        pause: The least and the longest time from one to the next, in seconds.
    """

    kinds: tuple[str, ...]
    pause: tuple[float, float]


@dataclass(frozen=True)
class Fault:
    """One of them.

    Attributes:
        at: Seconds after the beginning.
        seed: Of what else is drawn when it is done.
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
    "reloads": Lane(("reload", "reload what cannot be used"), (9, 18)),
    "registry": Lane(
        ("registry away", "registry answers 503", "registry silent", "registry hangs up"), (9, 18)
    ),
    "topics": Lane(
        (
            "a topic comes and goes",
            "a topic that is refused",
            "add partitions",
            "alter configs",
            "configs that are refused",
        ),
        (3, 9),
    ),
}
_FIRST_AT: Final = 4.0


def draw(seed: int, seconds: float) -> dict[str, list[Fault]]:
    """Return what is done in each lane; the same for the same seed, but for where it ends."""
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
    return sorted((one for lane in lanes.values() for one in lane), key=lambda one: one.at)
