"""The files that `penstock dev` writes to its scratch folder."""

from typing import Final

CONFIGURATION: Final = """\
# The configuration that `penstock dev` uses. For your own cluster, change
# upstream.bootstrap.servers, and run `penstock gateway` with this file.
upstream.bootstrap.servers={kafka}
listeners=PLAINTEXT://{address}

# Metrics and the console: open http://{console}/.
metrics.listener={console}

# The policy (KIP-940), and the topics that it judges.
record.validation.policy.class.name=policy.Orders
topics.orders.record.validation.policy=order
"""

POLICY: Final = '''\
"""A sample policy: orders are JSON objects with an id and an amount above zero."""

import json

from penstock.policy import InvalidRecordException, RecordValidationPolicy


class Orders(RecordValidationPolicy):
    def validate(self, topic, record):
        try:
            order = json.loads(record.value or b"")
        except ValueError:
            raise InvalidRecordException("an order must be JSON")
        if not isinstance(order, dict) or "id" not in order:
            raise InvalidRecordException("an order must have an id")
        amount = order.get("amount")
        if not isinstance(amount, (int, float)) or not amount > 0:
            raise InvalidRecordException("an order's amount must be above zero")
'''
