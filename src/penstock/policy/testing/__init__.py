"""Functions for unit tests of policies: the gateway's engine in this process, without a cluster.

::

    from penstock.policy import Record
    from penstock.policy.testing import judge, judge_topic

    def test_orders_need_a_key():
        [good, bad] = judge(KeyRequired, [Record(0, b"k", b"v"), {"value": b"v"}])
        assert good.outcome == "accepted"
        assert bad.message == "a key is required"

    def test_topics_are_small():
        assert judge_topic(Sizes, "orders", num_partitions=50).code == 44
"""

from penstock.policy.testing.judging import TOPIC_ID, Verdict, judge, judge_configs, judge_topic

__all__ = ["TOPIC_ID", "Verdict", "judge", "judge_configs", "judge_topic"]
