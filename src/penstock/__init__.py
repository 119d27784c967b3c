"""Policies for Kafka records and topics, enforced before anything is stored."""
