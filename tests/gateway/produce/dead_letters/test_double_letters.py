"""The line about dead letters that may be stored twice."""

from structlog.testing import capture_logs

from penstock.gateway.produce.dead_letters.double_letters import DoubleLetters


def test_it_is_logged_once_a_minute_with_the_number_of_times():
    now = [0.0]
    doubles = DoubleLetters(lambda: now[0])
    with capture_logs() as logs:
        for seconds in (0.0, 1.0, 59.0, 61.0, 62.0):
            now[0] = seconds
            doubles.warn(f"at {seconds}")
    assert [(line["reason"], line["times"]) for line in logs] == [("at 0.0", 1), ("at 61.0", 3)]
