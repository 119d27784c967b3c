"""Requests about topics and configs: one file for each API that a handler answers."""
