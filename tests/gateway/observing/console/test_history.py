"""An hour in a bounded number of points."""

import json

from penstock.gateway.observing.console.history import POINT_S, POINTS_MAX, FigureHistory
from tests.gateway.observing.console.totals import NOTHING


def sampled(history, seconds, a_second=1):
    points = []
    for second in range(1, seconds + 1):
        totals = NOTHING._replace(requests=second * a_second)
        point = history.sample(totals, float(second), 1000.0 + second)
        if point is not None:
            points.append(point)
    return points


def test_the_history_has_a_point_for_every_ten_seconds():
    history = FigureHistory(NOTHING, 0.0, 1000.0)
    points = sampled(history, 3 * POINT_S + 5, a_second=7)

    assert [point.at for point in points] == [1010, 1020, 1030]
    assert {point.requests for point in points} == {7}
    assert json.loads(history.as_text())["points"] == [point.as_json() for point in points]


def test_the_history_is_limited_to_an_hour():
    history = FigureHistory(NOTHING, 0.0, 1000.0)
    sampled(history, (POINTS_MAX + 5) * POINT_S)

    found = json.loads(history.as_text())
    assert len(found["points"]) == found["points_max"] == POINTS_MAX
    assert found["points"][0]["at"] == 1000 + 6 * POINT_S


def test_the_current_point_is_over_the_last_ten_seconds():
    history = FigureHistory(NOTHING, 0.0, 1000.0)
    assert history.now.requests == 0
    sampled(history, 4, a_second=7)
    assert (history.now.requests, history.now.seconds) == (7, 4)
    for second in range(5, 30):
        history.sample(NOTHING._replace(requests=28), float(second), 1000.0 + second)
    assert (history.now.requests, history.now.seconds) == (0, 10)
