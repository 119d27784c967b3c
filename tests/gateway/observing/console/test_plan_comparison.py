"""Topics for which gateways enforce different plans."""

from structlog.testing import capture_logs

from penstock.gateway.observing.console.merging import Named
from penstock.gateway.observing.console.plan_comparison import TEXTS_MAX, PlanComparison, gauge
from penstock.gateway.observing.plan_watch import TOPICS_MAX
from tests.gateway.observing.console.states import CountingGateway


class World:
    """Gateways with plans, at a time."""

    def __init__(self):
        self.at = 1000.0
        self.comparison = PlanComparison(lambda: self.at)

    def look(self, *plans, after=0.0):
        """Compare; return the events of the log."""
        self.at += after
        gateways = [
            Named(f"gw-{number}", CountingGateway(number).state()) for number in range(len(plans))
        ]
        for gateway, digests in zip(gateways, plans, strict=True):
            gateway.state.plans = digests
        with capture_logs() as lines:
            self.comparison.look(gateways)
        return [(line["event"], line["topics"], line["count"]) for line in lines]


DIFFERENT = {"orders": "a", "same": "x"}, {"orders": "b", "same": "x"}
BEGIN = [("gateways enforce different plans", ["orders"], 1)]
END = [("gateways enforce the same plans again", ["orders"], 1)]


def test_a_difference_is_reported_once_it_has_lasted_a_minute():
    world = World()
    assert world.look(*DIFFERENT) == []
    assert world.look(*DIFFERENT, after=50) == []
    assert world.comparison.topics == []
    assert world.look(*DIFFERENT, after=10) == BEGIN
    assert world.look(*DIFFERENT, after=600) == []
    assert world.comparison.topics == ["orders"]
    assert world.comparison.texts == ["gateways enforce different plans for orders: gw-0 a, gw-1 b"]
    assert gauge(world.comparison).values == {(): 1}
    assert world.look(DIFFERENT[0], DIFFERENT[0], after=3) == []  # it looks every ten seconds
    assert world.look(DIFFERENT[0], DIFFERENT[0], after=7) == END
    assert world.comparison.topics == []


def test_gateways_that_reload_one_after_another_are_no_difference():
    world = World()
    for _ in range(5):
        assert world.look(*DIFFERENT, after=40) == []
        assert world.look(DIFFERENT[0], DIFFERENT[0], after=10) == []


def test_other_plans_meanwhile_are_the_same_difference():
    world = World()
    world.look(*DIFFERENT)
    assert world.look({"orders": "c"}, {"orders": "d"}, after=60) == BEGIN


def test_a_difference_stays_while_a_gateway_does_not_answer():
    world = World()
    world.look(*DIFFERENT)
    world.look(*DIFFERENT, after=60)
    for _ in range(59):
        assert world.look(DIFFERENT[0], after=10) == []
        assert world.comparison.topics == ["orders"]
    assert world.look(*DIFFERENT, after=10) == []
    assert world.look(DIFFERENT[0], DIFFERENT[0], after=10) == END


def test_a_gateway_that_is_gone_is_forgotten_after_ten_minutes():
    world = World()
    world.look(*DIFFERENT)
    world.look(*DIFFERENT, after=60)
    assert world.look(DIFFERENT[0], after=600) == []
    assert world.comparison.topics == []


def test_a_gateway_without_a_plan_for_a_topic_differs():
    world = World()
    plans = {"orders": "a", "same": "x"}, {"same": "x"}
    world.look(*plans)
    assert world.look(*plans, after=60) == BEGIN
    assert world.comparison.texts[0].endswith("gw-0 a, gw-1 no plan")


def test_a_gateway_that_has_looked_no_plans_up_yet_is_not_compared():
    world = World()
    for _ in range(5):
        assert world.look(DIFFERENT[0], {}, DIFFERENT[0], after=60) == []
    assert world.comparison.topics == []
    assert world.look({}, after=60) == []


def test_a_gateway_that_shows_as_many_plans_as_it_can_may_have_others():
    world = World()
    full = {f"topic-{number}": "x" for number in range(TOPICS_MAX)}
    world.look({"orders": "a"}, full)
    assert world.look({"orders": "a"}, full, after=60) != []
    assert "orders" not in world.comparison.topics


def test_few_topics_are_named():
    world = World()
    plans = [{f"t{number:02}": digest for number in range(TEXTS_MAX + 3)} for digest in "ab"]
    world.look(*plans)
    [(_, topics, count)] = world.look(*plans, after=60)
    assert (len(topics), count) == (TEXTS_MAX, TEXTS_MAX + 3)
    assert len(world.comparison.topics) == TEXTS_MAX + 3
    assert world.comparison.texts[-1] == "gateways enforce different plans for 3 more topics"
