"""A clock that stands still until a test changes it."""


class Clock:
    """Seconds, for code that takes a clock."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds
