"""Metrics, the console and the audit trail of a gateway.

All three get the same events from `penstock.gateway.produce` and `penstock.gateway.admin`. Nothing
here decides anything, and nothing waits for a reader: lost events are counted.
"""
