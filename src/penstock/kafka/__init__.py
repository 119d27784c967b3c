"""Kafka itself: its wire format, record batches, a client, and a local cluster. No policy.

`wire` reads and writes requests and responses; `records` reads and writes record batches; both are
without I/O. `client` has the connections to brokers, and what is sent over them: requests, and raw
batches; `cluster` has the metadata, the offsets and the compacted topics of a cluster; `local` runs
a Kafka on this machine. Each of them may import only those before it, `records` not `wire`.

Nothing here knows a policy or a topic level key: what depends on them is in `penstock.engine`, or
above it. Begin with `wire/requests/produce.py` and `records/batch.py`: they read a Produce request.
"""
