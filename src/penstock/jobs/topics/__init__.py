"""The topics of a job: names, sizes, settings, excerpts, and how tasks reach their cluster."""
