"""Metrics, liveness and readiness of a gateway, over HTTP (`metrics.listener`).

`counts` gets the events, and counts them in `cells`; `gauges` reads the current state;
`exposition` writes both in Prometheus' text format. `readiness` reports why a gateway is not ready,
with the state of the brokers from `broker_checks`. `http_server` speaks HTTP.
`gateway.metrics_listener` puts all of it together, with the console. Without `metrics.listener`
there is no object of this package, and nothing is counted.
"""
