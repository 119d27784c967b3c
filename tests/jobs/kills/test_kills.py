"""`split`, its stream and `redrive`, killed at random moments: each record is written once."""

import pytest

from tests.jobs.kills.brokers import replicated_brokers
from tests.jobs.kills.rounds import Round

pytestmark = [pytest.mark.system, pytest.mark.spark_processes]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with replicated_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


def test_a_round(round_seed, brokers, tmp_path):
    attacked = Round(round_seed, brokers, tmp_path)
    try:
        attacked.run()
    finally:
        print(f"\n--chaos-seed={round_seed}: {'; '.join(attacked.attacks)}")
