"""Connections to the brokers of a cluster: login, metadata, coordinators, retries."""
