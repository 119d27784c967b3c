"""Clients' own test suites, directly against a Kafka and through the gateway: `make conformance`."""
