"""Rings without memory."""


class FakeRing:
    """A ring with fixed figures, and batches that were recalled in the worker's hand."""

    state = 3, 5, 2, 1, False
    late = [5], [6]

    def __init__(self, number, threads):
        self.number, self.threads = number, threads
        self.plan = b""
        self.open = []
        self.calls = []

    def recall(self):
        self.calls.append("recall")
        return self.plan

    def resume(self):
        self.calls.append("resume")

    def close(self):
        self.calls.append("close")
        return self.plan

    def look(self):
        self.calls.append("look")

    def abandon(self):
        self.calls.append("abandon")

    def open_plans(self):
        return self.open

    def expect_mark(self, number):
        self.calls.append(f"expect mark {number}")

    def take_late(self):
        return self.late

    def figures(self):
        return self.state


class FakePool:
    """The native pool."""

    observed_count = 0

    def __init__(self):
        self.slots = []
        self.observed = [], [], []

    def take_observed(self):
        observed, self.observed = self.observed, ([], [], [])
        return observed

    def set(self, slots):
        self.slots = slots


class FakeNative:
    """The native module."""

    Ring = FakeRing
    RingPool = FakePool


class IdleRing(FakeRing):
    """A ring without batches."""

    state = 0, 0, 0, 0, False
    late = [], []


class IdleNative(FakeNative):
    """The native module, whose rings have no batches."""

    Ring = IdleRing
