"""Requests to a schema registry, and the kept responses."""
