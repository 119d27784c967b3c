"""Proposes policies for a topic by a sample of its records: `penstock suggest`."""
