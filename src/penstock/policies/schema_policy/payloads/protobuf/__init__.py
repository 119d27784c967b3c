"""Protobuf: .proto files, and messages of their types."""
