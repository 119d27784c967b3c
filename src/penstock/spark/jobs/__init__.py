"""The jobs over frames and topics: audit, split, redact and redrive."""
