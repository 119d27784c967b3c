"""Metrics, liveness and readiness of a gateway, over HTTP (`metrics.listener`).

`counts` gets the events, and counts them in `cells`; `gauges` reads the current state;
`exposition` writes both in Prometheus' text format. `readiness` says in words what is missing, with
what `broker_checks` know of the brokers. `http_server` speaks HTTP; `metrics_listener` puts all of
it together. Without `metrics.listener` there is no object of this package, and nothing is counted.
"""
