"""Jobs over topics: audits of records and of whole batches, split, redact and redrive.

With their runners, and how far they have come.
"""
