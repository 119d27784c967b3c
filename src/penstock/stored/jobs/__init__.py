"""Jobs over topics: audit, split, redact and redrive, their runners, and how far they have come."""
