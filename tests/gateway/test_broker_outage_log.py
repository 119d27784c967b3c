"""An unavailable broker is logged once a minute, however many clients try to connect to it."""

from structlog.testing import capture_logs

from penstock.configuration import Address
from penstock.gateway.broker_outage_log import ADDRESSES_MAX, LINES_MAX, BrokerOutageLog

ONE, TWO = Address("one", 9092), Address("two", 9092)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_has_a_log_line_a_minute_with_the_attempts_since_the_last_line():
    clock = Clock()
    outages = BrokerOutageLog(clock)
    with capture_logs() as lines:
        for second in range(125):
            clock.now = float(second)
            for _ in range(3):
                outages.failed(1, ONE, "refused")
    assert [line.get("attempts") for line in lines] == [None, 180, 180]
    assert {line["event"] for line in lines} == {"broker cannot be reached"}
    assert {line["log_level"] for line in lines} == {"warning"}
    assert (lines[0]["node"], lines[0]["address"], lines[0]["reason"]) == (1, "one:9092", "refused")


def test_each_broker_has_its_own_line():
    outages = BrokerOutageLog(Clock())
    with capture_logs() as lines:
        for address in (ONE, TWO, ONE, TWO):
            outages.failed(None, address, "refused")
    assert [line["address"] for line in lines] == ["one:9092", "two:9092"]


def test_the_return_of_a_broker_is_logged_once_and_the_next_outage_at_once():
    clock = Clock()
    outages = BrokerOutageLog(clock)
    with capture_logs() as lines:
        outages.reached(ONE)
        for _ in range(5):
            outages.failed(1, ONE, "refused")
        clock.now = 12.34
        outages.reached(ONE)
        outages.reached(ONE)
        outages.failed(1, ONE, "refused")
    first, again, later = lines
    assert (again["event"], again["log_level"]) == ("broker can be reached again", "info")
    assert (again["address"], again["attempts"], again["after_s"]) == ("one:9092", 5, 12.3)
    assert later == first


def test_a_broker_that_accepts_every_other_connection_has_few_log_lines_too():
    clock = Clock()
    outages = BrokerOutageLog(clock)
    with capture_logs() as lines:
        for second in range(120):
            clock.now = float(second)
            outages.failed(1, ONE, "timed out")
            outages.reached(ONE)
    assert len(lines) == 2 * LINES_MAX
    assert [line.get("attempts") for line in lines[4:6]] == [59, 1]


def test_addresses_that_never_return_are_forgotten():
    outages = BrokerOutageLog(Clock())
    with capture_logs():
        for number in range(2 * ADDRESSES_MAX):
            outages.failed(1, Address("one", number), "refused")
    assert len(outages._outages) <= ADDRESSES_MAX
