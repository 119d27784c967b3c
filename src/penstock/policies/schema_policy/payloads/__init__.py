"""Payloads judged by the schema that wrote them: Avro, JSON and Protobuf."""
