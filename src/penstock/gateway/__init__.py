"""A Kafka proxy: clients connect here instead of to the brokers.

`server` puts the parts together; `starting` and `reloading` have the steps of a start and of a
reload. `listening` accepts connections; `sessions` has the protocol state of a connection, without
I/O, and `routes`, the table of the APIs and their handlers; `lane` passes connections to native
threads while they need no Python. `produce` and `admin` handle the requests that are held;
`context` has the arguments of their handlers, `observing` metrics, the console and the audit trail.
No package knows the gateway as a whole: each of them has a protocol of the parts that it uses
(`gateway.py` in three of them).

The event loop never runs a user's class and never waits for a file: policies run in workers,
outputs have bounded queues. Nothing here knows the jobs over stored records. Begin with
`sessions/routes.py`, and then follow a request through `produce/produce_exchange.py`.
"""
