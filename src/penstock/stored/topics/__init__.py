"""The topics of a job: their names, sizes and settings, and how tasks reach their cluster."""
