"""A Kafka client of raw record batches: the bytes of records are neither decoded nor copied.

Its interface blocks, for Spark's Python tasks and the driver; inside, one thread of the process
runs an event loop with aiokafka's connections (TLS, SASL, frames). Requests and responses are
written and read by `kio` and `penstock.kafka.wire`. Nothing of it is pickled: a task gets the plain
properties of the configuration file, and each process connects by itself.
"""
