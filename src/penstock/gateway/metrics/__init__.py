"""Metrics, liveness and readiness of a gateway, over HTTP (`metrics.listener`).

`counts` is told of what happens, and counts it in `cells`; `gauges` reads what is so at the moment;
`exposition` writes both in Prometheus' text format. `readiness` says in words what is missing, with
what `broker_checks` know of the brokers. `http_server` speaks HTTP; `metrics_listener` puts all of
it together. Without `metrics.listener` there is no object of this package, and nothing is counted.
"""
