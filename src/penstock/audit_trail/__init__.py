"""Reads the audit trails of gateways (docs/monitoring.md), each line once, in bounded memory.

`files` finds the lines of files, also of rotated and compressed files; `counts` counts what they
say, without what is there twice (`numbers`), and says what is missing.
"""
