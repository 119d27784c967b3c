"""Kafka's client keys behind `upstream.`: security, logins and certificates."""
