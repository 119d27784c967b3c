"""Records in files: read, and audited in this process."""
