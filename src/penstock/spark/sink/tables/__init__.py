"""Delta and Iceberg tables that records are appended to."""
