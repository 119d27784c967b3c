"""The share of bad records over the last minute."""

from penstock.gateway.produce.bad_shares import BAD_MIN, WINDOW_S, BadShares


def test_a_share_is_over_the_last_minute():
    now = [1000.0]
    shares = BadShares(lambda: now[0])
    assert shares.add("t", 50, 100) == 0.5
    assert shares.add("other", 0, 100) == 0.0
    now[0] += WINDOW_S / 2
    assert shares.add("t", 0, 100) == 0.25
    now[0] += WINDOW_S / 2
    assert shares.add("t", 0, 100) == 0.0


def test_few_bad_records_have_no_share():
    shares = BadShares(lambda: 0.0)
    assert shares.add("t", BAD_MIN - 1, BAD_MIN - 1) == 0.0
    assert shares.add("t", 1, BAD_MIN + 1) == 0.5
