"""Rows and columns of frames, and tables as sources."""
