"""Record batches (magic 2), read within limits and refused in doubt; no I/O.

Nothing is imported here: who needs no more than a header does not wait for the decoder.
"""
