"""KIP-905: repair orders, with `penstock redrive --with repair_orders.RepairOrders`.

An amount that was sent as text becomes a number, and a record without a key gets its customer
as the key. All other records are unchanged.
"""

import orjson

from penstock.policy import ProduceRequestInterceptor, ProduceRequestInterceptorResult


class RepairOrders(ProduceRequestInterceptor):
    """Repairs amounts and keys."""

    def interceptor_topic_pattern(self):
        return "^orders"

    def process_record(self, key, value, topic, partition, headers):
        try:
            order = orjson.loads(value or b"")
        except orjson.JSONDecodeError:
            return ProduceRequestInterceptorResult(key, value)
        if not isinstance(order, dict):
            return ProduceRequestInterceptorResult(key, value)
        if isinstance(order.get("amount"), str):
            try:
                order["amount"] = float(order["amount"])
            except ValueError:
                return ProduceRequestInterceptorResult(key, value)
            value = orjson.dumps(order)
        if key is None and "customer" in order:
            key = str(order["customer"]).encode()
        return ProduceRequestInterceptorResult(key, value)
