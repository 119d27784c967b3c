"""The Kafka client of Penstock's own principal.

It reads and writes raw record batches, whose records are neither decoded nor copied, and sends
requests about topics, configs and offsets (`admin`).

Its interface blocks, for threads of the gateway, Spark's Python tasks and the driver; inside, one
thread of the process runs an event loop with aiokafka's connections (TLS, SASL, frames). Requests
and responses are written and read by `kio` and `penstock.kafka.wire`. Nothing of it is pickled: a
task gets the plain properties of the configuration file, and each process connects by itself.
"""
