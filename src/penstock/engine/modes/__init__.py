"""The modes that store a refused record: `quarantine` and `mark`."""
