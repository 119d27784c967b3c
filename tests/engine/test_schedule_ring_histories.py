"""The schedule and rings: random events lose no batch, judge none twice, and keep deadlines.

`SCHEDULE_HISTORIES` is the number of histories, `SCHEDULE_SEED` the first seed.
"""

import os
import random
from collections import Counter

import pytest

from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.schedule import WorkerLimits
from tests.engine.simulated import MEMORY, REFUSED
from tests.engine.simulated_rings import RingWorld

FIRST = int(os.environ.get("SCHEDULE_SEED", "0"))
COUNT = int(os.environ.get("SCHEDULE_HISTORIES", "300"))


class History:
    """Events in an order that follows from a seed; then the world turns kind."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        pick = self.random.choice
        limits = WorkerLimits(
            pick([1, 1, 2, 3]), pick([True, False]), pick([0.5, 2.0]), 0.5,
            preparation_timeout_s=3.0,
        )  # fmt: skip
        self.world = RingWorld(limits)
        self.world.open()
        self.world.tick()

    def run(self):
        events = [(event, weight) for event, weight in self.weights.items() if weight]
        names, weights = zip(*events, strict=True)
        for event in self.random.choices(names, weights, k=self.random.choice([15, 60, 150])):
            event(self)
        self.world.be_kind(4000)
        self.world.check_end()
        return self.world.figures

    def process(self):
        """Return a process, most often one that judges."""
        living = self.world.living()
        return self.random.choice(
            self.random.choice([self.world.ready, living]) or living or [None]
        )

    def partition(self):
        return self.random.choice("ttu"), self.random.randrange(6)

    def produce(self):
        for _ in range(self.random.choice([1, 1, 3, 10])):
            self.world.produce(self.partition(), self.random.randrange(3))

    def submit(self):
        self.world.submit(self.partition(), self.random.randrange(3))

    def judge_in_ring(self):
        if process := self.process():
            for _ in range(self.random.randrange(5)):
                self.world.begin_in_ring(process)
                self.end_in_ring(process)

    def begin_in_ring(self):
        if process := self.process():
            self.world.begin_in_ring(process)

    def note_in_ring(self):
        if process := self.process():
            self.world.note_in_ring(process)

    def end_in_ring(self, process=None):
        if process := process or self.process():
            verdict = self.random.choices([ACCEPTED, REFUSED, MEMORY], [10, 5, 1])[0]
            send_only = self.random.random() < 0.2 and verdict is not ACCEPTED
            (self.world.send_in_ring if send_only else self.world.end_in_ring)(process, verdict)

    def prepare(self):
        if process := self.process():
            self.world.prepare(process, begins=self.random.random() < 0.6)

    def pass_time(self, seconds):
        for _ in range(round(seconds / 0.05)):
            self.world.tick(0.05)
            if self.random.random() < 0.1:
                self.world.take()

    def be_slow(self):
        """Let a worker be busy with its next batch for some time."""
        if process := self.process():
            self.random.choice([self.world.begin_in_ring, self.world.begin])(process)
            if self.random.random() < 0.3:
                self.world.prepare(process, begins=True)
                self.pass_time(self.random.choice([0.2, 1.0, 2.8]))
                self.world.prepare(process, begins=False)
            self.pass_time(self.random.choice([0.1, 0.2, 0.3, 0.6]))

    def tick(self):
        self.pass_time(self.random.choice([0.05, 0.05, 0.2, 1.0]))

    def rest(self):
        self.pass_time(self.random.choice([2.5, 4.0, 31.0]))

    def take(self):
        self.world.take()

    def go_on(self):
        for _ in range(self.random.randrange(6)):
            self.world.go_on(self.random.randrange(100))

    def judge_job(self):
        if process := self.process():
            self.world.begin(process)
            self.world.end(process)
            self.world.send(process)

    def begin_job(self):
        if process := self.process():
            self.world.begin(process)

    def deliver(self):
        if process := self.process():
            self.world.deliver(process)

    def help_comes(self):
        for process in self.world.living():
            if not process.killed:
                self.world.settle(process)

    def die(self):
        if process := self.process():
            self.world.die(process, by_another=self.random.random() < 0.5)

    def the_killed_die(self):
        for process in self.world.living():
            if process.killed:
                self.world.die(process)

    def garbage(self):
        if process := self.process():
            self.world.garbage(process)

    def break_off(self):
        if process := self.process():
            self.world.break_off(process)

    def leave(self):
        open_batches = [batch for batch in self.world.batches if batch.job is None]
        if open_batches:
            self.world.leave(self.random.choice(open_batches[-8:]))

    weights = {
        produce: 20, submit: 3, judge_in_ring: 8, begin_in_ring: 8, note_in_ring: 4, end_in_ring: 8, prepare: 3,
        be_slow: 6, tick: 8, rest: 1, take: 10, go_on: 8, judge_job: 6, begin_job: 2, deliver: 8,
        help_comes: 8, die: 3, the_killed_die: 3, garbage: 1, break_off: 1, leave: 2,
    }  # fmt: skip


@pytest.mark.thorough
def test_random_histories_of_rings():
    sums = Counter()
    for seed in range(FIRST, FIRST + COUNT):
        try:
            sums.update(History(seed).run())
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
    kinds = {
        "in rings", "blocked", "deadlines", "to blame", "early ACCEPTED", "early FAILED",
        "judged again", "left out in hand", "out of memory",
    }  # fmt: skip
    assert COUNT < 300 or kinds <= set(sums), sums
