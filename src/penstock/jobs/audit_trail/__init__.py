"""Reads the audit trails of gateways (docs/monitoring.md), each line once, in bounded memory.

`files` finds the lines of files, also of rotated and compressed files; `counts` counts them,
without duplicates (`numbers`), and reports missing lines.
"""
