"""Payloads judged by schemas: Avro, JSON Schema and Protobuf."""
