"""A Kafka proxy: clients connect here instead of to the brokers.

`server` starts, reloads and stops; `listener` accepts; `connection` owns the sockets of a
client; `session` has its protocol state, without I/O; `routes` is the table of the APIs and their
handlers; `produce` and `admin` have the requests that are held; `addresses` knows where brokers
are and where clients find them.
"""
