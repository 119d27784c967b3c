"""The log line about topics that native threads leave to Python."""

from structlog.testing import capture_logs

from penstock.gateway.lane.left_to_python import LOG_EVERY_S, LeftToPython


def test_a_change_is_logged_at_most_once_a_minute():
    left = LeftToPython()
    looks = [
        ([], 0.0),
        (["a"], 1.0),
        (["a"], 2.0),
        (["a", "b", "c", "d"], LOG_EVERY_S),
        (["a", "b", "c", "d"], 1.0 + LOG_EVERY_S),
        ([], 2.0 + LOG_EVERY_S),
        (["a", "b", "c", "d"], 3.0 + LOG_EVERY_S),
        ([], 1.0 + 2 * LOG_EVERY_S),
        ([], 1.0 + 9 * LOG_EVERY_S),
    ]
    with capture_logs() as events:
        for topics, now in looks:
            left.look(dict.fromkeys(topics).keys(), now)
    assert [(event["count"], event["among_them"]) for event in events] == [
        (1, ["a"]),
        (4, ["a", "b", "c"]),
        (0, []),
    ]
    assert {event["log_level"] for event in events} == {"info"}
