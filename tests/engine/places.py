"""Places of workers in a schedule."""

PLACES = [("t", number) for number in range(10)]
