"""Requests to the cluster as the gateway's own principal, through librdkafka."""
