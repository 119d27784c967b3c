"""Values as Python's objects: of JSON, Avro and Protobuf, for the columns of tables."""
