"""The files that `penstock init` writes: configuration, policy, unit test, and pyproject.toml."""

from types import MappingProxyType
from typing import Final

from penstock.cli.sample import POLICY

CONFIGURATION_FILE: Final = "penstock.properties"

_CONFIGURATION: Final = """\
# The configuration of a Penstock gateway. `penstock check penstock.properties` validates it, and
# prints the policies of each topic pattern.

# Your Kafka cluster. `penstock dev penstock.properties` starts a local Kafka instead.
upstream.bootstrap.servers=127.0.0.1:9092
# How to connect to the cluster: Kafka's client keys after the prefix `upstream.`. For example:
#upstream.security.protocol=SASL_SSL
#upstream.sasl.mechanism=SCRAM-SHA-512
#upstream.sasl.jaas.config=${file:jaas.conf}

# Where clients connect instead of the cluster. The brokers use the next 100 ports.
listeners=PLAINTEXT://127.0.0.1:9192
# For clients on other machines: listen on all addresses, and set the host name that clients use.
#listeners=PLAINTEXT://0.0.0.0:9192
#advertised.host=gateway.example.com

# The console (open http://127.0.0.1:9100/ in a browser) and Prometheus metrics.
metrics.listener=127.0.0.1:9100

# The policy for records (KIP-940): a class in a Python file in this folder.
record.validation.policy.class.name=orders_policy.Orders
# Enables the policy for the topic `orders`. The policy gets the value; this policy ignores it.
topics.orders.record.validation.policy=order

# Uncomment this to try out the policy: its refusals are counted, but every record is accepted.
#topics.orders.penstock.mode=observe
"""

_TEST: Final = '''\
"""The unit test of the policy. It needs no Kafka and no gateway: run pytest."""

import pytest
from orders_policy import Orders

from penstock.policy.testing import judge


def test_a_good_order_is_accepted():
    [verdict] = judge(Orders, ['{"id": 1, "amount": 12.5}'], topic="orders")
    assert verdict.outcome == "accepted"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no JSON", "an order must be JSON"),
        (None, "an order must be JSON"),
        ('{"amount": 12.5}', "an order must have an id"),
        ('{"id": 2, "amount": -1}', "an order's amount must be above zero"),
        ('{"id": 2}', "an order's amount must be above zero"),
    ],
)
def test_a_bad_order_is_refused_with_a_reason(value, reason):
    [verdict] = judge(Orders, [value], topic="orders")
    assert (verdict.outcome, verdict.code) == ("refused", 87)
    assert verdict.message == reason
'''

_PACKAGE: Final = """\
# Packages the policy: `pip install .` installs it next to Penstock.
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "orders-policy"
version = "0.1.0"
description = "A policy for the topic orders."
requires-python = ">=3.11"
dependencies = ["penstock-kafka"]

[project.optional-dependencies]
test = ["pytest"]

# The short names of this package's policies in Penstock.
[project.entry-points."penstock.policies"]
orders = "orders_policy:Orders"

[tool.hatch.build.targets.wheel]
only-include = ["orders_policy.py"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

FILES: Final = MappingProxyType(
    {
        CONFIGURATION_FILE: _CONFIGURATION,
        "orders_policy.py": POLICY,
        "test_orders_policy.py": _TEST,
        "pyproject.toml": _PACKAGE,
    }
)
"""Texts by file name."""
