"""The share of bad records over the last minute."""

from penstock.gateway.produce.bad_shares import BAD_MIN, WINDOW_S, BadShares


def test_a_share_is_over_the_last_minute():
    now = [1000.0]
    shares = BadShares(lambda: now[0])
    assert shares.add("t", 50, 50) == 0.5
    shares.add_stored("t", 50)
    assert shares.add("other", 0, 100) == 0.0
    now[0] += WINDOW_S / 2
    assert shares.add("t", 0, 100) == 0.25
    shares.add_stored("t", 100)
    now[0] += WINDOW_S / 2
    assert shares.add("t", 25, 75) == 0.125


def test_good_records_count_only_when_they_are_stored():
    shares = BadShares(lambda: 0.0)
    assert shares.add("t", 10, 90) == 0.1
    assert shares.add("t", 0, 0) == 1.0
    shares.add_stored("t", 90)
    assert shares.add("t", 0, 0) == 0.1


def test_few_bad_records_have_no_share():
    shares = BadShares(lambda: 0.0)
    assert shares.add("t", BAD_MIN - 1, 0) == 0.0
    assert shares.add("t", 1, BAD_MIN) == 0.5
