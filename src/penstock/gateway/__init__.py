"""The first door: clients connect here instead of to the brokers.

`server` listens; `connection` moves the bytes of one client; `session` decides about them,
without sockets; `handlers` know single APIs; `routing` says which; `addresses` knows where
brokers are and where clients find them; `discovery` asks the cluster on the gateway's own
behalf.
"""
